#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A right to write that another writer can take over: later writes of a stopped writer must change nothing.
/// Thread-safe.
class write_fence {
 public:
  virtual ~write_fence() = default;
  /// The guard that stores with `store_traits::guards` check together with each write; null: no right is needed.
  virtual const write_guard* guard() const noexcept = 0;
  /// Checks in the store whether the right is still valid.
  /// \error conflict  Another writer took it over.
  virtual result<> check() = 0;
};

/// The known state of elements beyond an array's edge. Thread-safe.
class edge_watch {
 public:
  virtual ~edge_watch() = default;
  /// True if the stored array has no element beyond the writer's shape, and no append is running. False if either
  /// condition is not met, or unknown.
  virtual bool quiet() = 0;
};

}  // namespace penstock::inline v0
