#pragma once

#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::inline v0 {

/// Where the bytes that a read wants lie in an object whose size is known.
struct byte_extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Whether a read may go on when its object has version `seen`. What an expectation leaves open (a word of 0) may be
/// anything: manifests that go to another machine know a file's size and time, not its number there.
inline bool is_expected(const byte_read& wanted, const version& seen) noexcept {
  if (wanted.expected == nullptr) return true;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t word = wanted.expected->word[i];
    if (word != 0 && word != seen.word[i]) return false;
  }
  return true;
}
error version_has_changed();

/// Resolves `wanted.range` against an object of `size_bytes`. A range of length 0 lies in every object.
///
/// `max_bytes` bounds what the read returns: the object where all of it is wanted, else the range.
/// \error corrupt_data  The range leaves the object (also where the last n bytes of a shorter object are wanted), or
/// the
///                      bytes are more than `max_bytes` or not as many as the destination takes.
result<byte_extent> find_extent(const byte_read& wanted, std::uint64_t size_bytes);

/// Memory for `length` bytes: the destination, or the reader's buffer.
/// \error internal  The read came without either. \error resource_exhausted  As the buffer says.
result<std::span<std::byte>> find_room(const byte_read& wanted, std::uint64_t length);

/// Whether a write may go on. `present` is null where there is no object.
/// \error version_changed  The condition does not hold. \error invalid_argument  It names no version to match.
result<> check_condition(const write_condition& condition, const version* present);

/// The error of a write whose guard does not hold.
error guard_is_gone(const write_guard& guard);
/// Whether the guard holds. `begin` is what its object begins with, at least as long as the prefix where the object is.
/// \error conflict  It does not hold.
result<> check_guard(const write_guard& guard, std::span<const std::byte> begin);

}  // namespace penstock::inline v0
