#pragma once

// zstd's bit streams are read from their end towards their start (RFC 8878, 4.1).

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// Reads a bit stream backwards. Behind its start there are zeros, and `exhausted_exactly` is false.
///
/// The next word is loaded before it is needed, and nothing looks at it until then: an instruction that did, even one
/// that is skipped, would make the warp wait for memory.
class backward_bits {
 public:
  /// False when there are no bytes, or the last one lacks the bit that marks the end. Up to three bytes in front of the
  /// stream are read too: in a frame, there are always some.
  PENSTOCK_DEVICE bool start(byte_view stream) {
    begin_ = stream.begin;
    at_ = stream.begin + stream.size;
    high_ = low_ = 0;
    available_ = 0;
    next_bits_ = 0;
    if (stream.size == 0) return false;
    const std::uint32_t last = at_[-1];
    if (last == 0) return false;
    std::uint32_t head = misalignment(at_, 4);
    if (head > stream.size) head = stream.size;
    if (head != 0) {
      at_ -= head;
      high_ = load_bytes(at_, head) << (32 - 8 * head);
      available_ = static_cast<int>(8 * head);
    }
    load();
    refill();
    refill();
    skip(8 - highest_bit(last));
    return true;
  }

  /// Makes at least 32 bits available, or all that are left. Called before `take` and `peek` of 32 bits in all.
  PENSTOCK_DEVICE void refill() {
    if (available_ > 32 || next_bits_ == 0) return;
    const std::uint32_t word = next_ & ~shift_right(~0u, next_bits_);  // without what lies in front of the stream
    // With 32 bits or fewer, all are in the high word.
    high_ |= shift_right(word, available_);
    low_ = shift_left(word, 32 - available_);
    available_ += next_bits_;
    load();
  }

  /// The next `count` bits without consuming them, 1 to 32.
  PENSTOCK_DEVICE std::uint32_t peek(int count) const { return high_ >> (32 - count); }

  /// Consumes 0 to 32 bits.
  PENSTOCK_DEVICE void skip(int count) {
    high_ = shift_in(high_, low_, count);
    low_ = shift_left(low_, count);
    available_ -= count;
  }

  /// The next `count` bits, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t take(int count) {
    const std::uint32_t value = shift_right(high_, 32 - count);
    skip(count);
    return value;
  }

  /// `front`, and behind it as its lowest bits the next `count`, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t append_to(std::uint32_t front, int count) {
    const std::uint32_t value = shift_in(front, high_, count);
    skip(count);
    return value;
  }

  /// Whether more bits were taken than there are.
  PENSTOCK_DEVICE bool overrun() const { return available_ < 0; }
  /// Whether all bits were taken and no more.
  PENSTOCK_DEVICE bool exhausted_exactly() const { return available_ == 0 && next_bits_ == 0; }

 private:
  /// Loads the word in front of `at_`, a multiple of 4 unless nothing is left.
  PENSTOCK_DEVICE void load() {
    const auto left = static_cast<std::int32_t>(at_ - begin_);
    next_bits_ = 0;
    if (left <= 0) return;
    at_ -= 4;
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(at_));
#endif
    next_ = load_word(at_);
    next_bits_ = left < 4 ? 8 * left : 32;
  }

  const std::uint8_t* begin_;
  const std::uint8_t* at_;  ///< behind the last byte that no word holds yet
  std::uint32_t high_;      ///< the next 32 bits, from the highest
  std::uint32_t low_;       ///< those behind them
  int available_;           ///< bits in both; below 0 when too many were taken
  std::uint32_t next_;      ///< from the highest bit; its lowest may be none of the stream's
  int next_bits_;
};

}  // namespace penstock::inline v0::device
