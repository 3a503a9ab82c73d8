#pragma once

#include <cstdint>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// What a device engine holds.
struct device_usage {
  std::uint64_t page_locked_bytes = 0;  ///< host memory that the device copies from: encoded bytes, and waves' tables
  std::uint64_t wave_bytes = 0;         ///< device memory for encoded bytes, tables and scratch
  std::uint64_t result_bytes = 0;       ///< device memory of results, in use and idle
};

/// An engine of one device, as the context that owns it sees it.
class device_service {
 public:
  virtual ~device_service() = default;
  virtual device_usage usage() const = 0;
  /// Takes note of what the device has ended with: of its times, where a profile is under way.
  virtual void collect() noexcept = 0;
  /// The same once the device has ended with all that it was given: waits for that.
  virtual void settle() noexcept = 0;
  /// Gives idle memory back. False: a call of the driver has failed, and whoever reads next is to make another engine.
  virtual bool clear() = 0;
  /// What failed in reads that were handed on and at whose outcome nobody has looked; waits for them.
  virtual result<> outcome() = 0;
};

}  // namespace penstock::inline v0
