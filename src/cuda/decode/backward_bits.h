#pragma once

// zstd's bit streams are read from their end towards their start (RFC 8878, 4.1).

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

/// Reads a bit stream backwards. In front of its start are bits of other things, which do not matter:
/// `exhausted_exactly` is false once one of them was taken.
///
/// Three words of the stream are in registers: the next bits lie in the first two, and the third is on its way from
/// memory. Nothing looks at it before the first has been used up, and a word is loaded whether the stream has one left
/// or not: a load that is left out at times would make the warp wait for the one before it.
class backward_bits {
 public:
  /// False when there are no bytes, or the last one lacks the bit that marks the end. Up to seven bytes in front of the
  /// stream are read too: in a frame, there are always some.
  PENSTOCK_DEVICE bool start(byte_view stream) {
    if (stream.size == 0) return false;
    const std::uint32_t last = stream.begin[stream.size - 1];
    if (last == 0) return false;
    front_ = misalignment(stream.begin, 4) + 4;
    words_ = computed_once(stream.begin - front_);
    // The first word to use up is that of the last bytes; what it has behind them is consumed already, as is the mark.
    const std::uint32_t end = front_ + stream.size, tail = end & 3u;
    next_ = static_cast<std::int32_t>(end / 4) - 1;
    used_ = 32 - 8 * tail + static_cast<std::uint32_t>(8 - highest_bit(last));
    second_ = 0;
    third_ = load_bytes(words_ + (end - tail), tail);
    load();
    load();
    return true;
  }

  /// Makes 32 bits of `ahead` valid. At most 32 are consumed between two calls.
  PENSTOCK_DEVICE void refill() {
    if (used_ < 32) return;
    used_ -= 32;
    load();
  }

  /// The next 32 bits, from the highest on; after a refill.
  PENSTOCK_DEVICE std::uint32_t ahead() const { return shift_in(first_, second_, static_cast<int>(used_)); }
  PENSTOCK_DEVICE void skip(std::uint32_t count) { used_ += count; }

  /// A refill, and the next `count` bits, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t take(int count) { return append_to(0, count); }
  /// A refill; `front`, and behind it as its lowest bits the next `count`, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t append_to(std::uint32_t front, int count) {
    refill();
    const std::uint32_t value = shift_in(front, ahead(), count);
    skip(static_cast<std::uint32_t>(count));
    return value;
  }

  /// Whether more bits were taken than there are.
  PENSTOCK_DEVICE bool overrun() const { return left() < 0; }
  /// Whether all bits were taken, and `more` that are none.
  PENSTOCK_DEVICE bool exhausted_exactly(std::uint32_t more = 0) const {
    return left() + static_cast<std::int32_t>(more) == 0;
  }

 private:
  /// Bits; of a block's streams, not nearly as many as 2^31.
  PENSTOCK_DEVICE std::int32_t left() const { return 32 * (next_ + 4) - static_cast<std::int32_t>(used_ + 8 * front_); }
  PENSTOCK_DEVICE void load() {
    const bool there = next_ >= 0;
    first_ = second_;
    second_ = there ? third_ : 0;  // the first word has nothing of the stream
    third_ = load_word(words_ + 4 * static_cast<std::size_t>(there ? next_ : 0));
    --next_;
  }

  const std::uint8_t* words_;             ///< a word in front of the stream
  std::uint32_t front_;                   ///< the stream's first byte, counted from there
  std::int32_t next_;                     ///< the word to load next, counted from there; below 0: none is left
  std::uint32_t first_, second_, third_;  ///< the words behind `next_`
  std::uint32_t used_;                    ///< bits of `first_` that are consumed; 32 or more: a refill is due
};

}  // namespace penstock::inline v0::device
