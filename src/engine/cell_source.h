#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include "base/buffer.h"
#include "engine/profiler.h"

namespace penstock::inline v0 {

struct placement;  // plan/placement.h

/// Values on their way to a cell: in C order of the placement's counts, of the array's type.
struct lent_values {
  std::span<const std::byte> bytes;
  std::byte* block = nullptr;  ///< memory to be returned; null: they are in the worker's own memory
};

/// A cell in its stored form.
struct lent_encoded {
  std::span<const std::byte> bytes;
  bool is_fill = false;   ///< every element is the fill value, bit for bit
  void* owner = nullptr;  ///< memory of the interface
};

/// The source of a write's values that are not in host memory: the interface to a device engine.
///
/// Belongs to one write. Called by its workers, several at a time, without the job's lock.
class cell_source {
 public:
  virtual ~cell_source() = default;

  /// Sets the write and the profile to which its work belongs. Called before the first worker runs.
  virtual void record_as(const recorded_read&) {}

  /// Returns the elements of the caller's memory in the box `where`; waits for them. They are in memory of the source,
  /// or in `spare` if it has none left.
  virtual result<lent_values> take(const placement& where, buffer& spare) = 0;
  virtual void give(const lent_values& values) noexcept = 0;

  /// Returns the encoded bytes of a cell that the write replaces as a whole, once; waits for them. Empty: the host
  /// encodes it.
  /// The source records the time of encoding.
  virtual result<std::optional<lent_encoded>> take_encoded(cell_id) { return std::optional<lent_encoded>(); }
  virtual void give_encoded(const lent_encoded&) noexcept {}
};

}  // namespace penstock::inline v0
