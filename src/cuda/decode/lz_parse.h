#pragma once

// Finds the positions at which the tokens of a window begin.
//
// A token's end follows from its first bytes, so tokens are found one after the other. Stepping over them in one lane
// costs some 100 cycles per token. If there are many, all lanes find them together, without knowing where one begins:
//
//   steps   for every byte of the window: the length of a token that begins there
//   exits   for every byte: where the chain of tokens that begins there leaves its segment of 64 bytes; a segment per
//           lane, backwards
//   entries one lane follows the exits from the first token on: one step per segment
//   starts  every lane follows the steps from the first token of its segment; a prefix sum over the numbers of tokens
//           gives their indexes among all
//
// The cost hardly depends on the content of the window; stepping costs less if a window has few tokens.

#include "cuda/decode/lz_tokens.h"
#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kWindowBytes = 2048;
inline constexpr std::uint32_t kSegmentBytes = 64;
static_assert(kWindowBytes == kLanes * kSegmentBytes);
/// Size of a segment in the tables: lanes that step together use different banks of shared memory.
inline constexpr std::uint32_t kSegmentStride = kSegmentBytes + 4;
/// An exit of at least this is the offset, in its segment, of a token whose end is not in the tables, minus the size of
/// a segment, modulo 256.
inline constexpr std::uint32_t kOpenExit = 256 - kSegmentBytes;
/// A window is parsed by all lanes if at least this many tokens are expected.
inline constexpr std::uint32_t kManyTokens = 64;
/// In other windows, one lane finds at most this many; the rest are in the next window.
inline constexpr std::uint32_t kMostStepped = kManyTokens + 32;

struct lz_tables {
  alignas(4) std::uint8_t steps[kLanes * kSegmentStride];  ///< length of a token; 0: unknown, or too long
  alignas(4) std::uint8_t exits[kLanes * kSegmentStride];  ///< bytes after the segment, or kOpenExit and more
};

struct lz_window_shared {
  alignas(16) std::uint8_t bytes[kWindowBytes];  ///< zeros beyond the source
  union {
    lz_tables tables;
    std::uint16_t starts[kWindowBytes];  ///< offsets of tokens in the window
  };
  std::uint8_t entries[kLanes];  ///< offset of a segment's first token; kSegmentBytes: none
  std::uint32_t stop;            ///< the token that does not end in the window; its size: none known
  std::uint32_t count;           ///< number of `starts`
};

/// A part of the source in shared memory.
struct lz_window {
  std::uint32_t at;    ///< offset of the window's first byte in the source, modulo 2^32: at most 15 bytes before it
  std::uint32_t from;  ///< offset of the first token in the window
  byte_view view;
};

/// Loads the window whose first token begins at `at` of the source: whole words of memory, all at once.
PENSTOCK_DEVICE lz_window load_window(byte_view source, std::uint32_t at, lz_window_shared& shared, warp lanes) {
  const std::uint32_t lead = misalignment(source.begin + at, 16), first = at - lead;
  lanes.each([&](int lane) {
    constexpr std::uint32_t kTurns = kWindowBytes / 16 / kLanes;
    words_16 words[kTurns];
    bool whole[kTurns];
    for (std::uint32_t k = 0; k < kTurns; ++k) {
      // If it is before the source, this exceeds every size.
      const std::uint32_t place = first + 16 * (static_cast<std::uint32_t>(lane) + kLanes * k);
      whole[k] = place < source.size && source.size - place >= 16;
      words[k] = {};
      if (whole[k]) words[k] = load_16_bytes(source.begin + place);
    }
    for (std::uint32_t k = 0; k < kTurns; ++k) {
      const std::uint32_t to = 16 * (static_cast<std::uint32_t>(lane) + kLanes * k);
      store_16_bytes(shared.bytes + to, words[k]);
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t i = 0; i < 16 && !whole[k]; ++i)
        if (first + to + i < source.size) shared.bytes[to + i] = source.begin[first + to + i];
    }
  });
  const std::uint32_t left = source.size - at;
  return {first, lead, {shared.bytes, left < kWindowBytes - lead ? left + lead : kWindowBytes}};
}

// The lengths of four tokens that begin at the four bytes of a word, each in a byte; 0 if the length depends on more
// than that byte.

PENSTOCK_DEVICE std::uint32_t without_bytes(std::uint32_t steps, std::uint32_t ones) { return steps & ~(ones * 255u); }

