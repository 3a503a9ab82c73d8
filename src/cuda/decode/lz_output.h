#pragma once

// The target of a warp that appends literals and matches, and the ring in shared memory in which it assembles them.
//
// The ring is written to the target in whole 16-byte words, and read again by matches that do not reach further back.
// Sequences that are too long for it are written directly. Those of a batch are appended by lz_append_batch.h.

#include <cstdint>

#include "cuda/decode/lz_batch.h"
#include "cuda/decode/lz_work.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kRingBytes = 4096;  ///< ring of a warp

/// `kBytes` is a power of two. Half of it is history while the other half is filled.
template <std::uint32_t kBytes>
struct lz_ring {
  alignas(16) std::uint8_t bytes[kBytes];
};
using lz_shared = lz_ring<kRingBytes>;

struct sixteen_bytes {
  std::uint32_t word[4];
};

/// The target of one part while it is filled. All members except the bytes are the same in all lanes.
class lz_output {
 public:
  template <std::uint32_t kBytes, class Lanes>
  PENSTOCK_DEVICE lz_output(lz_ring<kBytes>& ring, std::uint8_t* target, std::uint32_t size, Lanes lanes)
      : ring_(ring.bytes),
        ring_bytes_(kBytes),
        is_shared_(Lanes::kSeveral),
        target_(target),
        size_(size),
        phase_(misalignment(target, 16)) {
    // `last_bytes` loads words with bytes that are not written yet. Zeros keep memory checkers from reporting it.
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = 4 * static_cast<std::uint32_t>(lane); i < kBytes; i += 4 * lanes.lanes()) store_word(ring_ + i, 0);
    });
  }

  PENSTOCK_DEVICE std::uint32_t at() const { return at_; }
  PENSTOCK_DEVICE std::uint32_t room() const { return size_ - at_; }

  /// From now on, no match may reach before this position.
  PENSTOCK_DEVICE void begin_frame() { base_ = at_; }

  /// Appends `count` bytes, at most `room()`, from `from` (with `step` 0: that byte repeatedly).
  template <class Lanes>
  PENSTOCK_DEVICE void append(Lanes lanes, const std::uint8_t* from, std::uint32_t step, std::uint32_t count) {
    if (count == 0) return;
    if (count <= most_batch_bytes() / 2) {
      lanes.each([&](int lane) {
        PENSTOCK_SMALL_LOOP
        for (auto i = static_cast<std::uint32_t>(lane); i < count; i += lanes.lanes())
          ring_[slot(at_ + i)] = from[i * step];
      });
      at_ += count;
      flush(lanes, false);
      return;
    }
    flush(lanes, true);
    if (step == 0) {
      fill(lanes, from[0], count);
    } else {
      copy(lanes, from, target_ + at_, count);
    }
    skip_ring(lanes, count);
  }

  /// Appends `length` bytes, at most `room()`, that repeat the last `offset` bytes, directly in the target.
  template <class Lanes>
  PENSTOCK_DEVICE void append_long_match(Lanes lanes, std::uint32_t offset, std::uint32_t length);

  /// Counts the next `count` bytes, at most `room()`, which are in the target already.
  template <class Lanes>
  PENSTOCK_DEVICE void skip(Lanes lanes, std::uint32_t count) {
    flush(lanes, true);
    skip_ring(lanes, count);
  }

  /// Appends the first sequences of `batch`: as many of `count` (1 to 32) as fit into the ring.
  ///
  /// The sum of all lengths is below 2^32. \returns Their number, at least 1; 0 when one exceeds the target or reaches
  /// before its frame.
  PENSTOCK_DEVICE std::uint32_t append(warp lanes, lz_batch& batch, std::uint32_t count);

  // The steps of appending a batch, for warps that have a batch each at the same time: `begin_batches`, then for each
  // batch `fitting`, `locate`, `place_literals` and the copies of its matches, then `end_batches`.

  /// Whether a match at `position` may have this offset.
  PENSTOCK_DEVICE bool reaches(std::uint32_t position, std::uint32_t offset) const {
    return offset != 0 && offset <= position - base_;
  }
  /// The most bytes that batches may have together.
  PENSTOCK_DEVICE std::uint32_t most_batch_bytes() const { return ring_bytes_ / 2; }
  PENSTOCK_DEVICE void begin_batches() {
    const std::uint32_t history = ring_bytes_ - most_batch_bytes() - 4;  // words before it contain bytes of batches
    ring_low_ = at_ > history && at_ - history > ring_from_ ? at_ - history : ring_from_;
  }
  /// How many of `count` sequences fit into the ring after `before` bytes of other batches.
  PENSTOCK_DEVICE std::uint32_t fitting(warp lanes, const per_lane<std::uint32_t>& ends, std::uint32_t count,
                                        std::uint32_t before) const;
  /// Computes the positions of the first `count` sequences of a batch, which begins at `start`; the others are removed.
  /// False: a match reaches before its frame.
  PENSTOCK_DEVICE bool locate(warp lanes, lz_batch& batch, std::uint32_t start, std::uint32_t count,
                              placed_batch& placed) const;
  PENSTOCK_DEVICE void place_literals(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& starts);
  /// Finds the sources of the matches, and the matches that have to be copied before.
  PENSTOCK_DEVICE void find_sources(warp lanes, const lz_batch& batch, placed_batch& placed) const;
  /// The matches that cannot be copied or inspected while warps with earlier batches are at work.
  PENSTOCK_DEVICE std::uint32_t reaching_out(warp lanes, const placed_batch& placed) const;
  /// Copies the matches that are left, except those of `blocked` and those that need them.
  PENSTOCK_DEVICE void copy_matches(warp lanes, const lz_batch& batch, placed_batch& placed, std::uint32_t blocked);
  /// The effect of the near matches of the lanes `chain`, of which there is at least one; all matches before lane `end`
  /// except these are copied.
  PENSTOCK_DEVICE near_windows find_windows(warp lanes, const lz_batch& batch, const placed_batch& placed,
                                            std::uint32_t chain, std::uint32_t end) const;
  /// Copies the matches of `chain`; `front`: the eight bytes before its first sequence.
  PENSTOCK_DEVICE void copy_chain(warp lanes, const lz_batch& batch, const placed_batch& placed, std::uint32_t chain,
                                  const near_windows& windows, std::uint64_t front);
  /// The last `count` (or 8) bytes before `position`, in the ring; the others are undefined.
  PENSTOCK_DEVICE std::uint64_t last_bytes(std::uint32_t position, std::uint32_t count = 8) const;
  /// Ends the batches, of `count` bytes together. No barrier follows.
  template <class Lanes>
  PENSTOCK_DEVICE void end_batches(Lanes lanes, std::uint32_t bytes) {
    at_ += bytes;
    write_out(lanes, false);
  }

  /// Writes the bytes that are only in the ring.
  template <class Lanes>
  PENSTOCK_DEVICE void finish(Lanes lanes) {
    flush(lanes, true);
  }

 private:
  PENSTOCK_DEVICE std::uint32_t slot(std::uint32_t position) const { return (position + phase_) & (ring_bytes_ - 1); }
  PENSTOCK_DEVICE std::uint8_t* ring_at(std::uint32_t slot) const { return ring_ + (slot & (ring_bytes_ - 1)); }

  /// Writes out the ring. Returns whether there were bytes to write.
  template <class Lanes>
  PENSTOCK_DEVICE bool write_out(Lanes lanes, bool everything);
  template <class Lanes>
  PENSTOCK_DEVICE void flush(Lanes lanes, bool everything) {
    if (write_out(lanes, everything) || is_shared_) lanes.sync();  // a block has its barrier in any case
  }
  template <class Lanes>
  PENSTOCK_DEVICE void copy(Lanes lanes, const std::uint8_t* from, std::uint8_t* to, std::uint32_t count);
  template <class Lanes>
  PENSTOCK_DEVICE void fill(Lanes lanes, std::uint8_t value, std::uint32_t count);
  template <class Lanes>
  PENSTOCK_DEVICE void skip_ring(Lanes lanes, std::uint32_t count);
  template <std::uint32_t kAtOnce, class Load>
  PENSTOCK_DEVICE void put(std::uint32_t to, std::uint32_t count, std::uint32_t share, std::uint32_t shares,
                           Load&& load);
  PENSTOCK_DEVICE std::uint32_t ring_word(std::uint32_t from, std::uint32_t k, std::uint32_t first,
                                          std::uint32_t end) const;
  PENSTOCK_DEVICE sixteen_bytes load(std::uint32_t position, std::uint32_t first, std::uint32_t end) const;
  PENSTOCK_DEVICE sixteen_bytes repeated(std::uint32_t begin, std::uint32_t period, std::uint32_t phase,
                                         std::uint32_t count, std::uint32_t lead, std::uint32_t share) const;
  PENSTOCK_DEVICE void write(std::uint32_t to, std::uint32_t count, std::uint32_t share, const sixteen_bytes& bytes);
  PENSTOCK_DEVICE void copy_ready(warp lanes, const lz_batch& batch, const placed_batch& placed, std::uint32_t ready);
  PENSTOCK_DEVICE void copy_near(warp lanes, const lz_batch& batch, const placed_batch& placed, std::uint32_t chain,
                                 std::uint32_t end);
  PENSTOCK_DEVICE void repeat(std::uint32_t position, std::uint32_t offset, std::uint32_t length, std::uint64_t before);

  std::uint8_t* ring_;
  std::uint32_t ring_bytes_;
  bool is_shared_;  ///< possibly by several warps
  std::uint8_t* target_;
  std::uint32_t size_;
  std::uint32_t phase_;          ///< a ring slot has the same alignment as its byte in the target
  std::uint32_t at_ = 0;         ///< bytes appended
  std::uint32_t base_ = 0;       ///< start of the frame
  std::uint32_t flushed_ = 0;    ///< number of the target's bytes that are written
  std::uint32_t ring_from_ = 0;  ///< the ring does not have the bytes before this position
  std::uint32_t ring_low_ = 0;   ///< nor those before this one while batches are appended
};

