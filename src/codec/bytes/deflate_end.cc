#include "codec/bytes/deflate_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kLongestDeflateCode = 15;

enum class deflate_outcome : std::uint8_t { whole, ends_early, damaged };

/// Bits of a stream, the lowest first. A read past the end returns 0 and sets `is_past_end`.
class deflate_bit_reader {
 public:
  explicit deflate_bit_reader(std::span<const std::byte> from) noexcept : from_(from) {}

  std::uint32_t take(std::size_t count) noexcept {
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      if (at_ / 8 >= from_.size()) {
        past_end_ = true;
        return 0;
      }
      out |= (static_cast<std::uint32_t>(from_[at_ / 8]) >> (at_ % 8) & 1U) << i;
    }
    return out;
  }
  void to_byte() noexcept { at_ = (at_ + 7) / 8 * 8; }
  void skip_bytes(std::size_t count) noexcept {
    past_end_ = past_end_ || from_.size() - std::min(at_ / 8, from_.size()) < count;
    if (!past_end_) at_ += 8 * count;
  }
  std::size_t left() const noexcept { return from_.size() - std::min(at_ / 8, from_.size()); }
  bool is_past_end() const noexcept { return past_end_; }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;  // in bits
  bool past_end_ = false;
};

/// A Huffman code by the number of symbols for each length.
struct deflate_prefix_code {
  std::array<std::uint16_t, kLongestDeflateCode + 1> counts{};
  std::array<std::uint16_t, 288> symbols{};

  explicit deflate_prefix_code(std::span<const std::uint8_t> lengths) noexcept {
    for (const std::uint8_t each : lengths) ++counts[each];
    std::array<std::size_t, kLongestDeflateCode + 2> at{};
    for (std::size_t i = 1; i <= kLongestDeflateCode; ++i) at[i + 1] = at[i] + counts[i];
    for (std::size_t i = 0; i < lengths.size(); ++i)
      if (lengths[i] != 0) symbols[at[lengths[i]]++] = static_cast<std::uint16_t>(i);
  }

  /// Whether no bit pattern has two meanings.
  bool is_valid() const noexcept {
    std::int32_t left = 1;
    for (std::size_t i = 1; i <= kLongestDeflateCode; ++i) {
      left = 2 * left - counts[i];
      if (left < 0) return false;
    }
    return true;
  }

