#pragma once

// Formats of bytes without entropy coding: LZ4 blocks, Snappy, BloscLZ, PackBits.
//
// A window of the source in shared memory is parsed: the beginnings of its tokens are found by all lanes or, if it has
// few of them, by one. All lanes then read one token each. Tokens that do not fit into the window, and the first and
// last tokens, to which special rules apply, are read by one lane with every check.

#include "cuda/decode/lz_append_batch.h"
#include "cuda/decode/lz_parse.h"

namespace penstock::inline v0::device {

/// This many bytes of source and target remain after tokens that are read without checks: no format has rules for bytes
/// that are further from the end.
inline constexpr std::uint32_t kTokenMargin = 16;

struct lz_parts_shared {
  lz_shared output;
  lz_window_shared window;
  // A sequence that one lane has read with every check.
  std::uint32_t literals_at, literals, match, offset;  ///< a sequence: literals count from the part's first byte
  std::uint32_t found;                                 ///< 1: a sequence was found
  std::uint32_t at;                                    ///< in the source
  std::uint32_t made;                                  ///< bytes of all sequences so far
  std::uint32_t more;                                  ///< 1: not at the end yet
  std::uint32_t bad;
};

/// The reading lane's view of a part: its bytes, and the sequence that it has found.
class lz_reader {
 public:
  PENSTOCK_DEVICE lz_reader(const decode_part& part, lz_parts_shared& shared, std::uint32_t at, std::uint32_t made)
      : source_(pointer<const std::uint8_t>(part.source)),
        size_(part.source_bytes),
        room_(part.target_bytes),
        shared_(shared),
        at_(at),
        made_(made) {}

  PENSTOCK_DEVICE bool has(std::uint32_t count) const { return size_ - at_ >= count; }
  PENSTOCK_DEVICE bool done() const { return at_ == size_; }
  PENSTOCK_DEVICE std::uint32_t left() const { return size_ - at_; }
  PENSTOCK_DEVICE std::uint32_t room() const { return room_ - made_; }
  PENSTOCK_DEVICE std::uint32_t made() const { return made_; }
  PENSTOCK_DEVICE bool full() const { return found_; }

  /// The next byte; `has(1)`.
  PENSTOCK_DEVICE std::uint32_t byte() { return source_[at_++]; }

  /// Little-endian, of `count` bytes that exist.
  PENSTOCK_DEVICE std::uint32_t number(std::uint32_t count) {
    std::uint32_t value = 0;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; i < count; ++i) value |= byte() << (8 * i);
    return value;
  }

  /// Adds bytes to `length` until one is not 255; false if the bytes end, or the length exceeds the room.
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

  /// Takes a sequence: literals at this position, then a match (of length 0: none). False if they do not fit.
  PENSTOCK_DEVICE bool take(std::uint32_t literals) {
    if (literals > left() || literals > room()) return false;
    shared_.literals_at = at_;
    shared_.literals = literals;
    shared_.match = shared_.offset = 0;
    at_ += literals;
    made_ += literals;
    found_ = true;
    return true;
  }
  /// The match of the sequence taken last.
  PENSTOCK_DEVICE bool take_match(std::uint32_t length, std::uint32_t offset) {
    if (length > room()) return false;
    shared_.match = length;
    shared_.offset = offset;
    made_ += length;
    return true;
  }

  PENSTOCK_DEVICE void finish(bool good, bool more) {
    shared_.found = found_ ? 1 : 0;
    shared_.at = at_;
    shared_.made = made_;
    shared_.more = more ? 1 : 0;
    shared_.bad = good ? 0 : 1;
  }

 private:
  const std::uint8_t* source_;
  std::uint32_t size_, room_;
  lz_parts_shared& shared_;
  std::uint32_t at_, made_;
  bool found_ = false;
};

/// The next sequence of an LZ4 block (lz4_Block_format.md); false: damaged. `more` is false after the last.
PENSTOCK_DEVICE bool read_lz4(lz_reader& in, bool& more) {
  while (!in.full()) {
    if (!in.has(1)) return false;
    const std::uint32_t token = in.byte();
    std::uint32_t literals = token >> 4, match = token & 15;
    if (literals == 15 && !in.extend(literals)) return false;
    if (!in.take(literals)) return false;
    if (in.done()) {
      more = false;
      return in.made() != 0 || token == 0;  // empty content has only one encoding
    }
    // The end rules: literals near either end must be the last.
    if (in.left() < 8 || in.room() < 12) return false;
    const std::uint32_t offset = in.number(2);
    if (match == 15 && !in.extend(match)) return false;
    if (!in.take_match(match + 4, offset) || in.room() < 5) return false;
  }
  return true;
}

/// The next sequence of a Snappy stream (format_description.txt).
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

/// The next sequence of a BloscLZ stream (c-blosc, blosclz.c: the format has no other description).
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
    // The decoder that defines the format drops a match at the end.
    if (in.done()) return false;
    if (!in.take(0) || !in.take_match(length + 3, offset)) return false;
  }
  return true;
}

/// The next run of a PackBits stream (TIFF 6.0, section 9). Bytes after a full target are ignored.
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

