#pragma once

// The tokens of formats without entropy coding: LZ4 blocks, Snappy, BloscLZ, PackBits.

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

// Tokens are in views that begin at a multiple of 16 bytes, as windows do.

/// A decoded token: a run of literals, then a match.
struct lz_token {
  std::uint32_t literals_at;  ///< in the same view as the token
  std::uint32_t literals, match, offset;
  std::uint32_t end;  ///< offset of the next one; 0: this one does not end within the view
};

/// Adds bytes at `at` to `length` until one is not 255; false if the view, which is aligned to 16 bytes, ends before.
PENSTOCK_DEVICE bool extend_length(byte_view from, std::uint32_t& at, std::uint32_t& length) {
  PENSTOCK_SMALL_LOOP
  while (at < from.size) {
    const std::uint32_t more = from.begin[at++];
    length += more;
    if (more != 255) return true;
    if (at % 16 != 0) continue;
    // The length of a match of 256 KiB has a thousand bytes of 255.
    PENSTOCK_SMALL_LOOP
    for (; at + 16 <= from.size; at += 16) {
      const words_16 words = load_16_bytes(from.begin + at);
      if ((words.word[0] & words.word[1] & words.word[2] & words.word[3]) != ~0u) break;
      length += 16 * 255;
    }
  }
  return false;
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
  if (at >= from.size) return token;
  const std::uint32_t low = from.begin[at++];
  token.offset = ((head & 31) << 8) + low + 1;
  if (low == 255 && (head & 31) == 31) {
    if (at + 2 > from.size) return token;
    token.offset = (static_cast<std::uint32_t>(from.begin[at]) << 8 | from.begin[at + 1]) + 8192;
    at += 2;
  }
  token.end = at;
  return token;
}

/// A PackBits run. The byte without a meaning is an empty token.
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

}  // namespace penstock::inline v0::device
