#pragma once

// What all match-copying formats share: a warp that appends literals and matches to a target.
//
// Thirty-two sequences at a time go into a ring in shared memory, which is written to the target in whole 16-byte words
// and read again by matches that do not reach further back. Sequences too long for the ring go straight to the target.

#include <cstdint>

#include "cuda/decode/lz_window.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kRingBytes = 4096;
inline constexpr std::uint32_t kMostBatchBytes = kRingBytes / 2;  ///< the other half is history
inline constexpr std::uint32_t kNearOffset = 8;
inline constexpr std::uint32_t kLongLiterals = 32, kLongMatch = 64;  ///< longer ones are copied by all lanes

struct lz_shared {
  alignas(16) std::uint8_t ring[kRingBytes];
};

/// Up to 32 sequences: each some literals, then a match.
struct lz_batch {
  per_lane<std::uint64_t> literals_at;  ///< address of its literals
  per_lane<std::uint32_t> literals;
  per_lane<std::uint32_t> match;
  per_lane<std::uint32_t> offset;   ///< of no meaning where `match` is 0
  std::uint32_t literals_step = 1;  ///< 0: the same byte again and again
};

/// Literals may lie in shared memory, which `pointer` excludes.
PENSTOCK_DEVICE const std::uint8_t* literal_pointer(std::uint64_t address) {
  return reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(address));
}

