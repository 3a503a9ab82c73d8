#pragma once

// Reads Deflate's bits, which start at the lowest bit of each byte (RFC 1951, 3.1.1).

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// The lowest `count` bits of `value`, 0 to 31.
PENSTOCK_DEVICE std::uint32_t low_bits(std::uint32_t value, std::uint32_t count) { return value & ((1u << count) - 1); }

/// Reads bits of a part forwards; `overrun` is true once more were taken than it has.
///
/// Four words of the part are in registers: the next 64 bits are in the first three, and the fourth is being loaded. It
/// is not used before the first has been used up, and a word is loaded whether the part has one left or not: a load
/// that is sometimes skipped would make the warp wait for the one before it.
class deflate_bits {
 public:
  /// Begins at a byte of the part, at most its size.
  /// \param elsewhere  A word of global memory with any content, which is loaded if the part has none left.
  PENSTOCK_DEVICE deflate_bits(byte_view view, std::uint32_t at, const void* elsewhere) : view_(view) {
    const std::uint32_t behind = view.size - head_bytes();
    whole_ = behind / 4;
    last_ = load_bytes(view.begin + (view.size - (behind & 3u)), behind & 3u);
    words_ = computed_once(whole_ != 0 ? view.begin + head_bytes() : static_cast<const std::uint8_t*>(elsewhere));
    seek(at);
  }

  /// Continues at a byte of the part.
  PENSTOCK_DEVICE void seek(std::uint32_t at) {
    const std::uint32_t head = head_bytes();
    const auto from = static_cast<std::int64_t>(at) - head;
    next_ = static_cast<std::int32_t>(from >> 2);
    used_ = 8 * (static_cast<std::uint32_t>(from) & 3u);
    PENSTOCK_SMALL_LOOP
    for (int i = 0; i < 4; ++i) load();
    if (from < 0) first_ = load_bytes(view_.begin, head) << (32 - 8 * head);
  }

  /// Makes `ahead` and `ahead_of` valid. At most 32 bits are consumed between two calls.
  PENSTOCK_DEVICE void refill() {
    if (used_ < 32) return;
    used_ -= 32;
    load();
  }
  /// The next 32 bits, after a refill.
  PENSTOCK_DEVICE std::uint32_t ahead() const { return shift_out(first_, second_, used_); }
  /// The 32 bits that follow the next `count`, 0 to 31, of which nothing is consumed yet; after a refill.
  PENSTOCK_DEVICE std::uint32_t ahead_of(std::uint32_t count) const {
    return shift_out(ahead(), shift_out(second_, third_, used_), count);
  }
  PENSTOCK_DEVICE void skip(std::uint32_t count) { used_ += count; }
  /// A refill, followed by the next bits, 0 to 31.
  PENSTOCK_DEVICE std::uint32_t take(std::uint32_t count) {
    refill();
    const std::uint32_t value = low_bits(ahead(), count);
    skip(count);
    return value;
  }

  /// The number of the part's bits before the next one; more than it has if too many were taken.
  PENSTOCK_DEVICE std::uint64_t position() const {
    return static_cast<std::uint64_t>(32 * static_cast<std::int64_t>(next_ - 4) + 8 * head_bytes() + used_);
  }
  PENSTOCK_DEVICE bool overrun() const { return position() > 8 * static_cast<std::uint64_t>(view_.size); }
  /// The first byte with unread bits, or the part's end.
  PENSTOCK_DEVICE std::uint32_t byte() const {
    const std::uint64_t bytes = position() / 8;
    return bytes < view_.size ? static_cast<std::uint32_t>(bytes) : view_.size;
  }
  PENSTOCK_DEVICE std::uint32_t bit() const { return used_ & 7; }
  /// Skips bits up to a whole byte.
  PENSTOCK_DEVICE void to_byte() {
    refill();
    used_ = (used_ + 7) & ~7u;
  }

 private:
  PENSTOCK_DEVICE void load() {
    const auto at = static_cast<std::uint32_t>(next_);
    first_ = second_;
    second_ = third_;
    third_ = at - 1 == whole_ ? last_ : fourth_;
    fourth_ = load_word(words_ + 4 * static_cast<std::size_t>(at < whole_ ? at : 0));
    ++next_;
  }

  /// The number of the part's bytes before its first aligned word.
  PENSTOCK_DEVICE std::uint32_t head_bytes() const {
    const std::uint32_t head = (4 - misalignment(view_.begin, 4)) & 3u;
    return head < view_.size ? head : view_.size;
  }

  byte_view view_;
  const std::uint8_t* words_;  ///< the part's first aligned word
  std::uint32_t whole_;        ///< number of whole words from there
  std::uint32_t last_;         ///< the bytes after them
  std::int32_t next_;          ///< the word to load next, counted from there; -1: bytes before it
  std::uint32_t first_ = 0, second_ = 0, third_ = 0, fourth_ = 0;  ///< the words before `next_`
  std::uint32_t used_;  ///< bits of `first_` that are consumed; 32 or more: a refill is due
};

}  // namespace penstock::inline v0::device
