#pragma once

#include <cstdint>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// Memory of a device engine.
struct device_usage {
  std::uint64_t page_locked_bytes = 0;  ///< host memory that the device copies from: encoded bytes, and waves' tables
  std::uint64_t wave_bytes = 0;         ///< device memory for encoded bytes, tables and scratch
  std::uint64_t result_bytes = 0;       ///< device memory of results, in use and idle
};

/// The interface of one device's engine for the context that owns it.
class device_service {
 public:
  virtual ~device_service() = default;
  virtual device_usage usage() const = 0;
  /// Records finished work of the device: its times, if a profile is running.
  virtual void collect() noexcept = 0;
  /// The same after the device has finished all its work; waits for that.
  virtual void settle() noexcept = 0;
  /// Releases idle memory. Returns false if a driver call has failed: the next read must then create another engine.
  virtual bool clear() = 0;
  /// The failures of reads that were exported and whose outcome was not queried; waits for them.
  virtual result<> outcome() = 0;
};

}  // namespace penstock::inline v0
