#pragma once

// zstd's bit streams are read from their end towards their start (RFC 8878, 4.1).

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

/// Words of a stream from its end, each loaded into a register well before it is used.
class loaded_words {
 public:
  PENSTOCK_DEVICE void start(const std::uint8_t* words, std::int32_t next) {
    words_ = computed_once(words);
    next_ = next;
  }
  /// Called before each refill, whether that takes a word or not.
  PENSTOCK_DEVICE void turn() const {}
  /// The next word; an arbitrary one if no word is left.
  PENSTOCK_DEVICE std::uint32_t take() {
    const std::uint32_t word = load_word(words_ + 4 * static_cast<std::size_t>(next_ < 0 ? 0 : next_));
    --next_;
    return word;
  }
  PENSTOCK_DEVICE std::int32_t next() const { return next_; }

 private:
  const std::uint8_t* words_;
  std::int32_t next_;  ///< index of the next word in `words_`
};

inline constexpr int kStagedWords = 8;

/// The same through shared memory, to which words are copied six refills before their use. For lanes that refill at
/// different times: if words were loaded into registers, all lanes would wait as soon as one of them needs its word.
class staged_words {
 public:
  /// \param ring  `kStagedWords` words, at distances of `kLanes` words.
  PENSTOCK_DEVICE explicit staged_words(std::uint32_t* ring) : ring_(ring) {}

  PENSTOCK_DEVICE void start(const std::uint8_t* words, std::int32_t next) {
    words_ = computed_once(words);
    next_ = next;
    PENSTOCK_SMALL_LOOP
    for (int i = 0; i < kStagedWords - 1; ++i) copy(next_ - i);
    finish_copies<0>();
  }
  PENSTOCK_DEVICE void turn() const { finish_copies<kStagedWords - 3>(); }
  PENSTOCK_DEVICE std::uint32_t take() {
    const std::uint32_t word = *slot(next_);
    copy(next_ - (kStagedWords - 1));  // into the slot of the previous word, which is in a register
    --next_;
    return word;
  }
  PENSTOCK_DEVICE std::int32_t next() const { return next_; }

 private:
  PENSTOCK_DEVICE std::uint32_t* slot(std::int32_t index) const {
    return ring_ + kLanes * (static_cast<std::uint32_t>(index) % kStagedWords);
  }
  PENSTOCK_DEVICE void copy(std::int32_t index) const {
    start_copy(slot(index), words_ + 4 * static_cast<std::size_t>(index < 0 ? 0 : index));
  }

  std::uint32_t* ring_;
  const std::uint8_t* words_;
  std::int32_t next_;
};

/// Reads a bit stream backwards. The bits before its start belong to other data and are ignored: after one of them was
/// consumed, `exhausted_exactly` returns false.
///
/// Three words of the stream are in registers: the next bits are in the first two, and the third is being loaded. It is
/// not used before the first has been used up, and a word is loaded whether the stream has one left or not: a load that
/// is sometimes skipped would make the warp wait for the one before it.
template <class Words>
class backward_bits_of {
 public:
  template <class... Arguments>
  PENSTOCK_DEVICE explicit backward_bits_of(Arguments... arguments) : words_(arguments...) {}

  /// Returns false if the stream is empty, or its last byte does not have the bit that marks the end. Up to seven bytes
  /// before the stream are read too: in a frame, they always exist.
  PENSTOCK_DEVICE bool start(byte_view stream) {
    if (stream.size == 0) return false;
    const std::uint32_t last = stream.begin[stream.size - 1];
    if (last == 0) return false;
    front_ = misalignment(stream.begin, 4) + 4;
    const std::uint8_t* const words = stream.begin - front_;
    // The first word contains the last bytes; the bits after them, and the mark, count as consumed.
    const std::uint32_t end = front_ + stream.size, tail = end & 3u;
    words_.start(words, static_cast<std::int32_t>(end / 4) - 1);
    used_ = 32 - 8 * tail + static_cast<std::uint32_t>(8 - highest_bit(last));
    second_ = 0;
    third_ = load_bytes(words + (end - tail), tail);
    for (int i = 0; i < 2; ++i) {
      first_ = second_;
      second_ = words_.next() < 0 ? 0 : third_;
      third_ = words_.take();
    }
    return true;
  }

  /// Makes 32 bits of `ahead` valid. At most 32 are consumed between two calls.
  PENSTOCK_DEVICE void refill() { load_next(advance()); }
  /// The same in two parts. Between them, `ahead` is valid, and operations on it do not wait for the second part, which
  /// takes the result of the first.
  PENSTOCK_DEVICE bool advance() {
    const bool due = used_ >= 32;
    first_ = due ? second_ : first_;
    // The first word has no bits of the stream: zeros. A mask is used, because a conditional move waits longer.
    second_ = due ? third_ & ~static_cast<std::uint32_t>(words_.next() >> 31) : second_;
    used_ &= 31u;
    return due;
  }
  PENSTOCK_DEVICE void load_next(bool due) {
    words_.turn();
    if (due) third_ = words_.take();
  }

  /// The next 32 bits, from the highest on; after a refill.
  PENSTOCK_DEVICE std::uint32_t ahead() const { return shift_in(first_, second_, static_cast<int>(used_)); }
  PENSTOCK_DEVICE void skip(std::uint32_t count) { used_ += count; }

  /// A refill, followed by the next `count` bits, 0 to 32.
  PENSTOCK_DEVICE std::uint32_t take(int count) { return append_to(0, count); }
  /// A refill; returns `front` with the next `count` bits, 0 to 32, appended as its lowest bits.
  PENSTOCK_DEVICE std::uint32_t append_to(std::uint32_t front, int count) {
    refill();
    const std::uint32_t value = shift_in(front, ahead(), count);
    skip(static_cast<std::uint32_t>(count));
    return value;
  }

  /// Whether more bits were taken than exist.
  PENSTOCK_DEVICE bool overrun() const { return left() < 0; }
  /// Whether all bits were taken, and `more` bits beyond them.
  PENSTOCK_DEVICE bool exhausted_exactly(std::uint32_t more = 0) const {
    return left() + static_cast<std::int32_t>(more) == 0;
  }

 private:
  /// The size in bits. A block's streams have far less than 2^31.
  PENSTOCK_DEVICE std::int32_t left() const {
    return 32 * (words_.next() + 4) - static_cast<std::int32_t>(used_ + 8 * front_);
  }
  Words words_;                           ///< counted from a word before the stream
  std::uint32_t front_;                   ///< the stream's first byte, counted from there
  std::uint32_t first_, second_, third_;  ///< the words before the next one
  std::uint32_t used_;                    ///< bits of `first_` that are consumed; 32 or more: a refill is due
};

using backward_bits = backward_bits_of<loaded_words>;

}  // namespace penstock::inline v0::device