PENSTOCK_DEVICE std::uint32_t lz4_steps(std::uint32_t word) {
  const std::uint32_t literals = word >> 4 & 0x0f0f0f0fu, match = word & 0x0f0f0f0fu;
  const std::uint32_t is_long = ((literals + 0x01010101u) | (match + 0x01010101u)) >> 4 & 0x01010101u;
  return without_bytes(literals + 0x03030303u, is_long);
}

PENSTOCK_DEVICE std::uint32_t snappy_steps(std::uint32_t word) {
  const std::uint32_t kind = word & 0x03030303u, length = word >> 2 & 0x3f3f3f3fu;
  const std::uint32_t is_copy = (kind | kind >> 1) & 0x01010101u, is_far = kind & kind >> 1 & 0x01010101u;
  const std::uint32_t is_long = (length + 0x04040404u) >> 6 & ~is_copy & 0x01010101u;  // literals of 61 and more
  const std::uint32_t copies = is_copy * 255u;
  return without_bytes(((kind + 0x01010101u + is_far) & copies) | ((length + 0x02020202u) & ~copies), is_long);
}

PENSTOCK_DEVICE std::uint32_t blosclz_steps(std::uint32_t word) {
  const std::uint32_t match = word >> 5 & 0x07070707u, low = word & 0x1f1f1f1fu;
  const std::uint32_t is_match = (match + 0x07070707u) >> 3 & 0x01010101u;
  const std::uint32_t is_long = ((match + 0x01010101u) >> 3 | (low + 0x01010101u) >> 5) & is_match & 0x01010101u;
  const std::uint32_t matches = is_match * 255u;
  return without_bytes((0x02020202u & matches) | ((low + 0x02020202u) & ~matches), is_long);
}

PENSTOCK_DEVICE std::uint32_t packbits_steps(std::uint32_t word) {
  const std::uint32_t low = word & 0x7f7f7f7fu, is_run = word >> 7 & 0x01010101u, runs = is_run * 255u;
  const std::uint32_t means_something = (low + 0x7f7f7f7fu) >> 7 & 0x01010101u;  // of the bytes of 128 and more
  return ((0x01010101u + means_something) & runs) | ((low + 0x02020202u) & ~runs);
}

template <lz_format kFormat>
PENSTOCK_DEVICE std::uint32_t steps_of(std::uint32_t word) {
  if constexpr (kFormat == lz_format::snappy) return snappy_steps(word);
  if constexpr (kFormat == lz_format::blosclz) return blosclz_steps(word);
  if constexpr (kFormat == lz_format::packbits) return packbits_steps(word);
  return lz4_steps(word);
}

/// Whether a token that begins with two bytes of 255 has a length of several bytes, which no step represents.
template <lz_format kFormat>
inline constexpr bool kLengthsGoOn = kFormat == lz_format::lz4_block || kFormat == lz_format::blosclz;

/// The highest bit of each byte of `word` that is 255 and followed by another 255; `next` is the word after it.
PENSTOCK_DEVICE std::uint32_t pairs_of_255(std::uint32_t word, std::uint32_t next) {
  const std::uint32_t both = word & (word >> 8 | next << 24);
  return ((both & 0x7f7f7f7fu) + 0x01010101u) & both & 0x80808080u;
}

/// A bit for each of 16 bytes: whether its step, 0 in `steps`, is to be looked up. Long lengths are chains of bytes of
/// 255, any of which could begin a token: except for the last byte, their steps stay 0.
template <lz_format kFormat>
PENSTOCK_DEVICE std::uint32_t unknown_steps(const words_16& words, const words_16& steps) {
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t chained =
        kLengthsGoOn<kFormat> ? pairs_of_255(words.word[i], i == 3 ? 0 : words.word[i + 1]) : 0;
    const std::uint32_t known = ((steps.word[i] + 0x7f7f7f7fu) | chained) >> 7 & 0x01010101u;
    out |= (known * 0x10204080u >> 28 ^ 15u) << (4 * i);
  }
  return out;
}

/// The shortest token.
template <lz_format kFormat>
inline constexpr std::uint32_t kLeastStep = kFormat == lz_format::lz4_block  ? 3
                                            : kFormat == lz_format::packbits ? 1
                                                                             : 2;

/// The length of a token, computed as if each of its lengths had at most one more byte.
struct token_step {
  std::uint32_t bytes;
  bool known;  ///< whether this is correct
};

