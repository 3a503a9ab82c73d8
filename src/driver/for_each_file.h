#pragma once

#include <penstock/context.h>
#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::inline v0 {

/// Calls `work` for the numbers below `files`, on as many threads of the pool as the context may have requests in
/// flight: most of the work is waiting for storage, also with cluster file systems. Local files start with one thread
/// for each core; the other threads join if a batch of files had to wait. Throws what `work` throws.
void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work);

/// Calls `work` for the numbers below `count` on the context's threads. The work is computation. Throws what it throws.
void side_by_side(std::size_t count, context& with, const std::function<void(std::size_t)>& work);

/// Properties of a file that change whenever it does; a manifest has only these.
struct file_stamp {
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const file_stamp&, const file_stamp&) = default;
};

/// A file as it is now.
struct queried_file {
  file_stamp stamp;
  version seen;  ///< version in the form of the store for local files
};

/// Queries local files, in parallel. Nothing for those that do not exist.
/// \error permission_denied, io_error  The first file that cannot be queried.
result<std::vector<std::optional<queried_file>>> query_files(const std::vector<std::string>& paths, context& with);

}  // namespace penstock::inline v0
