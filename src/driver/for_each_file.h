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
/// flight, because most of the work is to wait for storage, also with the file systems of clusters. Local files start
/// with one thread for each core; the others join if a batch of files shows that it waits.
void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work);

/// Calls `work` for the numbers below `count` on the context's threads: what it does is computing.
void side_by_side(std::size_t count, context& with, const std::function<void(std::size_t)>& work);

/// What changes whenever a file does; all of it that a manifest has.
struct file_stamp {
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const file_stamp&, const file_stamp&) = default;
};

/// A file as it is now.
struct queried_file {
  file_stamp stamp;
  version seen;  ///< as the store of local files knows it
};

/// Queries local files, in parallel. Nothing for those that do not exist.
/// \error permission_denied, io_error  Of the first that cannot be queried.
result<std::vector<std::optional<queried_file>>> query_files(const std::vector<std::string>& paths, context& with);

}  // namespace penstock::inline v0
