// The registered extension codec: (x - offset) * scale in the array's own type, and an error for results that it cannot
// hold.

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "array/small_float.h"
#include "codec/filters/number_codec.h"
#include "codec/filters/real_number.h"

namespace penstock::inline v0 {
namespace {

__extension__ using wide_int = __int128;  // holds (a 64-bit difference) * (a 64-bit number), if in range

struct scalar {
  double real = 0;
  std::int64_t whole = 0;
  std::uint64_t natural = 0;
  bool is_whole = false, is_natural = false;

  wide_int integer() const noexcept { return is_whole ? wide_int{whole} : wide_int{natural}; }
};

result<double> text_of_float(const std::string& text, std::string_view name, const real_number& type) {
  if (!type.is_integer()) {
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (const auto bits = bits_of_text(text, type.type().bits())) return static_cast<double>(type.value_of(*bits));
  }
  return error{errc::corrupt_data, fmt::format("codec 'scale_offset': '{}' should be one of {}'s numbers, is '{:.40}'",
                                               name, type.type().name(), text)};
}

result<scalar> scalar_of(const codec_members& members, std::string_view name, std::int64_t absent,
                         const real_number& type) {
  scalar made;
  const json* const member = members.find(name);
  made.is_whole = member == nullptr || member->get(made.whole);
  made.is_natural = member != nullptr && member->get(made.natural);
  if (member == nullptr) {
    made.whole = absent;
    made.real = static_cast<double>(absent);
  } else if (member->as_string() != nullptr) {
    PENSTOCK_ASSIGN(made.real, text_of_float(*member->as_string(), name, type));
  } else {
    PENSTOCK_ASSIGN(made.real, members.number(name));
  }
  if (!type.is_integer()) return made;
  const bool whole = made.is_whole || made.is_natural;
  if (!whole || !round_to(type, static_cast<long double>(made.integer()), rounding::nearest_even, beyond::error)) {
    return error{errc::corrupt_data,
                 fmt::format("codec 'scale_offset': '{}' should be one of {}'s numbers, is {}", name,
                             type.type().name(), member == nullptr ? "absent" : member->dump())};
  }
  return made;
}

class scale_offset_codec final : public number_codec {
 public:
  scale_offset_codec(stored_number type, scalar offset, scalar scale)
      : number_codec(type, type),
        offset_(offset),
        scale_(scale),
        description_(fmt::format("scale_offset(offset={}, scale={})", offset.real, scale.real)) {}

  std::string_view name() const override { return "scale_offset"; }
  std::string describe() const override { return description_; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    return run(encoded, out, true);
  }
  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    return run(decoded, out, false);
  }

  result<> run(std::span<const std::byte> in, std::byte* out, bool decode) const {
    const number work = decoded_.kind;
    bool exact = true;
    visit_number(work, [&]<class T>(number_tag<T>) {
      if constexpr (std::is_same_v<T, truth>) {
      } else if constexpr (std::is_integral_v<T>) {
        const wide_int scale = scale_.integer(), offset = offset_.integer();
        transform_numbers(in, decoded_, work, work, decoded_, out,
                          [&](const std::byte* from, std::byte* to, std::size_t count) {
                            for (std::size_t i = 0; i < count; ++i) {
                              const wide_int x = load_item<T>(from, i);
                              // |x - offset| < 2^65 and |scale| <= 2^64: the product may exceed 128 bits, by its sign
                              // only.
                              wide_int y = 0;
                              bool good = true;
                              if (decode) {
                                good = x % scale == 0;
                                y = x / scale + offset;
                              } else {
                                good = !__builtin_mul_overflow(x - offset, scale, &y);
                              }
                              good = good && y >= std::numeric_limits<T>::min() && y <= std::numeric_limits<T>::max();
                              exact = exact && good;
                              store_item<T>(to, i, static_cast<T>(y));
                            }
                          });
      } else {
        const auto scale = static_cast<wide<T>>(T(scale_.real)), offset = static_cast<wide<T>>(T(offset_.real));
        transform_numbers(
            in, decoded_, work, work, decoded_, out,
            [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
              for (std::size_t i = 0; i < count; ++i) {
                const auto x = static_cast<wide<T>>(load_item<T>(from, i));
                store_item<T>(to, i,
                              decode ? put<T>(narrow<T>(x / scale) + offset) : put<T>(narrow<T>(x - offset) * scale));
              }
            });
      }
    });
    if (exact) return {};
    return error{decode ? errc::corrupt_data : errc::invalid_argument,
                 fmt::format("{} cannot hold every result of {}", to_string(work), description_)};
  }