/// The length at the beginning of a Snappy stream; false if it is not that of the part.
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

/// Reads a sequence with every check, in the reading lane.
PENSTOCK_DEVICE void read_lz_sequence(const decode_part& part, lz_parts_shared& shared, std::uint32_t at,
                                      std::uint32_t made) {
  shared.literals_at = shared.literals = shared.match = shared.offset = 0;
  lz_reader in(part, shared, at, made);
  bool more = true, good = true;
  const bool first = at == 0;
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

/// The progress of appending the sequences of a part.
struct lz_progress {
  std::uint32_t at = 0, made = 0;  ///< bytes of the source and of the target
  // Of the last window: the number of bytes of its tokens.
  std::uint32_t tokens = 0, token_bytes = 0;
  bool in_tail = false;  ///< special rules apply to all tokens from here on
};

/// Appends the bytes of the tokens that end in the window at `now.at` and have no special rules; false: damaged.
PENSTOCK_DEVICE bool append_window(const decode_part& part, lz_output& out, lz_parts_shared& shared, lz_progress& now,
                                   warp lanes) {
  const auto format = static_cast<lz_format>(part.parameter);
  const byte_view source{pointer<const std::uint8_t>(part.source), part.source_bytes};
  const lz_window window = load_window(source, now.at, shared.window, lanes);
  const bool many = (window.view.size - window.from) * now.tokens >= kManyTokens * now.token_bytes && now.tokens != 0;
  if (many) {
    parse_window(format, window, shared.window, lanes);
  } else {
    lanes.once([&] { shared.window.count = step_over_tokens(format, window, shared.window.starts); });
  }
  const std::uint32_t count = shared.window.count, start = now.at;
  std::uint32_t done = 0;
  while (done < count) {
    lz_batch batch;
    per_lane<std::uint32_t> ends;
    per_lane<bool> in_view, plain;
    lanes.each_alone([&](int lane) {
      const std::uint32_t which = done + static_cast<std::uint32_t>(lane);
      lz_token token{};
      if (which < count) token = token_at(format, window.view, shared.window.starts[which]);
      batch.literals_at[lane] = part.source + (window.at + token.literals_at);
      batch.literals[lane] = token.literals;
      batch.match[lane] = token.match;
      batch.offset[lane] = token.offset;
      ends[lane] = window.at + token.end;
      in_view[lane] = token.end != 0;
    });
    sum_up(lanes, batch);
    lanes.each_alone([&](int lane) {
      plain[lane] = in_view[lane] && part.source_bytes - ends[lane] >= kTokenMargin &&
                    now.made + batch.ends[lane] + kTokenMargin <= part.target_bytes;
    });
    const std::uint32_t others = ~lanes.ballot(plain), all_in_view = lanes.ballot(in_view);
    const std::uint32_t tokens = others == 0 ? kLanes : static_cast<std::uint32_t>(lowest_bit(others));
    if (tokens == 0) {
      now.in_tail = (all_in_view & 1) != 0;
      break;
    }
    const std::uint32_t taken = out.append(lanes, batch, tokens);
    if (taken == 0) return false;
    now.at = lanes.from(ends, static_cast<int>(taken) - 1);
    now.made += lanes.from(batch.ends, static_cast<int>(taken) - 1);
    done += taken;
  }
  now.tokens = done;
  now.token_bytes = now.at - start;
  return true;
}

/// Appends the bytes of the sequences of `part`, at most `part.target_bytes` bytes; false: damaged.
PENSTOCK_DEVICE bool lz_sequences(const decode_part& part, lz_output& out, lz_parts_shared& shared, warp lanes) {
  lz_progress now;
  for (;;) {
    if (now.at != 0 && !now.in_tail) {
      const std::uint32_t before = now.at;
      if (!append_window(part, out, shared, now, lanes)) return false;
      if (now.at != before) continue;
    }
    lanes.once([&] { read_lz_sequence(part, shared, now.at, now.made); });
    const bool good = shared.bad == 0, more = shared.more != 0, found = shared.found != 0;
    lz_batch batch;
    lanes.each_alone([&](int lane) {
      batch.literals_at[lane] = part.source + shared.literals_at;
      batch.literals[lane] = lane == 0 ? shared.literals : 0;
      batch.match[lane] = lane == 0 ? shared.match : 0;
      batch.offset[lane] = shared.offset;
      batch.ends[lane] = shared.literals + shared.match;
    });
    now.at = shared.at;
    now.made = shared.made;
    if (!good || (found && out.append(lanes, batch, 1) == 0)) return false;
    if (!more) return true;
  }
}

/// The work of one warp: the part with index `turn` in the wave's order.
PENSTOCK_DEVICE void lz_warp(const part_wave& wave, std::uint32_t turn, lz_parts_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  const bool good = lz_sequences(part, out, shared, lanes);
  out.finish(lanes);
  if (!good || out.room() != 0)
    lanes.once_alone(
        [&] { report(wave.statuses, part.chunk, good ? chunk_status::wrong_size : chunk_status::corrupt_stream); });
}

}  // namespace penstock::inline v0::device
