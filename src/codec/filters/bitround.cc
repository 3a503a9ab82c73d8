#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "array/item_swap.h"
#include "array/strided_copy.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

// Rounds to a multiple of 2^dropped, ties to even, as numcodecs does with the bits of floats. The sum may carry into
// the exponent, which is correct.
template <class Word>
Word round_bits(Word word, unsigned dropped) noexcept {
  if (dropped == 0) return word;
  const Word half = static_cast<Word>((Word{1} << (dropped - 1)) - 1);
  const Word kept = static_cast<Word>(static_cast<Word>(~Word{0}) >> dropped << dropped);
  return static_cast<Word>((word + ((word >> dropped) & 1) + half) & kept);
}

// Integers keep bits from their highest one on; a value whose rounding would exceed the word is not rounded up. The
// bits of signed integers count as those of unsigned ones, as in zarrs: 121 with three bits is 128, which int8 shows as
// -128.
template <class Word>
Word round_integer(Word word, unsigned kept_bits) noexcept {
  const auto used = static_cast<unsigned>(std::bit_width(word));
  if (kept_bits >= used) return word;
  const unsigned dropped = used - kept_bits;
  const Word kept = static_cast<Word>(static_cast<Word>(~Word{0}) >> dropped << dropped);
  const Word added = static_cast<Word>(((word >> dropped) & 1) + (Word{1} << (dropped - 1)) - 1);
  const Word sum = static_cast<Word>(word + added);
  return static_cast<Word>((sum < word ? static_cast<Word>(~Word{0}) : sum) & kept);
}

class bitround_codec final : public byte_codec {
 public:
  bitround_codec(unsigned keep, unsigned fraction, std::uint32_t word_bytes, bool swapped) noexcept
      : keep_(keep), fraction_(fraction), word_bytes_(word_bytes), swapped_(swapped && word_bytes > 1) {}

  std::string_view name() const override { return "bitround"; }
  std::string describe() const override { return fmt::format("bitround(keepbits={})", keep_); }
  bool decodes_in_place() const noexcept override { return true; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte>,
                                            worker_scratch&) const override {
    return encoded;  // lossy: decoding does nothing
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (decoded.empty()) return 0;
    const std::size_t count = decoded.size() / word_bytes_;
    if (swapped_) {
      swap_contiguous(out.data(), decoded.data(), decoded.size(), word_bytes_);
    } else {
      std::memcpy(out.data(), decoded.data(), decoded.size());
    }
    switch (word_bytes_) {
      case 1:
        round<std::uint8_t>(out.data(), count);
        break;
      case 2:
        round<std::uint16_t>(out.data(), count);
        break;
      case 4:
        round<std::uint32_t>(out.data(), count);
        break;
      default:
        round<std::uint64_t>(out.data(), count);
    }
    if (swapped_) swap_contiguous(out.data(), out.data(), decoded.size(), word_bytes_);
    return decoded.size();
  }

 private:
  template <class Word>
  void round(std::byte* items, std::size_t count) const noexcept {
    const unsigned dropped = fraction_ > keep_ ? fraction_ - keep_ : 0;
    for (std::size_t i = 0; i < count; ++i) {
      Word word;
      std::memcpy(&word, items + i * sizeof word, sizeof word);
      word = fraction_ == 0 ? round_integer(word, keep_) : round_bits(word, dropped);
      std::memcpy(items + i * sizeof word, &word, sizeof word);
    }
  }

  unsigned keep_, fraction_;  // fraction 0: integers
  std::uint32_t word_bytes_;
  bool swapped_;
};

// Bits of the fraction; 0 for integers.
result<unsigned> fraction_bits(const dtype& type, bool numcodecs) {
  const auto ieee = [](std::uint32_t bits) { return bits == 16 ? 10u : bits == 32 ? 23u : 52u; };
  switch (type.kind()) {
    case dtype_kind::floating:
      return ieee(type.bits());
    case dtype_kind::brain_float:
      if (!numcodecs) return 7;
      break;
    case dtype_kind::complex:
      if (numcodecs) break;
      if (type.format() == float_format::ieee) return ieee(type.bits() / 2);
      if (type.format() == float_format::bfloat16) return 7;
      break;
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
      if (!numcodecs && type.bits() >= 8) return 0;
      break;
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      if (!numcodecs) return 0;
      break;
    default:
      break;
  }
  return error{errc::unsupported, fmt::format("codec 'bitround' does not round {}", type.name())};
}

}  // namespace

result<compiled_codec> make_bitround_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"keepbits"}));
  PENSTOCK_ASSIGN(const unsigned fraction, fraction_bits(input.type, members.numcodecs()));
  // numcodecs refuses more bits than the type has; other writers accept them, and keep all bits.
  const bool strict = fraction != 0 && members.numcodecs();
  PENSTOCK_ASSIGN(std::int64_t keep, members.integer("keepbits", 0, strict ? fraction : 64));
  if (fraction != 0) keep = std::min<std::int64_t>(keep, fraction);
  const std::uint32_t word = input.type.swap_bytes();
  auto codec =
      std::make_shared<bitround_codec>(static_cast<unsigned>(keep), fraction, word, input.big_endian != kNativeBig);
  return compiled_codec{std::move(codec), input};
}

}  // namespace penstock::inline v0
