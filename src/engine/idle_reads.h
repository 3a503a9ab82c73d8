#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::inline v0 {

class read_job;

/// Jobs of reads in the background that have ended, for later reads: their plans and tables stay warm. A job refers to
/// this, and not to its context, because a ticket may outlive the context. Thread-safe.
class idle_reads {
 public:
  idle_reads() { jobs_.reserve(kMost); }
  idle_reads(const idle_reads&) = delete;
  idle_reads& operator=(const idle_reads&) = delete;

  /// A job without other references; null: there is none.
  std::shared_ptr<read_job> take();
  /// Drops the read of `job`, which must have ended; the last reference of its caller. The thread that ended the read
  /// may refer to it for a moment longer. Jobs of large reads are dropped, because their plans take memory.
  void give(std::shared_ptr<read_job> job);
  void clear();

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::uint64_t kMostCells = 256;

  std::mutex mutex_;
  std::vector<std::shared_ptr<read_job>> jobs_;
};

}  // namespace penstock::inline v0
