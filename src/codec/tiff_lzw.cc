// LZW as TIFF has it: codes of 9 to 12 bits, one bit earlier than the table needs them.
//
// A string of the table is the string of the code before and one byte more, and both stand next to each other in the
// output. So the table holds places in the output and lengths, and decoding a code is one copy, of 16 bytes at once.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "codec/portable_form.h"
#include "codec/tiff_codecs.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kClear = 256, kEnd = 257, kFirst = 258, kCodes = 4096;
constexpr std::size_t kWide = 16;

// What literal codes copy from: the i-th byte is i, and there is room to read wide.
constexpr auto kLiterals = [] {
  std::array<std::uint8_t, 256 + kWide> made{};
  for (std::size_t i = 0; i < 256; ++i) made[i] = static_cast<std::uint8_t>(i);
  return made;
}();

struct string_entry {
  const std::uint8_t* begin;
  std::uint32_t length;
};

/// Takes codes from bytes; `kOld` has the least significant bit first.
template <bool kOld>
class code_reader {
 public:
  explicit code_reader(std::span<const std::byte> from) noexcept
      : at_(reinterpret_cast<const std::uint8_t*>(from.data())), end_(at_ + from.size()) {}

  // The next `width` bits, or kEnd where the stream has no more.
  unsigned next(unsigned width) noexcept {
    if (have_ < width) {
      fill();
      if (have_ < width) return kEnd;
    }
    have_ -= width;
    if constexpr (kOld) {
      const auto code = static_cast<unsigned>(bits_ & ((1U << width) - 1));
      bits_ >>= width;
      return code;
    } else {
      const auto code = static_cast<unsigned>(bits_ >> (64 - width));
      bits_ <<= width;
      return code;
    }
  }

 private:
  void fill() noexcept {
    if (!kOld && end_ - at_ >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at_, 8);
      if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
      bits_ |= word >> have_;
      const unsigned bytes = (63 - have_) / 8;
      at_ += bytes;
      have_ += bytes * 8;
      bits_ &= ~std::uint64_t{0} << (64 - have_);
      return;
    }
    while (have_ <= 56 && at_ != end_) {
      const std::uint64_t byte = *at_++;
      bits_ |= kOld ? byte << have_ : byte << (56 - have_);
      have_ += 8;
    }
  }

  std::uint64_t bits_ = 0;
  unsigned have_ = 0;
  const std::uint8_t *at_, *end_;
};

// Copies a string that may reach into what is being written by its last byte only.
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

error damaged(unsigned code, unsigned known) {
  return {errc::corrupt_data, fmt::format("LZW stream is damaged: code {}, the table has {}", code, known)};
}

template <bool kOld>
result<std::size_t> decode_lzw(std::span<const std::byte> encoded, std::span<std::byte> out) {
  std::array<string_entry, kCodes + 1> table;
  for (unsigned i = 0; i < 256; ++i) table[i] = {kLiterals.data() + i, 1};
  code_reader<kOld> codes(encoded);
  auto* const begin = reinterpret_cast<std::uint8_t*>(out.data());
  std::uint8_t* to = begin;
  std::uint8_t* const end = begin + out.size();

  unsigned width = 9, next = kFirst;
  string_entry last{nullptr, 0};  // what the code before stands for, in the output; length 0: after a clear
  while (to != end) {
    const unsigned code = codes.next(width);
    if (code == kClear) {
      width = 9;
      next = kFirst;
      last.length = 0;
      continue;
    }
    if (code == kEnd) break;
    if (last.length == 0) {
      if (code > 255) return damaged(code, 256);
      last = {to, 1};
      *to++ = static_cast<std::uint8_t>(code);
      continue;
    }
    // The string that this code adds; its last byte is the first that is written now.
    table[next] = {last.begin, last.length + 1};
    if (code > next || (code == next && next == kCodes)) return damaged(code, next);
    const string_entry string = table[code];
    const auto room = static_cast<std::size_t>(end - to);
    const std::size_t length = string.length < room ? string.length : room;
    copy_string(to, string.begin, length, room);
    if (code == next && length == string.length) to[length - 1] = *string.begin;
    last = {to, static_cast<std::uint32_t>(length)};
    to += length;
    if (next < kCodes) ++next;
    // The old kind changes width when the table needs it, the other one code before.
    if (next + (kOld ? 0U : 1U) >= (1U << width) && width < 12) ++width;
  }
  return static_cast<std::size_t>(to - begin);
}

class lzw_codec final : public byte_codec, public has_portable_form {
 public:
  std::string_view name() const override { return "tiff.lzw"; }
  std::string describe() const override { return "lzw"; }
  std::optional<portable_form> portable() const override { return portable_form{portable_form::kind::tiff_lzw}; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return 2 * decoded_bytes + 1024; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    // The old kind begins with a clear code of the other bit order.
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
