// Fletcher's checksum as in HDF5: of big-endian 16-bit words, both sums modulo 65535, an odd last byte as the high half
// of a word.

#include "codec/byte_codecs.h"
#include "codec/bytes/checksum_codec.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

// HDF5 folds its sums: a nonzero sum stays nonzero, and 65535 represents 0 modulo 65535.
std::uint32_t folded(std::uint64_t sum) noexcept {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % 65535 + 1);
}

std::uint32_t fletcher32_of(std::span<const std::byte> bytes, std::uint32_t) noexcept {
  // sum2 = the sum of all values of sum1. A block of n words adds n * sum1, and n - i times its word i.
  constexpr std::uint32_t kBlock = 352;  // words; 361 is the most whose weighted sum fits 32 bits
  std::uint64_t sum1 = 0, sum2 = 0;
  const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t words = bytes.size() / 2;
  while (words > 0) {
    const std::uint32_t n = words < kBlock ? static_cast<std::uint32_t>(words) : kBlock;
    std::uint32_t plain = 0, weighted = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t word = std::uint32_t{at[2 * i]} << 8 | at[2 * i + 1];
      plain += word;
      weighted += word * (n - i);
    }
    sum2 = folded(sum2 + n * sum1 + weighted);
    sum1 = folded(sum1 + plain);
    at += 2 * n;
    words -= n;
  }
  if (bytes.size() % 2 != 0) {
    sum1 = folded(sum1 + (std::uint64_t{*at} << 8));
    sum2 = folded(sum2 + sum1);
  }
  return static_cast<std::uint32_t>(sum2 << 16 | sum1);
}

}  // namespace

result<compiled_codec> make_fletcher32_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  return make_checksum_codec("fletcher32", fletcher32_of, checksum_place::end, input);
}

}  // namespace penstock::inline v0
