#pragma once

// A block's literals section (RFC 8878, 3.1.1.3.1).

#include "cuda/encode/huffman_encode.h"

namespace penstock::inline v0::device {

struct zstd_encode_literals_shared {
  huffman_encoder code;
  lane_bits_shared bits;
};

inline constexpr std::uint32_t kLeastStreamedLiterals = 256;  ///< fewer are one stream, not four

enum class literals_form : std::uint32_t { raw = 0, repeated = 1, huffman = 2 };

/// Raw or repeated literals: 5, 12 or 20 bits for their number.
PENSTOCK_DEVICE void write_plain_literals(literals_form form, const std::uint8_t* from, std::uint32_t count,
                                          byte_writer& out, warp lanes) {
  const auto kind = static_cast<std::uint32_t>(form);
  if (count < 32) {
    out.number(kind | count << 3, 1, lanes);
  } else if (count < 4096) {
    out.number(kind | 1u << 2 | count << 4, 2, lanes);
  } else {
    out.number(kind | 3u << 2 | count << 4, 3, lanes);
  }
  out.copy(from, form == literals_form::repeated ? 1 : count, lanes);
}

/// The header of Huffman literals: two sizes of 10, 14 or 18 bits. Its length depends on the larger one alone.
PENSTOCK_DEVICE std::uint32_t huffman_header_bytes(std::uint32_t count) {
  return count < 1024 ? 3 : count < 16384 ? 4 : 5;
}
PENSTOCK_DEVICE std::uint64_t huffman_header(std::uint32_t count, std::uint32_t encoded) {
  const std::uint32_t bytes = huffman_header_bytes(count);
  const int width = bytes == 3 ? 10 : bytes == 4 ? 14 : 18;
  const std::uint32_t format = count < kLeastStreamedLiterals ? 0 : bytes - 2;
  return static_cast<std::uint32_t>(literals_form::huffman) | format << 2 | static_cast<std::uint64_t>(count) << 4 |
         static_cast<std::uint64_t>(encoded) << (4 + width);
}

/// Writes the section for `count` literals, Huffman-coded if that is smaller.
PENSTOCK_DEVICE void write_literals(const std::uint8_t* from, std::uint32_t count, zstd_encode_literals_shared& shared,
                                    byte_writer& out, warp lanes) {
  huffman_encoder& code = shared.code;
  count_bytes(from, count, code, lanes);
  if (code.used < 2) {
    write_plain_literals(count < 4 ? literals_form::raw : literals_form::repeated, from, count, out, lanes);
    return;
  }
  make_huffman_code(code, lanes);
  const std::uint32_t streams = count < kLeastStreamedLiterals ? 1 : 4, jumps = streams == 1 ? 0 : 6;
  const std::uint32_t header = huffman_header_bytes(count);
  // Each stream may fill up a byte, and has a bit that marks its end.
  const std::uint32_t most = code.tree_bytes + jumps + code.bits / 8 + 2 * streams;
  if (code.tree_bytes == 0 || most >= count) {
    write_plain_literals(literals_form::raw, from, count, out, lanes);
    return;
  }
  std::uint8_t* const head = out.claim(header);
  const std::uint32_t begin = out.size(), each = (count + streams - 1) / streams;
  out.copy(code.tree, code.tree_bytes, lanes);
  std::uint8_t* const table = out.claim(jumps);
  std::uint64_t sizes = 0;  // sizes of all streams except the last
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < streams && out.fits(); ++i) {
    const std::uint32_t before = out.size();
    const bool last = i + 1 == streams;
    write_huffman_stream(from + i * each, last ? count - i * each : each, code, shared.bits, out, lanes);
    if (!last) sizes |= static_cast<std::uint64_t>(out.size() - before) << (16 * i);
  }
  if (!out.fits()) return;
  byte_writer::put(table, sizes, jumps, lanes);
  byte_writer::put(head, huffman_header(count, out.size() - begin), header, lanes);
}

}  // namespace penstock::inline v0::device