/// The length of the token at `at`, of which the view has at least the first byte; it may end beyond the view.
template <lz_format kFormat>
PENSTOCK_DEVICE token_step step_at(byte_view from, std::uint32_t at) {
  const std::uint32_t last = from.size - 1;
  const auto byte = [&](std::uint32_t place) { return std::uint32_t{from.begin[place < last ? place : last]}; };
  const std::uint32_t head = byte(at), second = byte(at + 1);
  if constexpr (kFormat == lz_format::packbits) return {head < 128 ? head + 2 : head == 128 ? 1u : 2u, true};
  if constexpr (kFormat == lz_format::snappy) {
    const std::uint32_t kind = head & 3, length = head >> 2, copy = 1 + kind + (kind == 3 ? 1u : 0u);
    const std::uint32_t literals = length < 60 ? length + 2 : 3 + second;
    return {kind != 0 ? copy : literals, (kind != 0 ? 0 : length) <= 60};
  }
  if constexpr (kFormat == lz_format::blosclz) {
    const bool extended = head >> 5 == 7;
    const std::uint32_t low = extended ? byte(at + 2) : second, step = extended ? 3 : 2;
    if (head < 32) return {head + 2, true};
    return {(head & 31) == 31 && low == 255 ? step + 2 : step, !extended || second != 255};
  }
  // The bytes that verify it are loaded whether they are lengths or not, so that the next token does not wait.
  const bool extended = head >= 0xf0, more = (head & 15) == 15;
  const std::uint32_t step = (head >> 4) + 3 + (extended ? 1 + second : 0), third = byte(at + step);
  const std::uint32_t most = (extended ? second : 0) | (more ? third << 8 : 0);
  return {more ? step + 1 : step, (most & 255) != 255 && most >> 8 != 255};
}

/// The length of the token at `at` if its first byte does not determine it. 0 if the token has lengths of several
/// bytes, which are rare.
template <lz_format kFormat>
PENSTOCK_DEVICE std::uint32_t long_step(byte_view from, std::uint32_t at) {
  const token_step step = step_at<kFormat>(from, at);
  if constexpr (kFormat == lz_format::snappy) return from.begin[at] >> 2 == 60 ? step.bytes : 0;  // literals
  return step.known ? step.bytes : 0;
}

/// The offset in the tables for an offset in the window.
PENSTOCK_DEVICE std::uint32_t table_place(std::uint32_t at) {
  return at + (kSegmentStride - kSegmentBytes) * (at / kSegmentBytes);
}

template <lz_format kFormat>
PENSTOCK_DEVICE void make_steps(byte_view window, lz_window_shared& shared, warp lanes) {
  constexpr std::uint32_t kTurns = kWindowBytes / 16 / kLanes;
  lanes.each([&](int lane) {
    const auto own = static_cast<std::uint32_t>(lane);
    shared.entries[lane] = kSegmentBytes;
    shared.tables.steps[kSegmentStride * own + kSegmentBytes] = 0;
    std::uint64_t unknown = 0;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t k = 0; k < kTurns; ++k) {
      const std::uint32_t at = 16 * (own + kLanes * k);
      const words_16 words = load_16_bytes(shared.bytes + at);
      std::uint8_t* const to = shared.tables.steps + table_place(at);
      words_16 steps;
      for (std::uint32_t i = 0; i < 4; ++i) {
        steps.word[i] = steps_of<kFormat>(words.word[i]);
        store_word(to + 4 * i, steps.word[i]);
      }
      if constexpr (kFormat != lz_format::packbits)  // whose steps are all known
        unknown |= static_cast<std::uint64_t>(unknown_steps<kFormat>(words, steps)) << (16 * k);
    }
    if constexpr (kFormat != lz_format::packbits) {
      const auto place = [&] {
        const auto bit = static_cast<std::uint32_t>(lowest_bit(unknown));
        return 16 * own + bit + (16 * kLanes - 16) * (bit / 16);
      };
      const auto look = [&](std::uint32_t at) {
        const std::uint32_t step = long_step<kFormat>(window, at < window.size ? at : window.size - 1);
        return step <= 255 - at % kSegmentBytes ? step : 0;
      };
      PENSTOCK_SMALL_LOOP
      while (unknown != 0) {  // two at a time: neither waits for the other's loads
        const std::uint32_t first = place();
        if ((unknown & (unknown - 1)) != 0) unknown &= unknown - 1;
        const std::uint32_t second = place();
        unknown &= unknown - 1;
        const std::uint32_t first_step = look(first), second_step = look(second);
        shared.tables.steps[table_place(first)] = static_cast<std::uint8_t>(first_step);
        shared.tables.steps[table_place(second)] = static_cast<std::uint8_t>(second_step);
      }
    }
  });
}

