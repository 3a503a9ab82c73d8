// TIFF's LZW: codes of 9 to 12 bits, one bit earlier than the table needs them.
//
// A string of the table is the string of the preceding code and one byte more, and both are adjacent in the output. So
// the table holds positions in the output and lengths, and decoding a code is one copy, of 16 bytes at once. The width
// of a code depends only on the number of codes since the last clear code. So four codes are extracted from one word,
// and no code waits for the string of the preceding one.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "codec/device_form.h"
#include "codec/tiff/tiff_codecs.h"
#include "codec/tiff/tiff_lzw.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kCodes = 4096, kMaxWidth = 12;
constexpr unsigned kGroup = 4;  // codes that a word holds, at any width
constexpr std::size_t kWide = 16;

// The source of literal codes: the i-th byte is i, with padding for wide reads.
constexpr auto kLiterals = [] {
  std::array<std::uint8_t, 256 + kWide> made{};
  for (std::size_t i = 0; i < 256; ++i) made[i] = static_cast<std::uint8_t>(i);
  return made;
}();

/// The position of a code's string: in the output, counted from the last clear code, or among the literals.
struct lzw_string {
  std::uint32_t begin, length;
};
using lzw_table = std::array<lzw_string, kCodes + 1>;  // the last one is for strings without a code in a full table

/// Codes as bits of bytes; `kOld` has the least significant bit first.
template <bool kOld>
class code_bits {
 public:
  explicit code_bits(std::span<const std::byte> from) noexcept
      : begin_(reinterpret_cast<const std::uint8_t*>(from.data())), bytes_(from.size()) {}

  std::uint64_t count() const noexcept { return std::uint64_t{bytes_} * 8; }
  bool has_word(std::uint64_t at) const noexcept { return at / 8 + 8 <= bytes_; }

  /// At least 57 bits from `at` on, the first of them at the end from which a code is taken. Needs has_word.
  std::uint64_t word(std::uint64_t at) const noexcept {
    std::uint64_t out = 0;
    std::memcpy(&out, begin_ + at / 8, 8);
    if constexpr (kOld != (std::endian::native == std::endian::little)) out = __builtin_bswap64(out);
    return kOld ? out >> (at % 8) : out << (at % 8);
  }

  /// The `which`-th code of a word.
  static unsigned code(std::uint64_t word, unsigned which, unsigned width) noexcept {
    const std::uint64_t bits = kOld ? word >> (which * width) : word >> (64 - (which + 1) * width);
    return static_cast<unsigned>(bits) & ((1U << width) - 1);
  }

  /// The code at `at`, or kLzwEnd if the stream has no more.
  unsigned one(std::uint64_t at, unsigned width) const noexcept {
    if (at + width > count()) return kLzwEnd;
    if (has_word(at)) return code(word(at), 0, width);
    std::uint64_t bits = 0;
    const auto from = static_cast<std::size_t>(at / 8);
    for (std::size_t i = 0; from + i < bytes_; ++i)
      bits |= std::uint64_t{begin_[from + i]} << (kOld ? 8 * i : 56 - 8 * i);
    return code(kOld ? bits >> (at % 8) : bits << (at % 8), 0, width);
  }

 private:
  const std::uint8_t* begin_;
  std::size_t bytes_;
};

struct lzw_state {
  std::uint8_t* to;
  std::uint8_t* end;
  std::uint8_t* run;     // position in the output at the last clear code
  std::uint64_t at = 0;  // consumed bits
  unsigned width = 9, next = kLzwFirst;
  lzw_string last = {0, 0};  // the string of the preceding code; length 0: after a clear
};

// Copies a string that may overlap the written bytes by its last byte only.
inline void copy_string(std::uint8_t* to, const std::uint8_t* from, std::size_t length, std::size_t room) noexcept {
  if (room >= length + kWide) {
    std::uint8_t wide[kWide];
    std::size_t done = 0;
    do {
      std::memcpy(wide, from + done, kWide);
      std::memcpy(to + done, wide, kWide);
      done += kWide;
    } while (done < length);
  } else {
    for (std::size_t i = 0; i < length; ++i) to[i] = from[i];
  }
}

inline const std::uint8_t* place_of(lzw_string string, unsigned code, const std::uint8_t* run) noexcept {
  return (code < kLzwClear ? kLiterals.data() : run) + string.begin;
}

// Below this the table's codes have `width` bits.
template <bool kOld>
constexpr unsigned first_wider(unsigned width) noexcept {
  // The old variant increases the width when the table needs it, the current one a code earlier.
  return width == kMaxWidth ? kCodes : (1U << width) - (kOld ? 0U : 1U);
}

