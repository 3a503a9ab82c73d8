#include "store/inflate_head.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <penstock/config.h>

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostBits = 15;
constexpr std::size_t kLiterals = 288, kDistances = 30;

// Bits from the lowest of each byte on. There are none after the end.
class bits {
 public:
  explicit bits(std::span<const std::byte> from) noexcept : from_(from) {}
  unsigned take(unsigned count) noexcept {
    unsigned out = 0;
    for (unsigned i = 0; i < count; ++i) out |= one() << i;
    return out;
  }
  unsigned one() noexcept {
    if (at_ >= from_.size()) {
      ended_ = true;
      return 0;
    }
    const unsigned bit = static_cast<unsigned>(from_[at_]) >> used_ & 1U;
    used_ = (used_ + 1) % 8;
    at_ += used_ == 0 ? 1 : 0;
    return bit;
  }
  void to_byte() noexcept {
    if (used_ != 0) ++at_;
    used_ = 0;
  }
  bool ended() const noexcept { return ended_; }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  unsigned used_ = 0;
  bool ended_ = false;
};

// A canonical Huffman code: how many symbols each length has, and the symbols in order.
struct huffman {
  std::array<std::uint16_t, kMostBits + 1> count{};
  std::array<std::uint16_t, kLiterals> symbol{};

  // False if there are more codes than the lengths allow.
  bool build(std::span<const std::uint8_t> lengths) noexcept {
    count.fill(0);
    for (const std::uint8_t length : lengths) ++count[length];
    int left = 1;
    for (unsigned length = 1; length <= kMostBits; ++length) {
      left = 2 * left - count[length];
      if (left < 0) return false;
    }
    std::array<std::uint16_t, kMostBits + 2> at{};
    for (unsigned length = 1; length <= kMostBits; ++length)
      at[length + 1] = static_cast<std::uint16_t>(at[length] + count[length]);
    for (std::size_t i = 0; i < lengths.size(); ++i)
      if (lengths[i] != 0) symbol[at[lengths[i]]++] = static_cast<std::uint16_t>(i);
    return true;
  }

  // Negative if no code begins with these bits.
  int next(bits& in) const noexcept {
    int code = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= kMostBits; ++length) {
      code |= static_cast<int>(in.one());
      const int here = count[length];
      if (code - here < first) return symbol[static_cast<std::size_t>(index + code - first)];
      index += here;
      first = (first + here) << 1;
      code <<= 1;
    }
    return -1;
  }
};

struct codes {
  huffman literals, distances;
};

void make_fixed(codes& out) noexcept {
  std::array<std::uint8_t, kLiterals> lengths{};
  for (std::size_t i = 0; i < kLiterals; ++i)
    lengths[i] = static_cast<std::uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
  (void)out.literals.build(lengths);
  std::array<std::uint8_t, kDistances> far{};
  far.fill(5);
  (void)out.distances.build(far);
}

bool read_codes(bits& in, codes& out) noexcept {
  constexpr std::uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const unsigned literals = in.take(5) + 257, distances = in.take(5) + 1, lengths = in.take(4) + 4;
  if (literals > 286 || distances > kDistances) return false;
  std::array<std::uint8_t, kLiterals + kDistances> length{};
  for (unsigned i = 0; i < lengths; ++i) length[kOrder[i]] = static_cast<std::uint8_t>(in.take(3));
  huffman of_lengths;
  if (!of_lengths.build(std::span(length).first(std::size(kOrder)))) return false;
  length.fill(0);
  for (unsigned i = 0; i < literals + distances;) {
    const int symbol = of_lengths.next(in);
    if (symbol < 0 || in.ended()) return false;
    if (symbol < 16) {
      length[i++] = static_cast<std::uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const std::uint8_t repeated = symbol == 16 ? length[i - 1] : std::uint8_t{0};
    const unsigned times = symbol == 16 ? 3 + in.take(2) : symbol == 17 ? 3 + in.take(3) : 11 + in.take(7);
    if (times > literals + distances - i) return false;
    for (unsigned k = 0; k < times; ++k) length[i++] = repeated;
  }
  return length[256] != 0 && out.literals.build(std::span(length).first(literals)) &&
         out.distances.build(std::span(length).subspan(literals, distances));
}

// One block's items, until it ends or `out` is full. False if it is invalid.
bool inflate_block(bits& in, const codes& with, std::span<std::byte> out, std::size_t& made) noexcept {
  constexpr std::uint16_t kLength[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr std::uint8_t kLengthBits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  constexpr std::uint16_t kFar[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                    33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  constexpr std::uint8_t kFarBits[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                       6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
  while (made < out.size()) {
    const int symbol = with.literals.next(in);
    if (symbol < 0 || in.ended()) return false;
    if (symbol == 256) return true;
    if (symbol < 256) {
      out[made++] = static_cast<std::byte>(symbol);
      continue;
    }
    const auto which = static_cast<std::size_t>(symbol - 257);
    if (which >= std::size(kLength)) return false;
    const std::size_t length = kLength[which] + in.take(kLengthBits[which]);
    const int far = with.distances.next(in);
    if (far < 0 || static_cast<std::size_t>(far) >= std::size(kFar)) return false;
    const std::size_t distance = kFar[far] + in.take(kFarBits[far]);
    if (in.ended() || distance > made) return false;
    for (std::size_t end = std::min(out.size(), made + length); made < end; ++made) out[made] = out[made - distance];
  }
  return true;
}

}  // namespace

bool inflate_head(std::span<const std::byte> encoded, std::span<std::byte> out) noexcept {
  bits in(encoded);
  codes with;
  std::size_t made = 0;
  bool last = false;
  while (made < out.size()) {
    if (last) return false;
    last = in.one() != 0;
    const unsigned kind = in.take(2);
    if (in.ended() || kind == 3) return false;
    if (kind == 0) {
      in.to_byte();
      const unsigned length = in.take(16), inverse = in.take(16);
      if (in.ended() || (length ^ inverse) != 0xFFFF) return false;
      for (unsigned i = 0; i < length && made < out.size(); ++i) out[made++] = static_cast<std::byte>(in.take(8));
      if (in.ended()) return false;
      continue;
    }
    if (kind == 1) {
      make_fixed(with);
    } else if (!read_codes(in, with)) {
      return false;
    }
    if (!inflate_block(in, with, out, made)) return false;
  }
  return true;
}

}  // namespace penstock::inline v0
