#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock::inline v0 {

/// What this process may use of its machine. Batch systems and containers often give it a part.
struct process_limits {
  unsigned machine_processors = 1;
  unsigned allowed_processors = 1;  ///< by the affinity of the calling thread, which threads that it starts inherit
  std::optional<double> cgroup_processors;     ///< processor time per time, by the quota of its control groups
  std::uint64_t machine_memory = 0;            ///< bytes; 0: unknown
  std::optional<std::uint64_t> cgroup_memory;  ///< bytes, by the limits of its control groups

  /// Threads that can run at the same time: at least 1.
  unsigned processors() const noexcept;
  /// Bytes; 0: unknown.
  std::uint64_t memory() const noexcept;
};

/// The limits of now. Control groups of versions 1 and 2 are read, and those that contain them.
///
/// \param root where `/proc/self/cgroup` and `/sys/fs/cgroup` are; for tests.
///
/// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of Linux; sched_getaffinity(2).
process_limits find_process_limits(const std::string& root = {});

}  // namespace penstock::inline v0
