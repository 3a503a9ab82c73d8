#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include "base/mutex.h"

namespace penstock::inline v0 {

/// The parts of a joined array that are not open yet. A read opens those that it needs. Thread-safe.
///
/// The parts of the last read remain open, and all of them once a read needed all.
class closed_parts {
 public:
  /// Opens the parts [first, end) and joins them. It may block and call an interpreter.
  using opener = std::function<result<array>(std::size_t first, std::size_t end)>;
  /// \param ends  Of each part along `axis`; not empty.
  closed_parts(std::size_t axis, std::vector<std::uint64_t> ends, opener open);

  std::size_t axis() const noexcept { return axis_; }

  /// Some parts, joined.
  struct joined {
    array of;
    std::uint64_t begin;  ///< the first element along the axis
  };
  /// The parts with the elements [low, high] along the axis. \error The opener's.
  result<joined> needed(std::uint64_t low, std::uint64_t high) const;
  result<array> all() const;

 private:
  result<joined> open(std::size_t first, std::size_t end) const;

  const std::size_t axis_;
  const std::vector<std::uint64_t> ends_;
  const opener open_;
  struct range {
    std::size_t first, end;
    array of;
  };
  mutable mutex mutex_;
  mutable std::optional<range> last_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::inline v0
