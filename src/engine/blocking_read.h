#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/store.h>

namespace penstock::inline v0 {

/// One read, waited for, of any kind of store: metadata and the indexes of a printed plan.
struct blocking_read {
  std::vector<std::byte> bytes;
  version seen;
  std::uint64_t object_size = byte_range::kAll;
  bool sent_all = false;  ///< as in `read_done`
};

/// \param max_bytes  A longer object is `corrupt_data`.
/// \param may_end_early, same_handle  As in `byte_read`.
/// \error As the store's; no note is added.
result<blocking_read> read_and_wait(const store& from, std::string_view key, const byte_range& range,
                                    std::uint64_t max_bytes, const version* expected = nullptr,
                                    bool may_end_early = false, bool same_handle = false);

/// The same for many objects, requested together: one round trip if the store is asynchronous.
std::vector<result<blocking_read>> read_all_and_wait(const store& from, std::span<const std::string> keys,
                                                     const byte_range& range, std::uint64_t max_bytes);

/// Reads several ranges of one object, requested together: one round trip if the store is asynchronous.
/// \param expected  As in `byte_read`. \returns In the order of `ranges`, none of them `kAll` long.
/// \error The first of the store's, with a note of its range.
result<std::vector<blocking_read>> read_ranges_and_wait(const store& from, std::string_view key,
                                                        std::span<const byte_range> ranges, const version* expected);

}  // namespace penstock::inline v0