PENSTOCK_DEVICE void store_16_bytes(std::uint8_t* to, const sixteen_bytes& bytes) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint4*>(to) = make_uint4(bytes.word[0], bytes.word[1], bytes.word[2], bytes.word[3]);
#else
  assert(misalignment(to, 16) == 0);
  std::memcpy(to, bytes.word, 16);
#endif
}

template <class Lanes>
PENSTOCK_DEVICE bool lz_output::write_out(Lanes lanes, bool everything) {
  const std::uint32_t whole = at_ - ((at_ + phase_) & 15u);  // may be before flushed_, or before the target
  const std::uint32_t end = everything ? at_ : whole;
  if (end > at_ || end <= flushed_) return false;
  std::uint32_t aligned = flushed_ + ((16 - ((flushed_ + phase_) & 15u)) & 15u);
  if (aligned > end) aligned = end;
  const std::uint32_t words_end = whole > at_ || whole < aligned ? aligned : whole;
  lanes.each_alone([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = flushed_ + first; i < aligned; i += lanes.lanes()) target_[i] = ring_[slot(i)];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = aligned + 16 * first; i < words_end; i += 16 * lanes.lanes())
      store_16_bytes(target_ + i, load_16_bytes(ring_ + slot(i)));
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = words_end + first; i < end; i += lanes.lanes()) target_[i] = ring_[slot(i)];
  });
  flushed_ = end;
  return true;
}