/// One part's target while it is filled. All members but the bytes are the same in all lanes.
class lz_output {
 public:
  PENSTOCK_DEVICE lz_output(lz_shared& shared, std::uint8_t* target, std::uint32_t size, warp lanes)
      : ring_(shared.ring), target_(target), size_(size), phase_(misalignment(target, 16)) {
    // `last_bytes` loads words, of which some bytes are not written yet; checkers of memory need not know that.
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = 4 * static_cast<std::uint32_t>(lane); i < kRingBytes; i += 4 * kLanes) store_word(ring_ + i, 0);
    });
  }

  PENSTOCK_DEVICE std::uint32_t at() const { return at_; }
  PENSTOCK_DEVICE std::uint32_t room() const { return size_ - at_; }

  /// No match reaches in front of here from now on.
  PENSTOCK_DEVICE void begin_frame() { base_ = at_; }

  /// Appends `count` bytes, at most `room()`, that stand at `from` (with `step` 0: that byte).
  PENSTOCK_DEVICE void append(warp lanes, const std::uint8_t* from, std::uint32_t step, std::uint32_t count) {
    if (count == 0) return;
    if (count <= kMostBatchBytes / 2) {
      lanes.each([&](int lane) {
        PENSTOCK_SMALL_LOOP
        for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes) ring_[slot(at_ + i)] = from[i * step];
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

  /// Appends the first sequences of `batch`, of `count` (1 to 32) as many as fit into the ring.
  ///
  /// The sum of all lengths is below 2^32. \returns How many, at least 1; 0 when one leaves the target or reaches
  /// before its frame.
  PENSTOCK_DEVICE std::uint32_t append(warp lanes, lz_batch& batch, std::uint32_t count);

  /// Writes what is still in the ring only.
  PENSTOCK_DEVICE void finish(warp lanes) { flush(lanes, true); }

 private:
  PENSTOCK_DEVICE std::uint32_t slot(std::uint32_t position) const { return (position + phase_) & (kRingBytes - 1); }

  /// The byte at `position`, which lies in front of the batch or was written by this lane or in an earlier step.
  PENSTOCK_DEVICE std::uint8_t read(std::uint32_t position) const {
    return position >= ring_low_ ? ring_[slot(position)] : target_[position];
  }

  /// The eight ring bytes in front of `position`; zeros as far as they lie before the part's start.
  PENSTOCK_DEVICE std::uint64_t last_bytes(std::uint32_t position) const {
    const std::uint32_t start = slot(position - 8), word = start & ~3u, shift = 8 * (start & 3u);
    const std::uint64_t low =
        load_word(ring_ + word) | static_cast<std::uint64_t>(load_word(ring_ + ((word + 4) & (kRingBytes - 1)))) << 32;
    const std::uint64_t high = load_word(ring_ + ((word + 8) & (kRingBytes - 1)));
    return low >> shift | (high << 1) << (63 - shift);
  }

  PENSTOCK_DEVICE void flush(warp lanes, bool everything);
  PENSTOCK_DEVICE void copy(warp lanes, const std::uint8_t* from, std::uint8_t* to, std::uint32_t count);
  PENSTOCK_DEVICE void fill(warp lanes, std::uint8_t value, std::uint32_t count);
  PENSTOCK_DEVICE void skip_ring(warp lanes, std::uint32_t count);
  PENSTOCK_DEVICE void append_long_match(warp lanes, std::uint32_t offset, std::uint32_t length);
  PENSTOCK_DEVICE void place_literals(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& starts);
  PENSTOCK_DEVICE void copy_far(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& matches,
                                const per_lane<bool>& ready);
  PENSTOCK_DEVICE void copy_near(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& matches,
                                 const per_lane<bool>& near, per_lane<bool>& copied, std::uint32_t first,
                                 std::uint32_t end);
  PENSTOCK_DEVICE void repeat(std::uint32_t position, std::uint32_t offset, std::uint32_t length, std::uint64_t before);

  std::uint8_t* ring_;
  std::uint8_t* target_;
  std::uint32_t size_;
  std::uint32_t phase_;          ///< a ring slot is as aligned as the target's byte
  std::uint32_t at_ = 0;         ///< bytes appended
  std::uint32_t base_ = 0;       ///< the frame's start
  std::uint32_t flushed_ = 0;    ///< bytes of the target that are written
  std::uint32_t ring_from_ = 0;  ///< the ring does not hold what is in front of here
  std::uint32_t ring_low_ = 0;   ///< nor what is in front of here while a batch is appended
};

PENSTOCK_DEVICE void copy_16_bytes(std::uint8_t* to, const std::uint8_t* from) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#else
  assert(misalignment(to, 16) == 0 && misalignment(from, 16) == 0);
  std::memcpy(to, from, 16);
#endif
}

PENSTOCK_DEVICE void lz_output::flush(warp lanes, bool everything) {
  const std::uint32_t whole = at_ - ((at_ + phase_) & 15u);  // may lie in front of flushed_, or of the target
  const std::uint32_t end = everything ? at_ : whole;
  if (end > at_ || end <= flushed_) return;
  std::uint32_t aligned = flushed_ + ((16 - ((flushed_ + phase_) & 15u)) & 15u);
  if (aligned > end) aligned = end;
  const std::uint32_t words_end = whole > at_ || whole < aligned ? aligned : whole;
  lanes.each([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = flushed_ + first; i < aligned; i += kLanes) target_[i] = ring_[slot(i)];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = aligned + 16 * first; i < words_end; i += 16 * kLanes)
      copy_16_bytes(target_ + i, ring_ + slot(i));
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = words_end + first; i < end; i += kLanes) target_[i] = ring_[slot(i)];
  });
  flushed_ = end;
}

/// Copies between places that do not overlap.
PENSTOCK_DEVICE void lz_output::copy(warp lanes, const std::uint8_t* from, std::uint8_t* to, std::uint32_t count) {
  std::uint32_t head = (16 - misalignment(to, 16)) & 15u;
  if (head > count) head = count;
  const std::uint32_t words = (count - head) / 16, shift = 8 * misalignment(from + head, 4);
  lanes.each([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < head; i += kLanes) to[i] = from[i];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < words; i += kLanes) {
      const std::uint8_t* const source = from + head + 16 * i;
      std::uint8_t* const target = to + head + 16 * i;
      if (shift == 0) {
        for (std::uint32_t k = 0; k < 16; k += 4) store_word(target + k, load_word(source + k));
      } else if (i + 1 < words) {  // the word behind the last of these 16 bytes holds bytes of the next 16
        const std::uint8_t* const word = source - shift / 8;
        std::uint32_t low = i == 0 ? load_bytes(source, 4 - shift / 8) << shift : load_word(word);
        for (std::uint32_t k = 0; k < 16; k += 4) {
          const std::uint32_t high = load_word(word + k + 4);
          store_word(target + k, low >> shift | high << (32 - shift));
          low = high;
        }
      } else {
        PENSTOCK_SMALL_LOOP
        for (std::uint32_t k = 0; k < 16; ++k) target[k] = source[k];
      }
    }
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = head + 16 * words + first; i < count; i += kLanes) to[i] = from[i];
  });
}

