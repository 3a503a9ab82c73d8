#pragma once

// Formats of bytes without entropy coding: LZ4 blocks, Snappy, BloscLZ, PackBits.
//
// Where a token ends is found in its first bytes, and one after the other: one lane does that, in a window in shared
// memory, for 32 tokens. What they say is read by all lanes, a token each. What does not fit into the window, and the
// first and last tokens, for which there are rules, are read by one lane with every check.

#include "cuda/decode/lz_found.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kWindowBytes = 2048;
/// So many bytes of source and target are left behind tokens that are read without checks: no format has rules for what
/// is further from the end.
inline constexpr std::uint32_t kTokenMargin = 16;

struct lz_parts_shared {
  lz_shared output;
  alignas(16) std::uint8_t window[kWindowBytes];
  std::uint32_t starts[kLanes];  ///< where tokens begin, in the window
  std::uint32_t count;           ///< of them
  // What one lane has read with every check.
  std::uint32_t literals_at, literals, match, offset;  ///< a sequence: literals count from the part's first byte
  std::uint32_t found;                                 ///< 1: there is one
  std::uint32_t at;                                    ///< in the source
  std::uint32_t made;                                  ///< bytes of all sequences so far
  std::uint32_t more;                                  ///< 1: not at the end
  std::uint32_t bad;
};

/// What a token says: literals, then a match.
struct lz_token {
  std::uint32_t literals_at;  ///< as the token's place
  std::uint32_t literals, match, offset;
  std::uint32_t end;  ///< where the next one begins; 0: this one does not end within the view
};

/// Adds bytes at `at` to `length` until one is not 255; false when the view ends before.
PENSTOCK_DEVICE bool extend_length(byte_view from, std::uint32_t& at, std::uint32_t& length) {
  std::uint32_t more;
  PENSTOCK_SMALL_LOOP
  do {
    if (at >= from.size) return false;
    more = from.begin[at++];
    length += more;
  } while (more == 255);
  return true;
}

/// The LZ4 token at `at`, which is within the view.
PENSTOCK_DEVICE lz_token lz4_token(byte_view from, std::uint32_t at) {
  const std::uint32_t head = from.begin[at++];
  lz_token token{0, head >> 4, head & 15, 0, 0};
  if (token.literals == 15 && !extend_length(from, at, token.literals)) return token;
  token.literals_at = at;
  at += token.literals;
  if (at + 2 > from.size) return token;
  token.offset = from.begin[at] | static_cast<std::uint32_t>(from.begin[at + 1]) << 8;
  at += 2;
  if (token.match == 15 && !extend_length(from, at, token.match)) return token;
  token.match += 4;
  token.end = at;
  return token;
}

/// A Snappy tag, literals or a copy.
PENSTOCK_DEVICE lz_token snappy_token(byte_view from, std::uint32_t at) {
  const std::uint32_t head = from.begin[at++], kind = head & 3;
  lz_token token{at, 0, 0, 0, 0};
  const std::uint32_t bytes = kind == 3 ? 4 : kind != 0 ? kind : head >> 2 < 60 ? 0 : (head >> 2) - 59;
  if (at + bytes > from.size) return token;
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    if (i < bytes) number |= static_cast<std::uint32_t>(from.begin[at + i]) << (8 * i);
  at += bytes;
  if (kind == 0) {
    token.literals_at = at;
    token.literals = bytes == 0 ? (head >> 2) + 1 : number + 1;
    if (token.literals == 0 || token.literals > from.size - at) return token;
    at += token.literals;
  } else {
    token.offset = kind == 1 ? (head >> 5) << 8 | number : number;
    token.match = kind == 1 ? 4 + (head >> 2 & 7) : 1 + (head >> 2);
  }
  token.end = at;
  return token;
}

PENSTOCK_DEVICE lz_token blosclz_token(byte_view from, std::uint32_t at) {
  const std::uint32_t head = from.begin[at++];
  lz_token token{at, 0, 0, 0, 0};
  if (head < 32) {
    token.literals = head + 1;
    at += token.literals;
    token.end = at <= from.size ? at : 0;
    return token;
  }
  token.match = (head >> 5) - 1;
  if (token.match == 6 && !extend_length(from, at, token.match)) return token;
  token.match += 3;
  if (at + 3 > from.size) return token;  // the most that follows
  const std::uint32_t low = from.begin[at++];
  token.offset = ((head & 31) << 8) + low + 1;
  if (low == 255 && (head & 31) == 31) {
    token.offset = (static_cast<std::uint32_t>(from.begin[at]) << 8 | from.begin[at + 1]) + 8192;
    at += 2;
  }
  token.end = at;
  return token;
}

/// A PackBits run. The byte that means nothing is a token of nothing.
PENSTOCK_DEVICE lz_token packbits_token(byte_view from, std::uint32_t at) {
  const std::uint32_t head = from.begin[at++];
  lz_token token{at, head < 128 ? head + 1 : head == 128 ? 0u : 1u, head > 128 ? 256 - head : 0u, 1, 0};
  at += token.literals;
  token.end = at <= from.size ? at : 0;
  return token;
}

PENSTOCK_DEVICE lz_token token_at(lz_format format, byte_view from, std::uint32_t at) {
  switch (format) {
    case lz_format::snappy:
      return snappy_token(from, at);
    case lz_format::blosclz:
      return blosclz_token(from, at);
    case lz_format::packbits:
      return packbits_token(from, at);
    case lz_format::lz4_block:
      break;
  }
  return lz4_token(from, at);
}

