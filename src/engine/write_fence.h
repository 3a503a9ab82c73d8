#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A right to write that another writer can take over: what a writer that was stopped writes after that must change
/// nothing. Thread-safe.
class write_fence {
 public:
  virtual ~write_fence() = default;
  /// What stores with `store_traits::guards` check together with each write; null: there is no such right.
  virtual const write_guard* guard() const noexcept = 0;
  /// Asks the store whether the right still holds.
  /// \error conflict  Another writer took it over.
  virtual result<> check() = 0;
};

/// What is known of elements beyond an array's edge. Thread-safe.
class edge_watch {
 public:
  virtual ~edge_watch() = default;
  /// True where the stored array has no element beyond the shape that the writer sees, and no append is under way.
  /// False where either is so, or unknown.
  virtual bool quiet() = 0;
};

}  // namespace penstock::inline v0