PENSTOCK_DEVICE void lz_output::fill(warp lanes, std::uint8_t value, std::uint32_t count) {
  std::uint8_t* const to = target_ + at_;
  std::uint32_t head = (4 - misalignment(to, 4)) & 3u;
  if (head > count) head = count;
  const std::uint32_t words = (count - head) / 4, word = 0x01010101u * value;
  lanes.each([&](int lane) {
    const auto first = static_cast<std::uint32_t>(lane);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < head; i += kLanes) to[i] = value;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < words; i += kLanes) store_word(to + head + 4 * i, word);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = head + 4 * words + first; i < count; i += kLanes) to[i] = value;
  });
}

/// Accounts for `count` bytes that were written to the target directly, and puts the last of them into the ring.
PENSTOCK_DEVICE void lz_output::skip_ring(warp lanes, std::uint32_t count) {
  at_ += count;
  flushed_ = at_;
  const std::uint32_t known = at_ < kLanes ? at_ : kLanes;
  ring_from_ = at_ - known;
  lanes.each([&](int lane) {
    if (static_cast<std::uint32_t>(lane) >= known) return;
    const std::uint32_t i = ring_from_ + static_cast<std::uint32_t>(lane);
    ring_[slot(i)] = target_[i];
  });
}

/// Repeats the last `offset` bytes, straight in the target: what is there twice is copied twice as fast.
PENSTOCK_DEVICE void lz_output::append_long_match(warp lanes, std::uint32_t offset, std::uint32_t length) {
  flush(lanes, true);
  const std::uint32_t start = at_ - offset;
  std::uint32_t done = 0, period = offset;
  if (offset < 256) {  // bytes by their place in the period, up to some whole periods
    done = length < 512 ? length : 512;
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < done; i += kLanes)
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

PENSTOCK_DEVICE void lz_output::place_literals(warp lanes, const lz_batch& batch,
                                               const per_lane<std::uint32_t>& starts) {
  per_lane<bool> is_long;
  lanes.each([&](int lane) {
    const std::uint32_t count = batch.literals[lane];
    is_long[lane] = count > kLongLiterals;
    if (is_long[lane]) return;
    const auto* const from = literal_pointer(batch.literals_at[lane]);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; i < count; ++i) ring_[slot(starts[lane] + i)] = from[i * batch.literals_step];
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t left = lanes.ballot(is_long); left != 0; left &= left - 1) {
    const int which = lowest_bit(left);
    const auto* const from = literal_pointer(lanes.from(batch.literals_at, which));
    const std::uint32_t count = lanes.from(batch.literals, which), start = lanes.from(starts, which);
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        ring_[slot(start + i)] = from[i * batch.literals_step];
    });
  }
}

/// Copies the matches of the lanes that are `ready`: all that they repeat is there, or is their own.
PENSTOCK_DEVICE void lz_output::copy_far(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& matches,
                                         const per_lane<bool>& ready) {
  per_lane<bool> is_long;
  lanes.each([&](int lane) {
    const std::uint32_t count = batch.match[lane];
    is_long[lane] = ready[lane] && count > kLongMatch;
    if (!ready[lane] || is_long[lane]) return;
    const std::uint32_t to = matches[lane], from = to - batch.offset[lane];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; i < count; ++i) ring_[slot(to + i)] = read(from + i);
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t left = lanes.ballot(is_long); left != 0; left &= left - 1) {
    const int which = lowest_bit(left);
    const std::uint32_t count = lanes.from(batch.match, which), offset = lanes.from(batch.offset, which);
    const std::uint32_t to = lanes.from(matches, which), from = to - offset;
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        ring_[slot(to + i)] = read(from + (i < offset ? i : i % offset));
    });
  }
}

