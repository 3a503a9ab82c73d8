// The registered extension codec: (x - offset) * scale in the array's own type, and an error for what it does not hold.

#include <fmt/format.h>

#include <limits>

#include "codec/number_codec.h"

namespace penstock::inline v0 {
namespace {

__extension__ using wide_int = __int128;  // holds every product of two 64-bit numbers' differences that is in range

struct scalar {
  double real = 0;
  std::int64_t whole = 0;
  std::uint64_t natural = 0;
  bool is_whole = false, is_natural = false;

  wide_int integer() const noexcept { return is_whole ? wide_int{whole} : wide_int{natural}; }
};

result<scalar> scalar_of(const codec_members& members, std::string_view name, std::int64_t absent, number type) {
  scalar made;
  const json* const member = members.find(name);
  made.is_whole = member == nullptr || member->get(made.whole);
  made.is_natural = member != nullptr && member->get(made.natural);
  if (member == nullptr) {
    made.whole = absent;
    made.real = static_cast<double>(absent);
  } else if (member->as_string() != nullptr) {
    const std::string& text = *member->as_string();
    if (!is_float(type) || (text != "NaN" && text != "Infinity" && text != "-Infinity")) {
      return error{errc::unsupported, fmt::format("codec 'scale_offset': '{}' is the text '{}'", name, text)};
    }
    made.real = text == "NaN"        ? std::numeric_limits<double>::quiet_NaN()
                : text == "Infinity" ? std::numeric_limits<double>::infinity()
                                     : -std::numeric_limits<double>::infinity();
  } else {
    PENSTOCK_ASSIGN(made.real, members.number(name));
  }
  if (is_float(type)) return made;
  const bool holds = visit_number(type, [&]<class T>(number_tag<T>) {
    if constexpr (std::is_integral_v<T>) {
      const wide_int value = made.integer();
      return (made.is_whole || made.is_natural) && value >= std::numeric_limits<T>::min() &&
             value <= std::numeric_limits<T>::max();
    }
    return false;
  });
  if (!holds) {
    return error{errc::corrupt_data, fmt::format("codec 'scale_offset': '{}' should be one of {}'s numbers, is {}",
                                                 name, to_string(type), member == nullptr ? "absent" : member->dump())};
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
                              const wide_int x = load<T>(from, i);
                              // |x - offset| < 2^65 and |scale| <= 2^64: the product may leave 128 bits by a sign only.
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
                              store<T>(to, i, static_cast<T>(y));
                            }
                          });
      } else {
        const auto scale = static_cast<wide<T>>(T(scale_.real)), offset = static_cast<wide<T>>(T(offset_.real));
        transform_numbers(
            in, decoded_, work, work, decoded_, out,
            [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
              for (std::size_t i = 0; i < count; ++i) {
                const auto x = static_cast<wide<T>>(load<T>(from, i));
                store<T>(to, i, decode ? put<T>(narrow<T>(x / scale) + offset) : put<T>(narrow<T>(x - offset) * scale));
              }
            });
      }
    });
    if (exact) return {};
    return error{decode ? errc::corrupt_data : errc::invalid_argument,
                 fmt::format("{} does not hold every result of {}", to_string(work), description_)};
  }

  scalar offset_, scale_;
  std::string description_;
};

}  // namespace

result<compiled_codec> make_scale_offset_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"offset", "scale"}));
  PENSTOCK_ASSIGN(const stored_number type, stored_number_of({input.type, input.big_endian}, "scale_offset"));
  if (type.kind == number::boolean) return error{errc::unsupported, "codec 'scale_offset' does not take booleans"};
  PENSTOCK_ASSIGN(const scalar offset, scalar_of(members, "offset", 0, type.kind));
  PENSTOCK_ASSIGN(const scalar scale, scalar_of(members, "scale", 1, type.kind));
  const bool zero = is_float(type.kind) ? scale.real == 0 : scale.integer() == 0;
  if (zero) return error{errc::corrupt_data, "codec 'scale_offset' has a scale of 0"};
  return compiled_codec{std::make_shared<scale_offset_codec>(type, offset, scale), input};
}

}  // namespace penstock::inline v0
