// hdf5.cast: numbers of one type become those of another one, for virtual datasets.

#include "codec/hdf5/hdf5_cast.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "codec/codec_members.h"
#include "codec/decode_only.h"
#include "codec/hdf5/hdf5_number.h"

namespace penstock::inline v0 {
namespace {

double real_of(const hdf5_cast_type& from, std::uint64_t bits) noexcept {
  if (from.bytes == 8) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (from.bytes == 4) {
    const auto low = static_cast<std::uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &low, sizeof value);
    return static_cast<double>(value);
  }
  hdf5_number_form half;
  half.bytes = 2;
  half.sign = 15;
  half.exponent = 10;
  half.exponent_bits = 5;
  half.mantissa_bits = 10;
  half.bias = 15;
  const std::byte item[] = {static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8)};
  return half.real(item);
}

std::uint64_t float_bits(const hdf5_cast_type& to, double wide, float narrow) noexcept {
  std::uint64_t out = 0;
  if (to.bytes == 8)
    std::memcpy(&out, &wide, sizeof wide);
  else
    std::memcpy(&out, &narrow, sizeof narrow);
  return out;
}

struct limits {
  std::int64_t least = 0;
  std::uint64_t most = 0;
};

limits limits_of(const hdf5_cast_type& of) noexcept {
  const unsigned bits = 8U * of.bytes;
  if (of.kind == 'u') return {0, ~std::uint64_t{0} >> (64 - bits)};
  const std::uint64_t most = ~std::uint64_t{0} >> (65 - bits);
  return {-static_cast<std::int64_t>(most) - 1, most};
}

// The target's bits.
std::uint64_t from_signed(std::int64_t value, const hdf5_cast_type& to) noexcept {
  if (to.kind == 'f') return float_bits(to, static_cast<double>(value), static_cast<float>(value));
  const limits most = limits_of(to);
  if (value < most.least) return static_cast<std::uint64_t>(most.least);
  return value > 0 && static_cast<std::uint64_t>(value) > most.most ? most.most : static_cast<std::uint64_t>(value);
}

std::uint64_t from_unsigned(std::uint64_t value, const hdf5_cast_type& to) noexcept {
  if (to.kind == 'f') return float_bits(to, static_cast<double>(value), static_cast<float>(value));
  return std::min(value, limits_of(to).most);
}

std::uint64_t from_real(double value, const hdf5_cast_type& to) noexcept {
  if (to.kind == 'f') return float_bits(to, value, static_cast<float>(value));
  if (std::isnan(value)) return 0;
  const limits most = limits_of(to);
  if (value <= static_cast<double>(most.least)) return static_cast<std::uint64_t>(most.least);
  if (value >= static_cast<double>(most.most)) return most.most;
  return value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
}

class cast_codec final : public decode_only_codec {
 public:
  cast_codec(hdf5_cast_type from, hdf5_cast_type to, std::string description)
      : decode_only_codec("hdf5.cast", std::move(description)), from_(from), to_(to) {}

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_mul(decoded_bytes / to_.bytes + 1, from_.bytes);
  }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() % from_.bytes != 0)
      return damaged(fmt::format("{} bytes are not a multiple of a number's {}", encoded.size(), from_.bytes));
    const std::size_t count = encoded.size() / from_.bytes;
    PENSTOCK_ASSIGN(const auto room, take(out, std::uint64_t{count} * to_.bytes, scratch));
    for (std::size_t i = 0; i < count; ++i)
      hdf5_cast(from_, encoded.subspan(i * from_.bytes, from_.bytes), to_, room.subspan(i * to_.bytes, to_.bytes));
    return std::span<const std::byte>(room);
  }

 private:
  hdf5_cast_type from_, to_;
};

}  // namespace

std::optional<hdf5_cast_type> hdf5_cast_type::of(std::string_view typestr) noexcept {
  if (typestr.size() != 3 || std::string_view("<>|").find(typestr[0]) == std::string_view::npos) return std::nullopt;
  hdf5_cast_type out;
  out.kind = typestr[1];
  out.bytes = static_cast<std::uint8_t>(typestr[2] - '0');
  out.big_endian = typestr[0] == '>';
  const bool is_power = out.bytes == 1 || out.bytes == 2 || out.bytes == 4 || out.bytes == 8;
  if (out.kind == 'i' || out.kind == 'u') return is_power ? std::optional(out) : std::nullopt;
  return out.kind == 'f' && is_power && out.bytes != 1 ? std::optional(out) : std::nullopt;
}

void hdf5_cast(const hdf5_cast_type& from, std::span<const std::byte> item, const hdf5_cast_type& to,
               std::span<std::byte> out) noexcept {
  const std::uint64_t bits = from.big_endian ? load_big(item) : load_little(item);
  const unsigned unused = 64U - 8U * from.bytes;
  std::uint64_t made = 0;
  if (from.kind == 'f')
    made = from_real(real_of(from, bits), to);
  else if (from.kind == 'u')
    made = from_unsigned(bits, to);
  else
    made = from_signed(static_cast<std::int64_t>(bits << unused) >> unused, to);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(made >> (8 * i));
}

result<compiled_codec> make_hdf5_cast_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {"from", "to"}));
  const auto named = [&](std::string_view member) {
    const json* const found = config.configuration.find(member);
    return found != nullptr && found->as_string() != nullptr ? *found->as_string() : std::string();
  };
  const std::string from = named("from"), to = named("to");
  const auto source = hdf5_cast_type::of(from), target = hdf5_cast_type::of(to);
  if (!source || !target || target->big_endian || (target->kind == 'f' && target->bytes == 2))
    return error{errc::corrupt_data, fmt::format("codec 'hdf5.cast' has no conversion from '{}' to '{}'", from, to)};
  return compressed_stage(std::make_shared<cast_codec>(*source, *target, fmt::format("hdf5.cast({} to {})", from, to)),
                          input);
}

}  // namespace penstock::inline v0
