#pragma once

// zstd's bit streams are read from their end towards their start (RFC 8878, 4.1).

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// Reads a bit stream backwards. Behind its start there are zeros, and `exhausted_exactly` is false.
///
/// The next word is loaded before it is needed, so a GPU does not wait for it.
class backward_bits {
 public:
  /// False when there are no bytes, or the last one lacks the bit that marks the end.
  PENSTOCK_DEVICE bool start(byte_view stream) {
    begin_ = stream.begin;
    at_ = stream.begin + stream.size;
    bits_ = 0;
    available_ = 0;
    next_bits_ = 0;
    if (stream.size == 0) return false;
    const std::uint32_t last = at_[-1];
    if (last == 0) return false;
    load(misalignment(at_, 4));
    refill();
    refill();
    skip(8 - highest_bit(last));
    return true;
  }

  /// Makes at least 33 bits available, or all that are left. Called before `take` and `peek` of 32 bits in all.
  PENSTOCK_DEVICE void refill() {
    if (available_ > 32 || next_bits_ == 0) return;
    bits_ |= static_cast<std::uint64_t>(next_) << (32 - available_);
    available_ += next_bits_;
    load(0);
  }

  /// The next `count` bits without consuming them, 1 to 32.
  PENSTOCK_DEVICE std::uint32_t peek(int count) const {
    return static_cast<std::uint32_t>(bits_ >> 32) >> (32 - count);
  }

  PENSTOCK_DEVICE void skip(int count) {
    bits_ <<= count;
    available_ -= count;
  }

  /// The next `count` bits, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t take(int count) {
    const auto value = static_cast<std::uint32_t>((bits_ >> 1) >> (63 - count));
    skip(count);
    return value;
  }

  /// Whether more bits were taken than there are.
  PENSTOCK_DEVICE bool overrun() const { return available_ < 0; }
  /// Whether all bits were taken and no more.
  PENSTOCK_DEVICE bool exhausted_exactly() const { return available_ == 0 && next_bits_ == 0; }

 private:
  /// Loads the word in front of `at_`: `bytes` of it, 0 meaning as many as there are up to 4.
  PENSTOCK_DEVICE void load(std::uint32_t bytes) {
    const auto left = static_cast<std::uint32_t>(at_ - begin_);
    if (bytes == 0 && left >= 4) {
      at_ -= 4;
      next_ = load_word(at_);
      next_bits_ = 32;
      return;
    }
    if (bytes == 0) bytes = 4;
    if (bytes > left) bytes = left;
    at_ -= bytes;
    next_ = bytes == 0 ? 0 : load_bytes(at_, bytes) << (8 * (4 - bytes));
    next_bits_ = static_cast<int>(8 * bytes);
  }

  const std::uint8_t* begin_;
  const std::uint8_t* at_;  ///< behind the last byte that no word holds yet
  std::uint64_t bits_;      ///< from the highest bit
  int available_;           ///< of `bits_`; below 0 when too many were taken
  std::uint32_t next_;      ///< from the highest bit
  int next_bits_;
};

}  // namespace penstock::inline v0::device