  scalar offset_, scale_;
  std::string description_;
};

// The same for types that only `real_number` supports: integers exactly; floats with float arithmetic, each step
// rounded to the type.
class small_scale_codec final : public item_codec {
 public:
  small_scale_codec(real_number type, scalar offset, scalar scale)
      : item_codec(type.item_bytes(), type.item_bytes()),
        type_(std::move(type)),
        offset_(nearest(offset.real)),
        scale_(nearest(scale.real)),
        description_(fmt::format("scale_offset(offset={}, scale={})", offset.real, scale.real)) {}

  std::string_view name() const override { return "scale_offset"; }
  std::string describe() const override { return description_; }
  /// An offset or a scale that the type cannot represent.
  bool lacks_one() const noexcept { return !offset_ || !scale_ || *scale_ == 0; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    return run(encoded, out, true);
  }
  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    return run(decoded, out, false);
  }

  std::optional<std::uint64_t> bits_of(float value) const noexcept {
    const bool may_be_infinite = !type_.is_integer() && has_infinity(type_.type().format());
    return round_to(type_, value, rounding::nearest_even, may_be_infinite ? beyond::clamp : beyond::error);
  }
  // In the type's own arithmetic; nullopt if it cannot hold the result.
  std::optional<float> nearest(double value) const noexcept {
    const auto bits = bits_of(static_cast<float>(value));
    return bits ? std::optional(static_cast<float>(type_.value_of(*bits))) : std::nullopt;
  }

  std::optional<std::uint64_t> change(float x, bool decode) const noexcept {
    const std::optional<float> between = nearest(decode ? x / *scale_ : x - *offset_);
    if (!between) return std::nullopt;
    if (type_.is_integer() && decode && *between * *scale_ != x) return std::nullopt;
    return bits_of(decode ? *between + *offset_ : *between * *scale_);
  }

  result<> run(std::span<const std::byte> in, std::byte* out, bool decode) const {
    const std::size_t item = type_.item_bytes();
    for (std::size_t i = 0; i < in.size(); i += item) {
      const auto made = change(static_cast<float>(type_.value_of(type_.load_bits(in.data() + i))), decode);
      if (!made) {
        return error{decode ? errc::corrupt_data : errc::invalid_argument,
                     fmt::format("{} cannot hold every result of {}", type_.type().name(), description_)};
      }
      type_.store_bits(out + i, *made);
    }
    return {};
  }

  real_number type_;
  std::optional<float> offset_, scale_;
  std::string description_;
};

}  // namespace

result<compiled_codec> make_scale_offset_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"offset", "scale"}));
  const auto type = real_number::of({input.type, input.big_endian});
  if (!type) {
    return error{errc::unsupported,
                 fmt::format("codec 'scale_offset' supports real numbers, not {}", input.type.name())};
  }
  PENSTOCK_ASSIGN(const scalar offset, scalar_of(members, "offset", 0, *type));
  PENSTOCK_ASSIGN(const scalar scale, scalar_of(members, "scale", 1, *type));
  const bool zero = type->is_integer() ? scale.integer() == 0 : scale.real == 0;
  if (zero) return error{errc::corrupt_data, "codec 'scale_offset' has a scale of 0"};
  if (number_of(input.type)) {
    PENSTOCK_ASSIGN(const stored_number stored, stored_number_of({input.type, input.big_endian}, "scale_offset"));
    return compiled_codec{std::make_shared<scale_offset_codec>(stored, offset, scale), input};
  }
  auto codec = std::make_shared<small_scale_codec>(*type, offset, scale);
  if (codec->lacks_one()) {
    return error{errc::corrupt_data,
                 fmt::format("codec '{}': {} has no such number", codec->describe(), input.type.name())};
  }
  return compiled_codec{std::move(codec), input};
}

}  // namespace penstock::inline v0
