#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// The source of literal codes: the i-th byte is i, with space for wide reads.
struct lzw_literals {
  std::uint8_t bytes[256 + 16] = {};
  constexpr lzw_literals() {
    for (unsigned i = 0; i < 256; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  }
};
inline constexpr lzw_literals kLzwLiterals;

/// LZW as in TIFF, in two halves: from bits to codes, and from codes to bytes. No decoder can avoid the second half,
/// however it finds the codes: a look-up in the table and a copy for each. Plain loops for the ceiling program, which
/// links no part of Penstock.
///
/// Source: TIFF 6.0, section 13.
class lzw {
 public:
  /// Bytes after the output that `join` may write to.
  static constexpr std::size_t kSlack = 16;

  /// Extracts the codes of a stream, without the one that ends it. Returns false if it does not end.
  static bool cut(const std::byte* from, std::size_t length, std::vector<std::uint16_t>& codes) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
    unsigned width = 9, next = kFirst;
    bool follows = false;
    codes.clear();
    for (std::size_t bit = 0; bit + width <= 8 * length;) {
      std::uint32_t window = 0;
      for (std::size_t i = 0; i < 4; ++i) window = window << 8 | (bit / 8 + i < length ? bytes[bit / 8 + i] : 0U);
      const auto code = static_cast<std::uint16_t>(window << bit % 8 >> (32 - width));
      bit += width;
      if (code == kEnd) return true;
      codes.push_back(code);
      if (code == kClear) {
        width = 9;
        next = kFirst;
      } else if (follows && ++next == (1U << width) - 1 && width < 12) {
        ++width;
      }
      follows = code != kClear;
    }
    return false;
  }

  /// Writes the bytes of the codes. Returns false if they are not `length` bytes.
  bool join(const std::vector<std::uint16_t>& codes, std::byte* to, std::size_t length) {
    auto* out = reinterpret_cast<std::uint8_t*>(to);
    const std::uint8_t* const end = out + length;
    const std::uint8_t* before = nullptr;  // the string of the previous code; null after a clear code
    std::size_t before_length = 0;
    unsigned next = kFirst;
    for (const std::uint16_t code : codes) {
      if (code == kClear) {
        before = nullptr;
        next = kFirst;
        continue;
      }
      if (before != nullptr && next < kCodes) table_[next++] = {before, before_length + 1};
      const bool literal = code < kClear;
      if (!literal && code >= next) return false;
      const std::uint8_t* from = literal ? kLzwLiterals.bytes + code : table_[code].begin;
      const std::size_t size = literal ? 1 : table_[code].length;
      if (size > static_cast<std::size_t>(end - out)) return false;
      for (std::size_t i = 0; i < size; i += kSlack) {
        const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), part);
      }
      if (from == before && size == before_length + 1) out[before_length] = *from;  // it ends with its own first byte
      before = out;
      before_length = size;
      out += size;
    }
    return out == end;
  }

 private:
  static constexpr unsigned kClear = 256, kEnd = 257, kFirst = 258, kCodes = 4096;
  struct string {
    const std::uint8_t* begin;
    std::size_t length;
  };
  string table_[kCodes] = {};
};
