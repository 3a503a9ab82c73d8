#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/plan.h>

namespace penstock::inline v0 {

/// Sums over plan batches: the cost of a read before it is made.
struct plan_totals {
  std::uint64_t requests = 0;  ///< for data, without index reads and version checks
  std::uint64_t checks = 0;
  std::uint64_t index_requests = 0;
  std::uint64_t index_bytes = 0;    ///< upper bound
  std::uint64_t fetched_bytes = 0;  ///< of ranges; only the store has the sizes of whole objects
  std::uint64_t whole_objects = 0;
  std::uint64_t cells = 0, direct = 0, scattered = 0, in_place = 0, filled = 0;
  std::uint64_t decoded_bytes = 0;
};

/// Adds one batch to the sums.
void add(plan_totals& totals, const read_plan& plan, std::span<const source> sources);

/// Writes the operations of one batch, one in each line, until `lines_left` is used up.
///
///     fetch 'c/0/1', bytes [0, 2048): 2 cells
///       decode chunk (0, 4) from [0, 1024), direct
///       decode chunk (0, 5) from [1024, 2048), scatter
///     fill chunk (0, 6)
void append_text(std::string& out, const read_plan& plan, std::span<const source> sources, std::size_t& lines_left);

}  // namespace penstock::inline v0
