#pragma once

// Formats of bytes without entropy coding: LZ4 blocks, Snappy, BloscLZ, PackBits. One lane reads the headers of up to
// 32 sequences from a window in shared memory, all lanes put them together.

#include "cuda/decode/lz_found.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kWindowBytes = 2048;

/// Literals count from the part's first byte.
struct lz_parts_shared : lz_found<std::uint32_t> {
  lz_shared output;
  alignas(16) std::uint8_t window[kWindowBytes];
  std::uint32_t at;    ///< in the source
  std::uint32_t made;  ///< bytes of all sequences so far
  std::uint32_t more;  ///< 1: not at the end
  std::uint32_t bad;
};

/// The reading lane's view of a part: its bytes, and the sequences that it has found in this batch.
class lz_reader {
 public:
  PENSTOCK_DEVICE lz_reader(const decode_part& part, lz_parts_shared& shared, std::uint32_t window_at)
      : source_(pointer<const std::uint8_t>(part.source)),
        size_(part.source_bytes),
        room_(part.target_bytes),
        window_at_(window_at),
        shared_(shared),
        at_(shared.at),
        made_(shared.made) {}

  PENSTOCK_DEVICE bool has(std::uint32_t count) const { return size_ - at_ >= count; }
  PENSTOCK_DEVICE bool done() const { return at_ == size_; }
  PENSTOCK_DEVICE std::uint32_t left() const { return size_ - at_; }
  PENSTOCK_DEVICE std::uint32_t room() const { return room_ - made_; }
  PENSTOCK_DEVICE std::uint32_t made() const { return made_; }
  PENSTOCK_DEVICE bool full() const { return count_ == kLanes; }

  /// The next byte; `has(1)`.
  PENSTOCK_DEVICE std::uint32_t byte() {
    const std::uint32_t in_window = at_ - window_at_;
    const std::uint32_t value = in_window < kWindowBytes ? shared_.window[in_window] : source_[at_];
    ++at_;
    return value;
  }

  /// Little-endian, `count` bytes that are there.
  PENSTOCK_DEVICE std::uint32_t number(std::uint32_t count) {
    std::uint32_t value = 0;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; i < count; ++i) value |= byte() << (8 * i);
    return value;
  }

  /// Adds bytes to `length` until one is not 255; false when there are none, or the length is more than the room.
  PENSTOCK_DEVICE bool extend(std::uint32_t& length) {
    std::uint32_t more;
    do {
      if (!has(1)) return false;
      more = byte();
      length += more;
      if (length > room_) return false;
    } while (more == 255);
    return true;
  }

  /// Takes a sequence: literals that stand here, then a match (of length 0: none). False when they do not fit.
  PENSTOCK_DEVICE bool take(std::uint32_t literals) {
    if (literals > left() || literals > room()) return false;
    shared_.literals_at[count_] = at_;
    shared_.literals[count_] = literals;
    shared_.match[count_] = shared_.offset[count_] = 0;
    at_ += literals;
    made_ += literals;
    ++count_;
    return true;
  }
  /// The match of the sequence that was taken last.
  PENSTOCK_DEVICE bool take_match(std::uint32_t length, std::uint32_t offset) {
    if (length > room()) return false;
    shared_.match[count_ - 1] = length;
    shared_.offset[count_ - 1] = offset;
    made_ += length;
    return true;
  }

  PENSTOCK_DEVICE void finish(bool good, bool more) {
    shared_.count = count_;
    shared_.at = at_;
    shared_.made = made_;
    shared_.more = more ? 1 : 0;
    shared_.bad = good ? 0 : 1;
  }

 private:
  const std::uint8_t* source_;
  std::uint32_t size_, room_, window_at_;
  lz_parts_shared& shared_;
  std::uint32_t at_, made_, count_ = 0;
};

/// Sequences of an LZ4 block (lz4_Block_format.md); false: damaged. `more` is false behind the last.
PENSTOCK_DEVICE bool read_lz4(lz_reader& in, bool& more) {
  while (!in.full()) {
    if (!in.has(1)) return false;
    const std::uint32_t token = in.byte();
    std::uint32_t literals = token >> 4, match = token & 15;
    if (literals == 15 && !in.extend(literals)) return false;
    if (!in.take(literals)) return false;
    if (in.done()) {
      more = false;
      return in.made() != 0 || token == 0;  // nothing has one way to be written
    }
    // The end rules: what follows literals near either end is the end.
    if (in.left() < 8 || in.room() < 12) return false;
    const std::uint32_t offset = in.number(2);
    if (match == 15 && !in.extend(match)) return false;
    if (!in.take_match(match + 4, offset) || in.room() < 5) return false;
  }
  return true;
}