// Decodes groups of four codes as long as neither input nor output is near its end, and leaves special cases to the
// caller.
template <bool kOld, unsigned kWidth>
void take_groups(lzw_state& state, lzw_table& table, const code_bits<kOld>& codes) noexcept {
  std::uint8_t* to = state.to;
  std::uint8_t *const end = state.end, *const run = state.run;
  std::uint64_t at = state.at;
  unsigned next = state.next;
  lzw_string last = state.last;
  const unsigned grows = next == kCodes ? 0 : 1;
  const unsigned most = first_wider<kOld>(kWidth);
  unsigned taken = kGroup;
  while (taken == kGroup && codes.has_word(at) && next + kGroup * grows <= most) {
    const std::uint64_t word = codes.word(at);
    for (taken = 0; taken < kGroup; ++taken) {
      const unsigned code = codes.code(word, taken, kWidth);
      // The string that this code adds; its last byte is the first one that is written now.
      table[next] = {last.begin, last.length + 1};
      if (code > next || code - kLzwClear < 2) break;
      const lzw_string string = table[code];
      if (static_cast<std::size_t>(end - to) < string.length + kWide) break;
      const std::uint8_t* const from = place_of(string, code, run);
      std::uint8_t wide[kWide];
      std::memcpy(wide, from, kWide);
      std::memcpy(to, wide, kWide);
      if (string.length > kWide) copy_string(to + kWide, from + kWide, string.length - kWide, kWide + string.length);
      if (code == next) to[string.length - 1] = *from;
      last = {static_cast<std::uint32_t>(to - run), string.length};
      to += string.length;
      next += grows;
    }
    at += taken * kWidth;
  }
  state.to = to;
  state.at = at;
  state.next = next;
  state.last = last;
}

error damaged(unsigned code, unsigned known) {
  return {errc::corrupt_data, fmt::format("LZW stream is damaged: code {}, the table has {}", code, known)};
}

template <bool kOld>
result<std::size_t> decode_lzw(std::span<const std::byte> encoded, std::span<std::byte> out) {
  lzw_table table;
  for (unsigned i = 0; i < kLzwClear; ++i) table[i] = {i, 1};
  const code_bits<kOld> codes(encoded);
  auto* const begin = reinterpret_cast<std::uint8_t*>(out.data());
  lzw_state state{begin, begin + out.size(), begin};

  while (state.to != state.end) {
    if (state.last.length != 0) {
      switch (state.width) {
        case 9:
          take_groups<kOld, 9>(state, table, codes);
          break;
        case 10:
          take_groups<kOld, 10>(state, table, codes);
          break;
        case 11:
          take_groups<kOld, 11>(state, table, codes);
          break;
        default:
          take_groups<kOld, kMaxWidth>(state, table, codes);
      }
      if (state.width < kMaxWidth && state.next >= first_wider<kOld>(state.width)) {
        ++state.width;
        continue;
      }
      if (state.to == state.end) break;
    }
    const unsigned code = codes.one(state.at, state.width);
    state.at += state.width;
    if (code == kLzwClear) {
      state.width = 9;
      state.next = kLzwFirst;
      state.last.length = 0;
      state.run = state.to;
      continue;
    }
    if (code == kLzwEnd) break;
    if (state.last.length == 0) {
      if (code >= kLzwClear) return damaged(code, kLzwClear);
      state.last = {static_cast<std::uint32_t>(state.to - state.run), 1};
      *state.to++ = static_cast<std::uint8_t>(code);
      continue;
    }
    table[state.next] = {state.last.begin, state.last.length + 1};
    if (code > state.next || (code == state.next && state.next == kCodes)) return damaged(code, state.next);
    const lzw_string string = table[code];
    const std::uint8_t* const from = place_of(string, code, state.run);
    const auto room = static_cast<std::size_t>(state.end - state.to);
    const std::size_t length = string.length < room ? string.length : room;
    copy_string(state.to, from, length, room);
    if (code == state.next && length == string.length) state.to[length - 1] = *from;
    state.last = {static_cast<std::uint32_t>(state.to - state.run), static_cast<std::uint32_t>(length)};
    state.to += length;
    if (state.next < kCodes) ++state.next;
    if (state.width < kMaxWidth && state.next >= first_wider<kOld>(state.width)) ++state.width;
  }
  return static_cast<std::size_t>(state.to - begin);
}

class lzw_codec final : public byte_codec {
 public:
  std::string_view name() const override { return "tiff.lzw"; }
  std::string describe() const override { return "lzw"; }
  std::optional<device_form> form_on_device() const override { return device_form::of(device_form::kind::tiff_lzw); }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return 2 * decoded_bytes + 1024; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    // The old variant begins with a clear code in the other bit order.
    const bool old = encoded.size() >= 2 && encoded[0] == std::byte{0} && (encoded[1] & std::byte{1}) != std::byte{0};
    PENSTOCK_ASSIGN(const std::size_t made, old ? decode_lzw<true>(encoded, out) : decode_lzw<false>(encoded, out));
    return std::span<const std::byte>(out.first(made));
  }

  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return error{errc::unsupported, "LZW is only decoded"};
  }
};

}  // namespace

std::shared_ptr<const byte_codec> make_tiff_lzw_codec() { return std::make_shared<lzw_codec>(); }

}  // namespace penstock::inline v0
