#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codec/filters/number_codec.h"

namespace penstock::inline v0 {
namespace {

/// A number of the configuration. If it is a whole number in Python, integers stay integers; otherwise they become
/// floats.
struct setting {
  double value = 0;
  std::int64_t whole = 0;
  bool is_whole = false;

  static result<setting> of(const codec_members& members, std::string_view name) {
    setting made;
    PENSTOCK_ASSIGN(made.value, members.number(name));
    made.is_whole = members.find(name)->get(made.whole);
    return made;
  }
};

template <class T>
T rounded(T value) noexcept {
  return std::rint(value);
}

class fixedscaleoffset_codec final : public number_codec {
 public:
  fixedscaleoffset_codec(const number_types& types, setting offset, setting scale)
      : number_codec(types.decoded_number, types.encoded_number),
        offset_(offset),
        scale_(scale),
        description_(fmt::format("fixedscaleoffset(offset={}, scale={}, {} as {})", offset.value, scale.value,
                                 types.decoded.type.name(), types.encoded.type.name())) {}

  std::string_view name() const override { return "fixedscaleoffset"; }
  std::string describe() const override { return description_; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    const number work = is_float(encoded_.kind) ? encoded_.kind : number::float64;
    visit_number(work, [&]<class T>(number_tag<T>) {
      if constexpr (std::is_same_v<T, half> || std::is_floating_point_v<T>) {
        const auto scale = static_cast<wide<T>>(T(scale_.value)), offset = static_cast<wide<T>>(T(offset_.value));
        transform_numbers(encoded, encoded_, work, work, decoded_, out,
                          [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
                            for (std::size_t i = 0; i < count; ++i) {
                              const auto x = static_cast<wide<T>>(load_item<T>(from, i));
                              store_item<T>(to, i, put<T>(narrow<T>(x / scale) + offset));
                            }
                          });
      }
    });
    return {};
  }

  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    if (is_integer(decoded_.kind) && offset_.is_whole) return encode_integers(decoded, out);
    const number work = is_float(decoded_.kind) ? decoded_.kind : number::float64;
    visit_number(work, [&]<class T>(number_tag<T>) {
      if constexpr (std::is_same_v<T, half> || std::is_floating_point_v<T>) {
        const auto scale = static_cast<wide<T>>(T(scale_.value)), offset = static_cast<wide<T>>(T(offset_.value));
        transform_numbers(decoded, decoded_, work, work, encoded_, out,
                          [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
                            for (std::size_t i = 0; i < count; ++i) {
                              const auto x = static_cast<wide<T>>(load_item<T>(from, i));
                              store_item<T>(to, i, put<T>(rounded(narrow<T>(narrow<T>(x - offset) * scale))));
                            }
                          });
      }
    });
    return {};
  }

  // Integers stay integers, and wrap, as long as the settings are whole.
  result<> encode_integers(std::span<const std::byte> decoded, std::byte* out) const {
    return visit_number(decoded_.kind, [&]<class T>(number_tag<T>) -> result<> {
      if constexpr (std::is_integral_v<T>) {
        using word = std::make_unsigned_t<T>;
        const auto fits = [](std::int64_t value) {
          return static_cast<std::int64_t>(static_cast<T>(value)) == value && (std::is_signed_v<T> || value >= 0);
        };
        if (!fits(offset_.whole) || (scale_.is_whole && !fits(scale_.whole))) {
          return error{errc::invalid_argument,
                       fmt::format("codec 'fixedscaleoffset': {} holds neither its offset nor its scale, {} and {}",
                                   to_string(decoded_.kind), offset_.whole, scale_.whole)};
        }
        const auto offset = static_cast<word>(offset_.whole);
        if (scale_.is_whole) {
          const auto scale = static_cast<word>(scale_.whole);
          transform_numbers(decoded, decoded_, decoded_.kind, decoded_.kind, encoded_, out,
                            [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
                              for (std::size_t i = 0; i < count; ++i) {
                                // In 64 bits: a product of small words would be an int, which may overflow.
                                const auto x = static_cast<word>(static_cast<word>(load_item<T>(from, i)) - offset);
                                store_item<T>(to, i, static_cast<T>(std::uint64_t{x} * std::uint64_t{scale}));
                              }
                            });
        } else {
          const double scale = scale_.value;
          transform_numbers(
              decoded, decoded_, decoded_.kind, number::float64, encoded_, out,
              [=](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
                for (std::size_t i = 0; i < count; ++i) {
                  const T x = static_cast<T>(static_cast<word>(static_cast<word>(load_item<T>(from, i)) - offset));
                  store_item<double>(to, i, std::rint(static_cast<double>(x) * scale));
                }
              });
        }
      }
      return {};
    });
  }

  setting offset_, scale_;
  std::string description_;
};

}  // namespace

result<compiled_codec> make_fixedscaleoffset_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"offset", "scale", "dtype", "astype"}));
  PENSTOCK_ASSIGN(const number_types types, number_types::of(members, input, "dtype", "astype"));
  PENSTOCK_ASSIGN(const setting offset, setting::of(members, "offset"));
  PENSTOCK_ASSIGN(const setting scale, setting::of(members, "scale"));
  if (types.decoded_number.kind == number::boolean) {
    return error{errc::unsupported, "codec 'fixedscaleoffset' does not support booleans"};
  }
  auto codec = std::make_shared<fixedscaleoffset_codec>(types, offset, scale);
  return filter_stage(std::move(codec), input, types.decoded.type, types.encoded);
}

}  // namespace penstock::inline v0