/// Copies between ranges that do not overlap.
template <class Lanes>
PENSTOCK_DEVICE void lz_output::copy(Lanes lanes, const std::uint8_t* from, std::uint8_t* to, std::uint32_t count) {
  std::uint32_t head = (16 - misalignment(to, 16)) & 15u;
  if (head > count) head = count;
  const std::uint32_t words = (count - head) / 16, shift = 8 * misalignment(from + head, 4);
  PENSTOCK_COUNT(copies, (words + lanes.lanes() - 1) / lanes.lanes());
  lanes.each([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < head; i += lanes.lanes()) to[i] = from[i];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < words; i += lanes.lanes()) {
      const std::uint8_t* const source = from + head + 16 * i;
      std::uint8_t* const target = to + head + 16 * i;
      if (shift == 0 || i + 1 < words) {  // the word after the last of these 16 bytes has bytes of the next 16
        const std::uint8_t* const word = source - shift / 8;
        std::uint32_t loaded[5];  // all are loaded before the first is used: a store between loads would make them wait
        if (i == 0 && shift != 0) {
          loaded[0] = load_bytes(source, 4 - shift / 8) << shift;
        } else {
          loaded[0] = load_word(word);
        }
        for (std::uint32_t k = 1; k < 4; ++k) loaded[k] = load_word(word + 4 * k);
        loaded[4] = shift == 0 ? 0 : load_word(word + 16);
        sixteen_bytes out;
        for (int k = 0; k < 4; ++k) out.word[k] = shift_in(loaded[k + 1], loaded[k], 32 - static_cast<int>(shift));
        store_16_bytes(target, out);
      } else {
        PENSTOCK_SMALL_LOOP
        for (std::uint32_t k = 0; k < 16; ++k) target[k] = source[k];
      }
    }
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = head + 16 * words + first; i < count; i += lanes.lanes()) to[i] = from[i];
  });
}