/// Sequences of a Snappy stream (format_description.txt).
PENSTOCK_DEVICE bool read_snappy(lz_reader& in, bool& more) {
  while (!in.full()) {
    if (in.done()) {
      more = false;
      return true;
    }
    const std::uint32_t tag = in.byte();
    if ((tag & 3) == 0) {
      std::uint32_t length = tag >> 2;
      if (length >= 60) {
        const std::uint32_t count = length - 59;
        if (!in.has(count)) return false;
        length = in.number(count);
      }
      if (length == 0xffffffffu || !in.take(length + 1)) return false;
      continue;
    }
    const std::uint32_t bytes = (tag & 3) == 3 ? 4 : tag & 3;
    if (!in.has(bytes)) return false;
    const std::uint32_t rest = in.number(bytes);
    const std::uint32_t offset = bytes == 1 ? (tag >> 5) << 8 | rest : rest;
    const std::uint32_t length = bytes == 1 ? 4 + (tag >> 2 & 7) : 1 + (tag >> 2);
    if (!in.take(0) || !in.take_match(length, offset)) return false;
  }
  return true;
}

/// Sequences of a BloscLZ stream (c-blosc, blosclz.c: the format has no other description).
PENSTOCK_DEVICE bool read_blosclz(lz_reader& in, bool& more, bool first) {
  while (!in.full()) {
    if (in.done()) {
      more = false;
      return true;
    }
    std::uint32_t control = in.byte();
    if (first) control &= 31;
    first = false;
    if (control < 32) {
      if (!in.take(control + 1)) return false;
      continue;
    }
    std::uint32_t length = (control >> 5) - 1, offset = (control & 31) << 8;
    if (length == 6 && !in.extend(length)) return false;
    if (!in.has(1)) return false;
    const std::uint32_t low = in.byte();
    offset += low + 1;
    if (low == 255 && (control & 31) == 31) {
      if (!in.has(2)) return false;
      offset = in.byte() << 8;
      offset += in.byte() + 8191 + 1;
    }
    // The decoder that defines the format drops a match that nothing follows.
    if (in.done()) return false;
    if (!in.take(0) || !in.take_match(length + 3, offset)) return false;
  }
  return true;
}

/// Runs of a PackBits stream (TIFF 6.0, section 9). What is left when the target is full is left out.
PENSTOCK_DEVICE bool read_packbits(lz_reader& in, bool& more) {
  while (!in.full()) {
    if (in.done() || in.room() == 0) {
      more = false;
      return true;
    }
    const std::uint32_t head = in.byte(), room = in.room();
    if (head == 128) continue;
    std::uint32_t count = head < 128 ? head + 1 : 257 - head;
    if (count > room) count = room;
    if (head < 128) {
      if (!in.take(count)) return false;
    } else if (!in.take(1) || !in.take_match(count - 1, 1)) {
      return false;
    }
  }
  return true;
}

/// The length that a Snappy stream begins with; false when it is not that of the part.
PENSTOCK_DEVICE bool read_snappy_length(lz_reader& in, std::uint32_t wanted) {
  std::uint64_t length = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (!in.has(1)) return false;
    const std::uint32_t byte = in.byte();
    length |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return length == wanted;
  }
  return false;
}

/// What the reading lane does for a batch.
PENSTOCK_DEVICE void read_lz_batch(const decode_part& part, lz_parts_shared& shared, std::uint32_t window_at) {
  lz_reader in(part, shared, window_at);
  bool more = true, good = true;
  const bool first = shared.at == 0;
  switch (static_cast<lz_format>(part.parameter)) {
    case lz_format::lz4_block:
      good = read_lz4(in, more);
      break;
    case lz_format::snappy:
      good = (!first || read_snappy_length(in, part.target_bytes)) && read_snappy(in, more);
      break;
    case lz_format::blosclz:
      good = read_blosclz(in, more, first);
      break;
    case lz_format::packbits:
      good = read_packbits(in, more);
      break;
  }
  in.finish(good, more);
}

/// Appends what the sequences of `part` stand for, at most `part.target_bytes` bytes; false: damaged.
PENSTOCK_DEVICE bool lz_sequences(const decode_part& part, lz_output& out, lz_parts_shared& shared, warp lanes) {
  const auto* const source = pointer<const std::uint8_t>(part.source);
  std::uint32_t window_at = 0;
  lanes.once([&] {
    shared.at = shared.made = 0;
    shared.more = 1;
  });
  bool more = true, good = true;
  for (bool window = false; good && more;) {
    const std::uint32_t at = shared.at;
    lanes.sync();
    if (!window || at - window_at > kWindowBytes / 2) {
      window_at = at;
      window = true;
      lanes.each([&](int lane) {
        PENSTOCK_SMALL_LOOP
        for (std::uint32_t i = at + static_cast<std::uint32_t>(lane); i < part.source_bytes && i < at + kWindowBytes;
             i += kLanes)
          shared.window[i - at] = source[i];
      });
    }
    lanes.once([&] { read_lz_batch(part, shared, window_at); });
    good = shared.bad == 0;
    more = shared.more != 0;
    if (good) good = append_found(lanes, out, shared, part.source);
  }
  return good;
}

/// What one warp does: the part that is `turn` in the wave's order.
PENSTOCK_DEVICE void lz_warp(const part_wave& wave, std::uint32_t turn, lz_parts_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  const bool good = lz_sequences(part, out, shared, lanes);
  out.finish(lanes);
  if (!good || out.room() != 0)
    lanes.once(
        [&] { report(wave.statuses, part.chunk, good ? chunk_status::wrong_size : chunk_status::corrupt_stream); });
}

}  // namespace penstock::inline v0::device
