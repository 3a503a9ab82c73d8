#include <fmt/format.h>

#include <cmath>

#include "codec/filters/number_codec.h"

namespace penstock::inline v0 {
namespace {

// The smallest power of two that keeps this many decimal digits, as numcodecs computes it.
double quantize_scale(std::int64_t digits) noexcept {
  const double exact = std::log10(std::pow(10.0, -static_cast<double>(digits)));
  const double exponent = exact < 0 ? std::floor(exact) : std::ceil(exact);
  return std::pow(2.0, std::ceil(std::log2(std::pow(10.0, -exponent))));
}

class quantize_codec final : public number_codec {
 public:
  quantize_codec(const number_types& types, std::int64_t digits)
      : number_codec(types.decoded_number, types.encoded_number),
        scale_(quantize_scale(digits)),
        description_(fmt::format("quantize(digits={}, {} as {})", digits, types.decoded.type.name(),
                                 types.encoded.type.name())) {}

  std::string_view name() const override { return "quantize"; }
  std::string describe() const override { return description_; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    if (decoded_.kind == encoded_.kind) {
      const std::uint32_t bytes = item_bytes(decoded_.kind);
      copy_items(encoded.data(), out, encoded.size() / bytes, bytes, decoded_.swapped != encoded_.swapped);
      return {};
    }
    transform_numbers(encoded, encoded_, encoded_.kind, decoded_.kind, decoded_, out,
                      cast_of(encoded_.kind, decoded_.kind));
    return {};
  }

  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    const number work = decoded_.kind;
    const auto run = [&](auto change) { transform_numbers(decoded, decoded_, work, work, encoded_, out, change); };
    switch (work) {
      case number::float16:
        run([scale = static_cast<float>(half(scale_))](const std::byte* from, std::byte* to, std::size_t count) {
          const auto to_half = [](float value) { return half(static_cast<double>(value)); };
          for (std::size_t i = 0; i < count; ++i) {
            const float scaled = static_cast<float>(to_half(scale * static_cast<float>(load_item<half>(from, i))));
            store_item<half>(to, i, to_half(std::rint(scaled) / scale));
          }
        });
        break;
      case number::float32:
        run([scale = static_cast<float>(scale_)](const std::byte* __restrict from, std::byte* __restrict to,
                                                 std::size_t count) {
          for (std::size_t i = 0; i < count; ++i)
            store_item(to, i, std::rint(scale * load_item<float>(from, i)) / scale);
        });
        break;
      default:
        run([scale = scale_](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
          for (std::size_t i = 0; i < count; ++i)
            store_item(to, i, std::rint(scale * load_item<double>(from, i)) / scale);
        });
    }
    return {};
  }

  double scale_;
  std::string description_;
};

}  // namespace

result<compiled_codec> make_quantize_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"digits", "dtype", "astype"}));
  PENSTOCK_ASSIGN(const std::int64_t digits, members.integer("digits", -300, 300));
  PENSTOCK_ASSIGN(const number_types types, number_types::of(members, input, "dtype", "astype"));
  if (!is_float(types.decoded_number.kind) || !is_float(types.encoded_number.kind)) {
    return error{errc::corrupt_data, fmt::format("codec 'quantize' works on floats, not on {} and {}",
                                                 types.decoded.type.name(), types.encoded.type.name())};
  }
  return filter_stage(std::make_shared<quantize_codec>(types, digits), input, types.decoded.type, types.encoded);
}

}  // namespace penstock::inline v0
