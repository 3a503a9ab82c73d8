#pragma once

/// \file The loops of a strided copy: the common part of all kinds.

#include <cstddef>
#include <cstdint>

#include <penstock/shape.h>
#include "base/checked.h"

namespace penstock::inline v0 {

/// One dimension of a copy; `from` is unused by fills.
struct nest_level {
  std::uint64_t count;
  std::int64_t to, from;
};

/// A copy in normal form: no dimension of length 1, none that could be merged with its neighbour, the longest strides
/// first.
struct loop_nest {
  nest_level levels[kMaxRank];
  std::size_t rank = 0;
};

// Distance to element `i`; unsigned, because a hostile shape may wrap, although it is never accessed.
constexpr std::int64_t distance(std::uint64_t i, std::int64_t stride) noexcept {
  return static_cast<std::int64_t>(i * static_cast<std::uint64_t>(stride));
}

// Brings the dimensions into normal form and moves both pointers to the first element. Returns false if nothing is to
// be copied.
inline bool normalise(loop_nest& nest, std::byte*& to, const strides& to_strides, const std::byte*& from,
                      const strides* from_strides, const extents& counts) noexcept {
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] == 0) return false;
    if (counts[d] == 1) continue;
    nest_level next{counts[d], to_strides[d], from_strides == nullptr ? 0 : (*from_strides)[d]};
    if (next.to < 0) {
      // Backwards on both sides equals forwards: the elements are the same.
      to += distance(next.count - 1, next.to);
      if (from_strides != nullptr) from += distance(next.count - 1, next.from);
      next.to = -next.to;
      next.from = -next.from;
    }
    // Nearly always sorted already: C order copies to C order.
    std::size_t at = nest.rank++;
    while (at > 0 && magnitude(nest.levels[at - 1].to) < magnitude(next.to)) {
      nest.levels[at] = nest.levels[at - 1];
      --at;
    }
    nest.levels[at] = next;
  }
  std::size_t kept = 0;
  for (std::size_t d = 0; d < nest.rank; ++d) {
    const nest_level& inner = nest.levels[d];
    if (kept > 0) {
      nest_level& outer = nest.levels[kept - 1];
      if (outer.to == distance(inner.count, inner.to) &&
          (from_strides == nullptr || outer.from == distance(inner.count, inner.from))) {
        outer = {outer.count * inner.count, inner.to, inner.from};
        continue;
      }
    }
    nest.levels[kept++] = inner;
  }
  nest.rank = kept;
  return true;
}

// Calls `run` for every position of the first `rank` dimensions.
template <class Run>
void for_each_run(const loop_nest& nest, std::size_t rank, std::byte* to, const std::byte* from, Run run) noexcept {
  if (rank == 0) return run(to, from);
  const nest_level& last = nest.levels[rank - 1];
  std::uint64_t at[kMaxRank];
  for (std::size_t d = 0; d + 1 < rank; ++d) at[d] = 0;
  for (;;) {
    std::byte* t = to;
    const std::byte* f = from;
    for (std::uint64_t i = 0; i < last.count; ++i, t += last.to, f += last.from) run(t, f);
    std::size_t d = rank - 1;
    for (;;) {
      if (d-- == 0) return;
      const nest_level& each = nest.levels[d];
      if (++at[d] < each.count) {
        to += each.to;
        from += each.from;
        break;
      }
      to -= distance(each.count - 1, each.to);
      from -= distance(each.count - 1, each.from);
      at[d] = 0;
    }
  }
}

}  // namespace penstock::inline v0