/// Whether an LZ4 token's lengths stand in its first byte.
PENSTOCK_DEVICE bool is_short_lz4(std::uint32_t head) { return head < 0xf0 && (head & 15) != 15; }

/// Where up to 32 tokens begin, from `at` of the window on; how many end within it.
PENSTOCK_DEVICE std::uint32_t find_tokens(lz_format format, byte_view window, std::uint32_t at, std::uint32_t* starts) {
  constexpr std::uint32_t kAhead = 4, kMostShort = 3 + 14;
  static_assert(kLanes % kAhead == 0);
  std::uint32_t count = 0;
  PENSTOCK_SMALL_LOOP
  while (count < kLanes && at < window.size) {
    // Several steps as if all tokens were short; whether they were is asked once.
    if (format == lz_format::lz4_block && count % kAhead == 0 && at + kAhead * kMostShort < window.size) {
      std::uint32_t next = at;
      bool all_short = true;
      for (std::uint32_t i = 0; i < kAhead; ++i) {
        starts[count + i] = next;
        const std::uint32_t head = window.begin[next];
        all_short = all_short && is_short_lz4(head);
        next += 3 + (head >> 4);
      }
      if (all_short) {
        at = next;
        count += kAhead;
        continue;
      }
    }
    starts[count] = at;
    const std::uint32_t end = token_at(format, window, at).end;
    if (end == 0) break;
    at = end;
    ++count;
  }
  return count;
}

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
    shared_.literals_at = at_;
    shared_.literals = literals;
    shared_.match = shared_.offset = 0;
    at_ += literals;
    made_ += literals;
    found_ = true;
    return true;
  }
  /// The match of the sequence that was taken.
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

/// The next sequence of an LZ4 block (lz4_Block_format.md); false: damaged. `more` is false behind the last.
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
    // The decoder that defines the format drops a match that nothing follows.
    if (in.done()) return false;
    if (!in.take(0) || !in.take_match(length + 3, offset)) return false;
  }
  return true;
}

/// The next run of a PackBits stream (TIFF 6.0, section 9). What is left when the target is full is left out.
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

/// What the reading lane does for a sequence with every check.
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

/// Reads tokens from `at` on, a token each lane, and appends what they stand for as far as no rules are about them.
/// `at` and `made` move on; false: damaged.
PENSTOCK_DEVICE bool append_tokens(const decode_part& part, lz_output& out, lz_parts_shared& shared,
                                   std::uint32_t window_at, std::uint32_t& at, std::uint32_t& made, warp lanes) {
  const auto format = static_cast<lz_format>(part.parameter);
  const std::uint32_t left = part.source_bytes - window_at;
  const byte_view window{shared.window, left < kWindowBytes ? left : kWindowBytes};
  lanes.once([&] { shared.count = find_tokens(format, window, at - window_at, shared.starts); });
  const std::uint32_t count = shared.count;
  lz_batch batch;
  per_lane<std::uint32_t> ends;
  per_lane<bool> plain;
  lanes.each_alone([&](int lane) {
    lz_token token{};
    if (static_cast<std::uint32_t>(lane) < count) token = token_at(format, window, shared.starts[lane]);
    batch.literals_at[lane] = part.source + window_at + token.literals_at;
    batch.literals[lane] = token.literals;
    batch.match[lane] = token.match;
    batch.offset[lane] = token.offset;
    ends[lane] = window_at + token.end;
  });
  sum_up(lanes, batch);
  lanes.each_alone([&](int lane) {
    plain[lane] = static_cast<std::uint32_t>(lane) < count && part.source_bytes - ends[lane] >= kTokenMargin &&
                  made + batch.ends[lane] + kTokenMargin <= part.target_bytes;
  });
  const std::uint32_t others = ~lanes.ballot(plain);
  const std::uint32_t tokens = others == 0 ? kLanes : static_cast<std::uint32_t>(lowest_bit(others));
  if (tokens == 0) return true;
  const std::uint32_t taken = out.append(lanes, batch, tokens);
  if (taken == 0) return false;
  at = lanes.from(ends, static_cast<int>(taken) - 1);
  made += lanes.from(batch.ends, static_cast<int>(taken) - 1);
  return true;
}

/// Appends what the sequences of `part` stand for, at most `part.target_bytes` bytes; false: damaged.
PENSTOCK_DEVICE bool lz_sequences(const decode_part& part, lz_output& out, lz_parts_shared& shared, warp lanes) {
  const auto* const source = pointer<const std::uint8_t>(part.source);
  std::uint32_t at = 0, made = 0, window_at = 0;
  bool window = false;
  for (;;) {
    if (at != 0) {
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
      const std::uint32_t before = at;
      if (!append_tokens(part, out, shared, window_at, at, made, lanes)) return false;
      if (at != before) continue;
    }
    lanes.once([&] { read_lz_sequence(part, shared, at, made); });
    const bool good = shared.bad == 0, more = shared.more != 0, found = shared.found != 0;
    lz_batch batch;
    lanes.each_alone([&](int lane) {
      batch.literals_at[lane] = part.source + shared.literals_at;
      batch.literals[lane] = lane == 0 ? shared.literals : 0;
      batch.match[lane] = lane == 0 ? shared.match : 0;
      batch.offset[lane] = shared.offset;
      batch.ends[lane] = shared.literals + shared.match;
    });
    at = shared.at;
    made = shared.made;
    if (!good || (found && out.append(lanes, batch, 1) == 0)) return false;
    if (!more) return true;
  }
}

/// What one warp does: the part that is `turn` in the wave's order.
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