/// Writes `length` bytes at `position` that repeat the last `offset` (1 to 8) bytes of `before`.
PENSTOCK_DEVICE void lz_output::repeat(std::uint32_t position, std::uint32_t offset, std::uint32_t length,
                                       std::uint64_t before) {
  std::uint64_t pattern = before >> (64 - 8 * offset);
  std::uint32_t to = slot(position);
  if ((offset & (offset - 1)) != 0) {
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0, shift = 0; i < length; ++i) {
      ring_[(to + i) & (kRingBytes - 1)] = static_cast<std::uint8_t>(pattern >> shift);
      shift = shift + 8 == 8 * offset ? 0 : shift + 8;
    }
    return;
  }
  for (std::uint32_t width = 8 * offset; width < 64; width *= 2) pattern |= pattern << width;
  // Turned so that the byte for a slot is the one of the slot's place in eight.
  const std::uint32_t turn = 8 * (to & 7u);
  pattern = pattern << turn | (pattern >> 1) >> (63 - turn);
  std::uint32_t left = length;
  PENSTOCK_SMALL_LOOP
  for (; left > 0 && (to & 3u) != 0; --left, to = (to + 1) & (kRingBytes - 1))
    ring_[to] = static_cast<std::uint8_t>(pattern >> (8 * (to & 7u)));
  PENSTOCK_SMALL_LOOP
  for (; left >= 4; left -= 4, to = (to + 4) & (kRingBytes - 1))
    store_word(ring_ + to, static_cast<std::uint32_t>((to & 4u) != 0 ? pattern >> 32 : pattern));
  PENSTOCK_SMALL_LOOP
  for (; left > 0; --left, to = (to + 1) & (kRingBytes - 1))
    ring_[to] = static_cast<std::uint8_t>(pattern >> (8 * (to & 7u)));
}

/// Resolves the near matches of the lanes from `first` up to `end`, all others of which are copied.
PENSTOCK_DEVICE void lz_output::copy_near(warp lanes, const lz_batch& batch, const per_lane<std::uint32_t>& matches,
                                          const per_lane<bool>& near, per_lane<bool>& copied, std::uint32_t first,
                                          std::uint32_t end) {
  per_lane<byte_window> known, windows;
  per_lane<std::uint32_t> starts;
  per_lane<bool> is_long;
  lanes.each([&](int lane) {
    const auto i = static_cast<std::uint32_t>(lane);
    starts[lane] = matches[lane] - batch.literals[lane];
    known[lane] = windows[lane] = {0, byte_window::kSame};
    if (i < first || i >= end) return;
    const std::uint32_t length = batch.match[lane], count = batch.literals[lane] + (copied[lane] ? length : 0);
    known[lane] = windows[lane] = byte_window::of_known(last_bytes(starts[lane] + count), count);
    if (!copied[lane]) windows[lane] = byte_window::of_match(batch.offset[lane], length).after(known[lane]);
  });
  lanes.scan(windows, [](const byte_window& before, const byte_window& own) { return own.after(before); });
  const std::uint64_t front = last_bytes(lanes.from(starts, static_cast<int>(first)));
  per_lane<std::uint64_t> states;
  lanes.each([&](int lane) { states[lane] = windows[lane].of(front); });
  lanes.shift_up(states, front);
  lanes.each([&](int lane) {
    const auto i = static_cast<std::uint32_t>(lane);
    const bool mine = i >= first && i < end && near[lane] && !copied[lane];
    states[lane] = known[lane].of(states[lane]);
    is_long[lane] = mine && batch.match[lane] > kLongMatch;
    if (!mine) return;
    copied[lane] = true;
    if (!is_long[lane]) repeat(matches[lane], batch.offset[lane], batch.match[lane], states[lane]);
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t left = lanes.ballot(is_long); left != 0; left &= left - 1) {
    const int which = lowest_bit(left);
    const std::uint32_t count = lanes.from(batch.match, which), offset = lanes.from(batch.offset, which);
    const std::uint32_t to = lanes.from(matches, which);
    const std::uint64_t pattern = lanes.from(states, which) >> (64 - 8 * offset);
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        ring_[slot(to + i)] = static_cast<std::uint8_t>(pattern >> (8 * (i % offset)));
    });
  }
}

