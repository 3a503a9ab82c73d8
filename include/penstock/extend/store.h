#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

// Helpers with which stores answer reads and writes in the same way. `store` itself is in <penstock/store.h>.

/// Whether `key` names an object below a store's root: segments between single '/', none of them empty, `.` or `..`,
/// and no NUL.
///
/// Keys are built from metadata, which may be hostile: `../../etc/passwd` must not reach a path. Stores without paths
/// refuse the same keys, so that a dataset that works in one store works in all. Allocates nothing on success.
/// \error invalid_argument  With what is wrong in the key.
PENSTOCK_API result<> check_key(std::string_view key);

/// Whether `prefix` can be listed: it is empty, or a key with a final '/'.
/// \error invalid_argument  As `check_key`.
PENSTOCK_API result<> check_prefix(std::string_view prefix);

/// Collects the answer of `store::list`, for stores that go through all of their keys. Not thread-safe.
///
/// A sink may use the store. A store that has a lock therefore calls `add` with it, and `report` without it.
class PENSTOCK_API key_listing {
 public:
  /// \param prefix  As of `list`; outlives this object.
  key_listing(std::string_view prefix, listing what) : prefix_(prefix), what_(what) {}
  /// Adds an object, or the folder that has it; keys outside the prefix are ignored.
  void add(std::string_view key, std::uint64_t size_bytes);
  /// Reports the added names, in the order in which they were added and each folder once, until the sink stops it.
  void report(key_sink& sink) const;

 private:
  std::string_view prefix_;
  listing what_;
  std::vector<std::pair<std::string, std::uint64_t>> found_;
  std::set<std::string, std::less<>> folders_;
};

/// Where the requested bytes are in an object of known size.
struct byte_extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Whether a read may continue when its object has version `seen`. Unset words (0) of the expected version match
/// anything: a manifest that was moved to another machine has a file's size and time, not its inode.
inline bool is_expected(const byte_read& wanted, const version& seen) noexcept {
  if (wanted.expected == nullptr) return true;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t word = wanted.expected->word[i];
    if (word != 0 && word != seen.word[i]) return false;
  }
  return true;
}
PENSTOCK_API error version_has_changed();  ///< of a read whose object has another version than expected

/// Resolves `wanted.range` against an object of `size_bytes`. A range of length 0 is valid in every object.
///
/// `max_bytes` bounds what the read returns: the whole object, or the range.
/// \error corrupt_data  The range exceeds the object (also if it is the last n bytes of a shorter object), is longer
/// than `max_bytes`, or differs in length from the destination.
PENSTOCK_API result<byte_extent> find_extent(const byte_read& wanted, std::uint64_t size_bytes);

/// Memory for `length` bytes: the destination, or the reader's buffer.
/// \error internal  The read has neither. \error resource_exhausted  From the buffer.
PENSTOCK_API result<std::span<std::byte>> find_room(const byte_read& wanted, std::uint64_t length);

/// Whether a write may continue. `present` is null if the object does not exist.
/// \error version_changed  The condition does not hold. \error invalid_argument  It has no version to match.
PENSTOCK_API result<> check_condition(const write_condition& condition, const version* present);

/// The error of a write whose guard does not hold.
PENSTOCK_API error guard_is_gone(const write_guard& guard);
/// Whether the guard holds. `begin` is the beginning of its object, at least as long as the prefix if the object is.
/// \error conflict  It does not hold.
PENSTOCK_API result<> check_guard(const write_guard& guard, std::span<const std::byte> begin);

/// Completes `wanted` from all bytes of its object: copied to the destination, or lent if there is none.
///
/// \param object  Its bytes do not change while `keep_alive` exists.
/// \param keep_alive  Released when the reader no longer uses the lent bytes.
/// \error version_changed  `wanted` expects another version than `seen`. \error corrupt_data  As `find_extent`.
PENSTOCK_API result<read_done> answer_from(const byte_read& wanted, std::span<const std::byte> object,
                                           const version& seen, lease keep_alive);

/// The same for bytes owned by a shared pointer: stores need no `release_fn`.
PENSTOCK_API result<read_done> answer_from(const byte_read& wanted, std::span<const std::byte> object,
                                           const version& seen, std::shared_ptr<const void> owner);

}  // namespace penstock::inline v0
