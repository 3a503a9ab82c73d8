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

/// Calls `work` for the numbers below `files`, on as many threads of the context's pool as it may have requests in
/// flight: what it does is waiting for storage, also behind the file systems of clusters. On its cores alone where
/// nothing is waited for, as with files of this machine until one batch of them says otherwise.
void for_each_file(std::size_t files, const store& from, context& with, const std::function<void(std::size_t)>& work);

/// Calls `work` for the numbers below `count` on the context's threads: what it does is computing.
void side_by_side(std::size_t count, context& with, const std::function<void(std::size_t)>& work);

/// What changes whenever a file does; all of it that a manifest has.
struct file_stamp {
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ns = 0;
};

/// Looks at files of this machine, side by side. Nothing of those that are not there.
/// \error permission_denied, io_error  Of the first that cannot be looked at.
result<std::vector<std::optional<file_stamp>>> file_stamps(const std::vector<std::string>& paths, context& with);

}  // namespace penstock::inline v0