template <lz_format kFormat>
PENSTOCK_DEVICE void make_exits(lz_window_shared& shared, warp lanes) {
  lanes.each([&](int lane) {
    const std::uint8_t* const steps = shared.tables.steps + kSegmentStride * static_cast<std::uint32_t>(lane);
    std::uint8_t* const exits = shared.tables.exits + kSegmentStride * static_cast<std::uint32_t>(lane);
    std::uint32_t word = load_word(steps + kSegmentBytes - 4);
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t group = kSegmentBytes - 4; group < kSegmentBytes; group -= 4) {
      const std::uint32_t now = word;
      word = load_word(steps + (group == 0 ? 0 : group - 4));
      std::uint32_t out[4];
      for (std::uint32_t k = 4; k-- > 0;) {
        const std::uint32_t step = now >> (8 * k) & 255u, next = group + k + step;
        out[k] = next - kSegmentBytes;  // if the step is 0: kOpenExit plus the offset
        if (step - 1 < kSegmentBytes - 1 - k - group) {
          bool in_word = false;
          for (std::uint32_t i = k + kLeastStep<kFormat>; i < 4; ++i) in_word = in_word || k + step == i;
          if (!in_word) out[k] = exits[next];
        }
      }
      for (std::uint32_t k = 4; k-- > 0;)
        for (std::uint32_t i = k + kLeastStep<kFormat>; i < 4; ++i)
          if ((now >> (8 * k) & 255u) == i - k) out[k] = out[i];
      store_word(exits + group, pick_bytes(pick_bytes(out[0], out[1], 0x40), pick_bytes(out[2], out[3], 0x40), 0x5410));
    }
  });
}

/// Follows the exits from `at` on, in one lane.
template <lz_format kFormat>
PENSTOCK_DEVICE void find_entries(byte_view window, std::uint32_t at, lz_window_shared& shared) {
  constexpr std::uint32_t kAhead = 4;
  std::uint32_t entered = kLanes;  // the segment
  shared.stop = window.size;
  PENSTOCK_SMALL_LOOP
  while (at < window.size) {
    // Several segments as if all exits were known and none of them the last; one check verifies that afterwards.
    std::uint32_t place[kAhead + 1] = {at}, known = 0;
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      const std::uint32_t out = shared.tables.exits[table_place(place[i] < kWindowBytes ? place[i] : 0)];
      place[i + 1] = (place[i] | (kSegmentBytes - 1)) + 1 + out;
      known = known > out ? known : out;
    }
    if (known < kOpenExit && place[kAhead - 1] < window.size && at / kSegmentBytes != entered) {
      for (std::uint32_t i = 0; i < kAhead; ++i)
        shared.entries[place[i] / kSegmentBytes] = static_cast<std::uint8_t>(place[i] % kSegmentBytes);
      at = place[kAhead];
      continue;
    }
    const std::uint32_t segment = at / kSegmentBytes, out = shared.tables.exits[table_place(at)];
    if (segment != entered) shared.entries[segment] = static_cast<std::uint8_t>(at % kSegmentBytes);
    entered = segment;
    if (out < kOpenExit) {
      at = place[1];
      continue;
    }
    at = kSegmentBytes * segment + (out - kOpenExit);
    const std::uint32_t end = token_at(kFormat, window, at).end;
    if (end == 0) {
      shared.stop = at;
      return;
    }
    // The segment may continue after the token, for the lane that follows its steps.
    if (end / kSegmentBytes == segment) shared.tables.steps[table_place(at)] = static_cast<std::uint8_t>(end - at);
    at = end;
  }
}

