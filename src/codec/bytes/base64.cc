// Bytes as base64 text, in numcodecs' form. Source: RFC 4648, section 4.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/base64.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> digits_of_letters() {
  std::array<std::uint8_t, 256> out{};
  out.fill(kNoDigit);
  for (std::uint8_t i = 0; i < kNoDigit; ++i) out[static_cast<unsigned char>(kBase64Letters[i])] = i;
  return out;
}

constexpr std::array<std::uint8_t, 256> kDigits = digits_of_letters();

class base64_codec final : public byte_codec {
 public:
  std::string_view name() const override { return "base64"; }
  std::string describe() const override { return "base64"; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    const std::uint64_t groups = decoded_bytes / 3 + (decoded_bytes % 3 == 0 ? 0 : 1);
    return groups > kUnbounded / 4 ? kUnbounded : 4 * groups;
  }

  // Line ends are skipped. Other characters are refused as damage, although Python skips them.
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    std::uint32_t group = 0;
    unsigned digits = 0, padding = 0;
    std::size_t size = 0;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      const auto letter = std::to_integer<std::uint8_t>(encoded[i]);
      if (letter == '\n' || letter == '\r') continue;
      if (letter == '=' && digits >= 2 && digits + padding < 4) {
        ++padding;
        continue;
      }
      const std::uint8_t digit = kDigits[letter];
      if (digit == kNoDigit || padding != 0)
        return error{errc::corrupt_data, fmt::format("base64 text has a wrong letter, {}, at byte {}", letter, i)};
      group = group << 6 | digit;
      if (++digits < 4) continue;
      if (out.size() - size < 3) return no_room(out.size(), scratch);
      for (const int shift : {16, 8, 0}) out[size++] = static_cast<std::byte>(group >> shift);
      group = digits = 0;
    }
    if (digits != 0 && digits + padding != 4)
      return error{errc::corrupt_data, fmt::format("base64 text of {} bytes ends within four letters", encoded.size())};
    const std::size_t rest = digits == 0 ? 0 : digits - 1;
    if (out.size() - size < rest) return no_room(out.size(), scratch);
    for (std::size_t k = 0; k < rest; ++k) out[size++] = static_cast<std::byte>(group << 6 * padding >> (16 - 8 * k));
    return std::span<const std::byte>(out.data(), size);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    std::size_t size = 0;
    for (std::size_t i = 0; i < decoded.size(); i += 3) {
      const std::size_t here = std::min<std::size_t>(decoded.size() - i, 3);
      std::uint32_t group = 0;
      for (std::size_t k = 0; k < 3; ++k)
        group = group << 8 | (k < here ? std::to_integer<std::uint32_t>(decoded[i + k]) : 0);
      for (std::size_t k = 0; k < 4; ++k)
        out[size++] = static_cast<std::byte>(k <= here ? kBase64Letters[group >> (18 - 6 * k) & 63] : '=');
    }
    return size;
  }

 private:
  static error no_room(std::size_t room, worker_scratch& scratch) {
    return out_of_room(scratch, fmt::format("base64 text decodes to more than {} bytes", room));
  }
};

}  // namespace

result<compiled_codec> make_base64_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  return compressed_stage(std::make_shared<base64_codec>(), input);
}

}  // namespace penstock::inline v0