template <class Lanes>
PENSTOCK_DEVICE void lz_output::fill(Lanes lanes, std::uint8_t value, std::uint32_t count) {
  std::uint8_t* const to = target_ + at_;
  std::uint32_t head = (4 - misalignment(to, 4)) & 3u;
  if (head > count) head = count;
  const std::uint32_t words = (count - head) / 4, word = 0x01010101u * value;
  lanes.each([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < head; i += lanes.lanes()) to[i] = value;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < words; i += lanes.lanes()) store_word(to + head + 4 * i, word);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = head + 4 * words + first; i < count; i += lanes.lanes()) to[i] = value;
  });
}

/// Counts `count` bytes that were written directly to the target, and copies the last of them into the ring.
template <class Lanes>
PENSTOCK_DEVICE void lz_output::skip_ring(Lanes lanes, std::uint32_t count) {
  at_ += count;
  flushed_ = at_;
  const std::uint32_t known = at_ < kLanes ? at_ : kLanes;
  ring_from_ = at_ - known;
  lanes.each_alone([&](int lane) {
    if (static_cast<std::uint32_t>(lane) >= known) return;
    const std::uint32_t i = ring_from_ + static_cast<std::uint32_t>(lane);
    ring_[slot(i)] = target_[i];
  });
  if constexpr (Lanes::kSeveral) {
    lanes.converge();  // `flush` has a barrier, or one follows when warps have read their batches
  } else {
    lanes.sync();
  }
}

/// Repeats the last `offset` bytes directly in the target: once they are there twice, copying is twice as fast.
template <class Lanes>
PENSTOCK_DEVICE void lz_output::append_long_match(Lanes lanes, std::uint32_t offset, std::uint32_t length) {
  flush(lanes, true);
  const std::uint32_t start = at_ - offset;
  std::uint32_t done = 0, period = offset;
  if (offset < 256) {  // bytes by their position in the period, up to some whole periods
    done = length < 512 ? length : 512;
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < done; i += lanes.lanes())
        target_[at_ + i] = target_[start + i % offset];
    });
    period = (done + offset) / offset * offset;
  }
  while (done < length) {
    const std::uint32_t count = length - done < period ? length - done : period;
    copy(lanes, target_ + at_ + done - period, target_ + at_ + done, count);
    done += count;
    if (count == period) period *= 2;
  }
  skip_ring(lanes, length);
}

}  // namespace penstock::inline v0::device