PENSTOCK_DEVICE std::uint32_t lz_output::append(warp lanes, lz_batch& batch, std::uint32_t count) {
  per_lane<std::uint32_t> ends, matches, starts;
  per_lane<bool> fits, wrong, near, copied, ready;
  lanes.each([&](int lane) {
    if (static_cast<std::uint32_t>(lane) >= count) batch.literals[lane] = batch.match[lane] = 0;
    ends[lane] = batch.literals[lane] + batch.match[lane];
  });
  lanes.sum_up(ends);
  lanes.each([&](int lane) { fits[lane] = static_cast<std::uint32_t>(lane) < count && ends[lane] <= kMostBatchBytes; });
  const std::uint32_t fitting = lanes.ballot(fits);
  const std::uint32_t taken = fitting == 0xffffffffu ? kLanes : static_cast<std::uint32_t>(lowest_bit(~fitting));
  const std::uint32_t total = lanes.from(ends, taken == 0 ? 0 : static_cast<int>(taken) - 1);
  if (total > room()) return 0;
  lanes.each([&](int lane) {
    const std::uint32_t length = batch.match[lane];
    matches[lane] = at_ + ends[lane] - length;
    starts[lane] = matches[lane] - batch.literals[lane];
    const bool counts = static_cast<std::uint32_t>(lane) < (taken == 0 ? 1 : taken) && length != 0;
    const std::uint32_t offset = batch.offset[lane];
    wrong[lane] = counts && (offset == 0 || offset > matches[lane] - base_);
    near[lane] = counts && offset <= kNearOffset;
    copied[lane] = !counts;
  });
  if (lanes.ballot(wrong) != 0) return 0;
  if (taken == 0) {
    const std::uint32_t length = lanes.from(batch.match, 0);
    const std::uint32_t offset = lanes.from(batch.offset, 0);
    append(lanes, literal_pointer(lanes.from(batch.literals_at, 0)), batch.literals_step,
           lanes.from(batch.literals, 0));
    if (length != 0) append_long_match(lanes, offset, length);
    return 1;
  }
  lanes.each([&](int lane) {
    if (static_cast<std::uint32_t>(lane) >= taken) batch.literals[lane] = batch.match[lane] = 0;
  });
  const std::uint32_t history = kRingBytes - kMostBatchBytes;
  ring_low_ = at_ > history && at_ - history > ring_from_ ? at_ - history : ring_from_;
  place_literals(lanes, batch, starts);
  for (std::uint32_t done = 0; done < taken;) {
    // In front of this lane's match everything is there, and everywhere all literals are.
    const std::uint32_t there = lanes.from(matches, static_cast<int>(done));
    per_lane<bool> blocked, waiting;
    lanes.each([&](int lane) {
      const std::uint32_t offset = batch.offset[lane], length = batch.match[lane];
      ready[lane] =
          !copied[lane] && !near[lane] && matches[lane] - offset + (offset < length ? offset : length) <= there;
    });
    if (lanes.ballot(ready) != 0) copy_far(lanes, batch, matches, ready);
    lanes.each([&](int lane) {
      const auto i = static_cast<std::uint32_t>(lane);
      if (ready[lane]) copied[lane] = true;
      blocked[lane] = i >= done && !copied[lane] && !near[lane];
      waiting[lane] = i >= done && !copied[lane] && near[lane];
    });
    const std::uint32_t block = lanes.ballot(blocked), near_ones = lanes.ballot(waiting);
    const std::uint32_t end = block == 0 ? taken : static_cast<std::uint32_t>(lowest_bit(block));
    if ((near_ones & (end == 32 ? 0xffffffffu : (1u << end) - 1)) != 0)
      copy_near(lanes, batch, matches, near, copied, done, end);
    done = end;
  }
  at_ += total;
  flush(lanes, false);
  return taken;
}

}  // namespace penstock::inline v0::device