PENSTOCK_DEVICE void make_starts(byte_view window, lz_window_shared& shared, warp lanes) {
  constexpr std::uint32_t kAhead = 4;
  per_lane<std::uint32_t> lows, highs, counts;
  lanes.each_alone([&](int lane) {
    const std::uint32_t first = kSegmentBytes * static_cast<std::uint32_t>(lane);
    const std::uint32_t left = first < window.size ? window.size - first : 0;
    const std::uint8_t* const steps = shared.tables.steps + kSegmentStride * static_cast<std::uint32_t>(lane);
    std::uint32_t at = shared.entries[lane], low = 0, high = 0, step;
    PENSTOCK_SMALL_LOOP
    do {  // the segment's end also has a step of 0
      for (std::uint32_t i = 0; i < kAhead; ++i) {
        low |= bit_at(at);
        high |= bit_at(at - 32);
        step = steps[at];
        at = at + step < kSegmentBytes ? at + step : kSegmentBytes;
      }
    } while (step != 0);
    // Beyond the source's end there are none, and the last one may not end in the window.
    low &= bit_at(left) - 1;
    high &= left < 32 ? 0 : bit_at(left - 32) - 1;
    if ((low | high) != 0) {
      const auto last = static_cast<std::uint32_t>(high != 0 ? 32 + highest_bit(high) : highest_bit(low));
      step = steps[last];
      if (step == 0 ? first + last >= shared.stop : last + step > left) {
        low &= ~bit_at(last);
        high &= ~bit_at(last - 32);
      }
    }
    lows[lane] = low;
    highs[lane] = high;
    counts[lane] = bit_count(low) + bit_count(high);
  });
  per_lane<std::uint32_t> ends = counts;
  lanes.sum_up(ends);
  lanes.sync();  // the starts overwrite the tables
  lanes.each([&](int lane) {
    if (lane == kLanes - 1) shared.count = ends[lane];
    std::uint16_t* to = shared.starts + (ends[lane] - counts[lane]);
    std::uint32_t base = kSegmentBytes * static_cast<std::uint32_t>(lane), left = lows[lane];
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = counts[lane]; i > 0; --i) {
      if (left == 0) {
        left = highs[lane];
        base += 32;
      }
      *to++ = static_cast<std::uint16_t>(base + static_cast<std::uint32_t>(lowest_bit(left)));
      left &= left - 1;
    }
  });
}

/// Finds, by all lanes, the beginnings of all tokens that end in the window.
template <lz_format kFormat>
PENSTOCK_DEVICE void parse_window(const lz_window& window, lz_window_shared& shared, warp lanes) {
  make_steps<kFormat>(window.view, shared, lanes);
  make_exits<kFormat>(shared, lanes);
  lanes.once([&] { find_entries<kFormat>(window.view, window.from, shared); });
  make_starts(window.view, shared, lanes);
}

PENSTOCK_DEVICE void parse_window(lz_format format, const lz_window& window, lz_window_shared& shared, warp lanes) {
  switch (format) {
    case lz_format::snappy:
      return parse_window<lz_format::snappy>(window, shared, lanes);
    case lz_format::blosclz:
      return parse_window<lz_format::blosclz>(window, shared, lanes);
    case lz_format::packbits:
      return parse_window<lz_format::packbits>(window, shared, lanes);
    case lz_format::lz4_block:
      break;
  }
  parse_window<lz_format::lz4_block>(window, shared, lanes);
}

/// Finds the beginnings of tokens in the window in one lane: up to `kMostStepped`, or three less. Returns the number.
template <lz_format kFormat>
PENSTOCK_DEVICE std::uint32_t step_over_tokens(const lz_window& window, std::uint16_t* starts) {
  constexpr std::uint32_t kAhead = 4;
  const byte_view from = window.view;
  std::uint32_t count = 0, at = window.from;
  bool is_long = false;  // the last token, as far as it was read with every check
  PENSTOCK_SMALL_LOOP
  while (count + kAhead <= kMostStepped && at < from.size) {
    // Several steps as if no length had more than a byte. This is verified later, so that no step waits for it.
    std::uint32_t next = at, steps = 0;
    bool known = true;
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      starts[count + i] = static_cast<std::uint16_t>(next);
      const token_step step = step_at<kFormat>(from, next);
      next += step.bytes;
      known = known && step.known && next <= from.size;
      at = known ? next : at;
      steps += known ? 1 : 0;
    }
    count += steps;
    if (known) {
      is_long = false;
      continue;
    }
    // After two long tokens, the next ones are probably long, too, and steps would be in vain.
    const bool several = is_long && steps == 0;
    do {
      const lz_token token = at < from.size ? token_at(kFormat, from, at) : lz_token{};
      if (token.end == 0) return count;
      starts[count] = static_cast<std::uint16_t>(at);
      at = token.end;
      is_long = token.literals + token.match > 255;
      ++count;
    } while (several && is_long && count + kAhead <= kMostStepped);
  }
  return count;
}

PENSTOCK_DEVICE std::uint32_t step_over_tokens(lz_format format, const lz_window& window, std::uint16_t* starts) {
  switch (format) {
    case lz_format::snappy:
      return step_over_tokens<lz_format::snappy>(window, starts);
    case lz_format::blosclz:
      return step_over_tokens<lz_format::blosclz>(window, starts);
    case lz_format::packbits:
      return step_over_tokens<lz_format::packbits>(window, starts);
    case lz_format::lz4_block:
      break;
  }
  return step_over_tokens<lz_format::lz4_block>(window, starts);
}

}  // namespace penstock::inline v0::device