  /// The next symbol; nullopt: the bits are not a code, or the stream ends.
  std::optional<std::size_t> next(deflate_bit_reader& from) const noexcept {
    std::uint32_t code = 0, first = 0, index = 0;
    for (std::size_t i = 1; i <= kLongestDeflateCode; ++i) {
      code |= from.take(1);
      if (from.is_past_end()) return std::nullopt;
      const std::uint32_t count = counts[i];
      if (code < first + count) return symbols[index + (code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    return std::nullopt;
  }
};

class deflate_scanner {
 public:
  deflate_scanner(std::span<const std::byte> stream, std::uint64_t most) noexcept : from_(stream), most_(most) {}

  deflate_outcome scan(deflate_wrapper wrapper) noexcept {
    const bool header = wrapper == deflate_wrapper::zlib ? zlib_header() : gzip_header();
    if (!header) return state();
    for (bool last = false; !last;) {
      last = from_.take(1) == 1;
      const std::uint32_t kind = from_.take(2);
      if (from_.is_past_end()) return deflate_outcome::ends_early;
      const bool good = kind == 0 ? stored() : kind == 1 ? fixed() : kind == 2 && dynamic();
      if (!good) return state();
    }
    from_.to_byte();
    from_.skip_bytes(wrapper == deflate_wrapper::zlib ? 4 : 8);
    return from_.is_past_end() ? deflate_outcome::ends_early : deflate_outcome::whole;
  }
  std::uint64_t made() const noexcept { return made_; }

 private:
  deflate_outcome state() const noexcept {
    return from_.is_past_end() ? deflate_outcome::ends_early : deflate_outcome::damaged;
  }

  bool zlib_header() noexcept {
    const std::uint32_t method = from_.take(8), flags = from_.take(8);
    if (from_.is_past_end()) return false;
    return (method & 15U) == 8 && (256 * method + flags) % 31 == 0 && (flags & 32U) == 0;
  }

  bool gzip_header() noexcept {
    const std::uint32_t first = from_.take(8), second = from_.take(8), method = from_.take(8), flags = from_.take(8);
    if (from_.is_past_end() || first != 0x1f || second != 0x8b || method != 8) return false;
    from_.skip_bytes(6);
    if ((flags & 4U) != 0) from_.skip_bytes(from_.take(16));
    for (const std::uint32_t text : {8U, 16U})
      while ((flags & text) != 0 && from_.take(8) != 0) {
      }
    if ((flags & 2U) != 0) from_.skip_bytes(2);
    return !from_.is_past_end();
  }

  bool add(std::uint64_t bytes) noexcept {
    made_ += bytes;
    return made_ <= most_;
  }

  bool stored() noexcept {
    from_.to_byte();
    const std::uint32_t bytes = from_.take(16), inverse = from_.take(16);
    if (from_.is_past_end() || (bytes ^ inverse) != 0xffff) return false;
    if (!add(std::min<std::uint64_t>(bytes, from_.left()))) return false;
    from_.skip_bytes(bytes);
    return !from_.is_past_end();
  }

  bool fixed() noexcept {
    std::array<std::uint8_t, 288> lengths{};
    for (std::size_t i = 0; i < lengths.size(); ++i)
      lengths[i] = i < 144 ? std::uint8_t{8} : i < 256 ? std::uint8_t{9} : i < 280 ? std::uint8_t{7} : std::uint8_t{8};
    std::array<std::uint8_t, 30> distances{};
    distances.fill(5);
    return values(deflate_prefix_code(lengths), deflate_prefix_code(distances));
  }

  bool dynamic() noexcept {
    constexpr std::array<std::uint8_t, 19> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const std::size_t literals = from_.take(5) + 257, distances = from_.take(5) + 1, count = from_.take(4) + 4;
    if (from_.is_past_end() || literals > 286 || distances > 30) return false;
    std::array<std::uint8_t, 19> code_lengths{};
    for (std::size_t i = 0; i < count; ++i) code_lengths[kOrder[i]] = static_cast<std::uint8_t>(from_.take(3));
    const deflate_prefix_code code(code_lengths);
    if (from_.is_past_end() || !code.is_valid()) return false;
    std::array<std::uint8_t, 286 + 30> lengths{};
    for (std::size_t i = 0; i < literals + distances;) {
      const auto symbol = code.next(from_);
      if (!symbol) return false;
      if (*symbol < 16) {
        lengths[i++] = static_cast<std::uint8_t>(*symbol);
        continue;
      }
      if (*symbol == 16 && i == 0) return false;
      const std::uint8_t value = *symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
      const std::size_t times = *symbol == 16   ? 3 + from_.take(2)
                                : *symbol == 17 ? 3 + from_.take(3)
                                                : 11 + from_.take(7);
      if (from_.is_past_end() || i + times > literals + distances) return false;
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(i), times, value);
      i += times;
    }
    const std::span all(lengths);
    const deflate_prefix_code first(all.first(literals)), second(all.subspan(literals, distances));
    return first.is_valid() && second.is_valid() && values(first, second);
  }

  bool values(const deflate_prefix_code& literals, const deflate_prefix_code& distances) noexcept {
    constexpr std::array<std::uint16_t, 29> kLength = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    constexpr std::array<std::uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    constexpr std::array<std::uint16_t, 30> kDistance = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                         33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                         1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
      const auto symbol = literals.next(from_);
      if (!symbol) return false;
      if (*symbol == 256) return true;
      if (*symbol < 256) {
        if (!add(1)) return false;
        continue;
      }
      const std::size_t length = *symbol - 257;
      if (length >= kLength.size()) return false;
      const std::uint64_t bytes = kLength[length] + from_.take(kLengthBits[length]);
      const auto distance = distances.next(from_);
      if (!distance || *distance >= kDistance.size()) return false;
      const std::size_t more = *distance < 4 ? 0 : *distance / 2 - 1;
      const std::uint64_t back = kDistance[*distance] + from_.take(more);
      if (from_.is_past_end() || back > made_ || !add(bytes)) return false;
    }
  }

  deflate_bit_reader from_;
  std::uint64_t most_;
  std::uint64_t made_ = 0;
};

}  // namespace

std::optional<std::uint64_t> decoded_before_end(std::span<const std::byte> stream, deflate_wrapper wrapper,
                                                std::uint64_t most) {
  deflate_scanner scan(stream, most);
  if (scan.scan(wrapper) != deflate_outcome::ends_early) return std::nullopt;
  return scan.made();
}

error damaged_deflate(std::string_view name, std::span<const std::byte> stream, std::uint64_t most) {
  if (const auto before = decoded_before_end(stream, deflate_wrapper::zlib, most))
    return {errc::corrupt_data, fmt::format("{} stream ends early: its {} bytes decode to {} and more should follow",
                                            name, stream.size(), *before)};
  return {errc::corrupt_data, fmt::format("{} stream of {} bytes is damaged", name, stream.size())};
}

}  // namespace penstock::inline v0
