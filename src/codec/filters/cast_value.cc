// The registered extension codec: values to the nearest value of another type, with a rule for ties and one for values
// out of range, and a table of replacements.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "codec/filters/number_codec.h"
#include "codec/filters/real_number.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kRoundings[] = {"nearest-even", "towards-zero", "towards-positive", "towards-negative",
                                           "nearest-away"};
constexpr std::string_view kBeyonds[] = {"error", "clamp", "wrap"};

// A type that holds every number of T exactly. x86's long double has 64 bits of precision; other machines have more.
template <class T>
using exact = std::conditional_t<std::is_integral_v<T> && sizeof(T) == 8, long double, double>;

struct mapped_value {
  long double from = 0, to = 0;
};

struct cast_rules {
  rounding round = rounding::nearest_even;
  beyond out_of_range = beyond::error;
  std::vector<mapped_value> values;
};

// Rounds to an integer. Returns false if the rules allow no value.
template <class To, class Wide>
bool to_integer(Wide value, const cast_rules& rules, To& out) noexcept {
  if (!std::isfinite(value)) return false;
  const Wide whole = round_whole(value, rules.round);
  // Powers of two: exact in every type.
  const Wide end = std::ldexp(Wide{1}, std::numeric_limits<To>::digits);
  const Wide begin = std::is_signed_v<To> ? -end : Wide{0};
  if (whole >= begin && whole < end) {
    out = static_cast<To>(whole);
    return true;
  }
  switch (rules.out_of_range) {
    case beyond::error:
      return false;
    case beyond::clamp:
      out = whole < begin ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
      return true;
    case beyond::wrap:
      break;
  }
  // The remainder is exact; a negative one wraps as an integer does.
  const Wide modulus = std::ldexp(Wide{1}, static_cast<int>(8 * sizeof(To)));
  const auto rest = static_cast<std::uint64_t>(std::fmod(std::abs(whole), modulus));
  out = static_cast<To>(whole < 0 ? 0 - rest : rest);
  return true;
}

// Numbers of a floating type as floats of at least that width, and their neighbours.
template <class To>
struct floating {
  static constexpr int kMaxExponent = std::numeric_limits<To>::max_exponent;
  static To nearest(long double value) noexcept { return static_cast<To>(value); }
  static To nearest(double value) noexcept { return static_cast<To>(value); }
  static long double value(To of) noexcept { return of; }
  static To next(To of, bool up) noexcept {
    return std::nextafter(of, up ? std::numeric_limits<To>::infinity() : -std::numeric_limits<To>::infinity());
  }
};
template <>
struct floating<half> {
  static constexpr int kMaxExponent = 16;
  // Integers of 64 bits are rounded here first, but integers for which that matters are beyond binary16.
  static half nearest(long double value) noexcept { return half(static_cast<double>(value)); }
  static half nearest(double value) noexcept { return half(value); }
  static long double value(half of) noexcept { return static_cast<double>(of); }
  static half next(half of, bool up) noexcept {
    const bool negative = (of.bits & 0x8000) != 0;
    if ((of.bits & 0x7fff) == 0) {
      of.bits = up ? 0x0001 : 0x8001;
    } else {
      of.bits = static_cast<std::uint16_t>(of.bits + (negative == up ? -1 : 1));
    }
    return of;
  }
};

template <class To, class Wide>
bool to_floating(Wide value, const cast_rules& rules, To& out) noexcept {
  using target = floating<To>;
  out = target::nearest(value);
  if (!std::isfinite(value)) return true;
  if (std::isfinite(target::value(out))) {
    const long double made = target::value(out), wanted = value;
    if (made != wanted) {
      switch (rules.round) {
        case rounding::nearest_even:
          break;
        case rounding::towards_zero:
          if (std::abs(made) > std::abs(wanted)) out = target::next(out, wanted < 0);
          break;
        case rounding::towards_positive:
          if (made < wanted) out = target::next(out, true);
          break;
        case rounding::towards_negative:
          if (made > wanted) out = target::next(out, false);
          break;
        case rounding::nearest_away: {
          const To other = target::next(out, made < wanted);
          const bool tie = std::abs(wanted - made) == std::abs(target::value(other) - wanted);
          if (tie && std::abs(target::value(other)) > std::abs(made)) out = other;
          break;
        }
      }
    }
  }
  if (std::isfinite(target::value(out))) return true;
  // Numbers below the next power of two are rounded down if the rule requires it.
  const bool down = rules.round == rounding::towards_zero ||
                    rules.round == (value > 0 ? rounding::towards_negative : rounding::towards_positive);
  if (down && std::abs(static_cast<long double>(value)) < std::ldexp(1.0L, target::kMaxExponent)) {
    out = target::next(out, value < 0);
    return true;
  }
  return rules.out_of_range == beyond::clamp;
}

// Returns false for an item that the rules do not allow.
template <class From, class To>
bool cast_values(const std::byte* from, std::byte* to, std::size_t count, const cast_rules& rules) noexcept {
  bool good = true;
  for (std::size_t i = 0; i < count; ++i) {
    auto value = static_cast<exact<From>>(load_item<From>(from, i));
    To made{};
    bool mapped = false;
    for (const mapped_value& each : rules.values) {
      if (static_cast<long double>(value) == each.from || (std::isnan(value) && std::isnan(each.from))) {
        if constexpr (std::is_integral_v<To>) {
          made = static_cast<To>(each.to);
        } else {
          made = floating<To>::nearest(each.to);
        }
        mapped = true;
        break;
      }
    }
    if (!mapped) {
      if constexpr (std::is_integral_v<To>) {
        good = to_integer(value, rules, made) && good;
      } else {
        good = to_floating(value, rules, made) && good;
      }
    }
    store_item<To>(to, i, made);
  }
  return good;
}

using value_cast = bool (*)(const std::byte*, std::byte*, std::size_t, const cast_rules&) noexcept;

value_cast value_cast_of(number from, number to) {
  return visit_number(from, [&]<class From>(number_tag<From>) {
    return visit_number(to, [&]<class To>(number_tag<To>) -> value_cast {
      if constexpr (std::is_same_v<From, truth> || std::is_same_v<To, truth>) {
        return nullptr;
      } else {
        return cast_values<From, To>;
      }
    });
  });
}

class cast_value_codec final : public number_codec {
 public:
  cast_value_codec(stored_number decoded, stored_number encoded, cast_rules encode, cast_rules decode,
                   std::string description)
      : number_codec(decoded, encoded),
        encode_(std::move(encode)),
        decode_(std::move(decode)),
        description_(std::move(description)) {}

  std::string_view name() const override { return "cast_value"; }
  std::string describe() const override { return description_; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    return run(encoded, encoded_, decoded_, out, decode_, errc::corrupt_data);
  }
  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    return run(decoded, decoded_, encoded_, out, encode_, errc::invalid_argument);
  }

  static result<> run(std::span<const std::byte> in, stored_number from, stored_number to, std::byte* out,
                      const cast_rules& rules, errc code) {
    const value_cast cast = value_cast_of(from.kind, to.kind);
    bool good = true;
    transform_numbers(in, from, from.kind, to.kind, to, out,
                      [&](const std::byte* source, std::byte* target, std::size_t count) {
                        good = cast(source, target, count, rules) && good;
                      });
    if (good) return {};
    return error{code,
                 fmt::format("{} cannot hold every value of {} to be cast", to_string(to.kind), to_string(from.kind))};
  }

  cast_rules encode_, decode_;
  std::string description_;
};

// If one of the two types is only supported by `real_number`.
class small_cast_codec final : public item_codec {
 public:
  small_cast_codec(real_number decoded, real_number encoded, const cast_rules& encode, const cast_rules& decode,
                   std::string description)
      : item_codec(decoded.item_bytes(), encoded.item_bytes()),
        encode_(decoded, encoded, encode),
        decode_(encoded, decoded, decode),
        description_(std::move(description)) {}

  std::string_view name() const override { return "cast_value"; }
  std::string describe() const override { return description_; }

 private:
  class direction {
   public:
    direction(real_number from, real_number to, cast_rules rules)
        : from_(std::move(from)), to_(std::move(to)), rules_(std::move(rules)) {
      if (from_.item_bytes() != 1) return;
      for (std::size_t i = 0; i < known_.size(); ++i) {
        const auto item = static_cast<std::byte>(i);
        known_[i] = cast(from_.load_bits(&item));
      }
    }

    result<> run(std::span<const std::byte> in, std::byte* out, errc code) const {
      const std::size_t from = from_.item_bytes(), to = to_.item_bytes();
      for (std::size_t i = 0; i * from < in.size(); ++i) {
        const std::byte* const item = in.data() + i * from;
        const auto made = from == 1 ? known_[static_cast<std::uint8_t>(*item)] : cast(from_.load_bits(item));
        if (!made) {
          return error{
              code, fmt::format("{} cannot hold every value of {} to be cast", to_.type().name(), from_.type().name())};
        }
        to_.store_bits(out + i * to, *made);
      }
      return {};
    }

   private:
    std::optional<std::uint64_t> cast(std::uint64_t bits) const noexcept {
      const long double value = from_.value_of(bits);
      for (const mapped_value& each : rules_.values) {
        if (value == each.from || (std::isnan(value) && std::isnan(each.from)))
          return round_to(to_, each.to, rounding::nearest_even, beyond::clamp);
      }
      return round_to(to_, value, rules_.round, rules_.out_of_range);
    }

    real_number from_, to_;
    cast_rules rules_;
    std::array<std::optional<std::uint64_t>, 256> known_;  // of every byte, for items of one byte
  };

  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    return decode_.run(encoded, out, errc::corrupt_data);
  }
  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    return encode_.run(decoded, out, errc::invalid_argument);
  }

  direction encode_, decode_;
  std::string description_;
};

// A number in the form of fill values in metadata.
result<long double> mapped_number(const json& value, const real_number& type) {
  std::int64_t whole = 0;
  std::uint64_t natural = 0;
  double real = 0;
  std::optional<long double> made;
  if (value.get(whole)) {
    made = whole;
  } else if (value.get(natural)) {
    made = natural;
  } else if (value.get(real)) {
    made = real;
  } else if (const std::string* const text = value.as_string(); text != nullptr && !type.is_integer()) {
    if (*text == "NaN") made = std::numeric_limits<long double>::quiet_NaN();
    // The registration's own example has a sign.
    if (*text == "Infinity" || *text == "+Infinity") made = std::numeric_limits<long double>::infinity();
    if (*text == "-Infinity") made = -std::numeric_limits<long double>::infinity();
    if (const auto bits = bits_of_text(*text, type.type().bits())) made = type.value_of(*bits);
  }
  const bool holds = made && (type.is_integer() ? *made == std::trunc(*made) : true) &&
                     round_to(type, *made, rounding::nearest_even, type.is_integer() ? beyond::error : beyond::clamp);
  if (holds) return *made;
  return error{errc::corrupt_data, fmt::format("codec 'cast_value': scalar_map has {}, which {} does not hold",
                                               value.dump(), type.type().name())};
}

result<std::vector<mapped_value>> read_map(const json* map, std::string_view direction, const real_number& from,
                                           const real_number& to) {
  std::vector<mapped_value> made;
  const json* const list = map == nullptr ? nullptr : map->find(direction);
  if (list == nullptr || list->is_null()) return made;
  const auto wrong = [&] {
    return error{errc::corrupt_data, fmt::format("codec 'cast_value': scalar_map's '{}' should list pairs, is {}",
                                                 direction, list->dump())};
  };
  if (list->as_array() == nullptr) return wrong();
  for (const json& pair : *list->as_array()) {
    if (pair.as_array() == nullptr || pair.as_array()->size() != 2) return wrong();
    mapped_value value;
    PENSTOCK_ASSIGN(value.from, mapped_number((*pair.as_array())[0], from));
    PENSTOCK_ASSIGN(value.to, mapped_number((*pair.as_array())[1], to));
    made.push_back(value);
  }
  return made;
}

// Data type metadata of Zarr v3: a name, or an object with it; none of the supported types has a configuration.
result<dtype> type_of(const json* value) {
  const json* name = value;
  if (value != nullptr && value->as_object() != nullptr) {
    name = value->find("name");
    const json* const settings = value->find("configuration");
    const bool empty = settings == nullptr || (settings->as_object() != nullptr && settings->as_object()->empty());
    if (!empty) name = nullptr;
  }
  if (name == nullptr || name->as_string() == nullptr)
    return error{errc::corrupt_data, "codec 'cast_value' needs the setting 'data_type', the name of a type"};
  auto type = dtype::from_name(*name->as_string());
  if (!type.ok()) return std::move(type).error().note("codec 'cast_value'");
  return type;
}

}  // namespace

result<compiled_codec> make_cast_value_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"data_type", "rounding", "out_of_range", "scalar_map"}));
  PENSTOCK_ASSIGN(const dtype type, type_of(members.find("data_type")));
  const numpy_type source{input.type, input.big_endian}, target{type, input.big_endian};
  const auto decoded = real_number::of(source), encoded = real_number::of(target);
  for (const dtype* each : {&input.type, &type}) {
    if (real_number::of({*each, false})) continue;
    return error{errc::unsupported, fmt::format("codec 'cast_value' casts real numbers, not {}", each->name())};
  }
  cast_rules rules;
  PENSTOCK_ASSIGN(const std::size_t round, members.choice("rounding", kRoundings, std::size_t{0}));
  PENSTOCK_ASSIGN(const std::size_t out_of_range, members.choice("out_of_range", kBeyonds, std::size_t{0}));
  rules.round = static_cast<rounding>(round);
  rules.out_of_range = static_cast<beyond>(out_of_range);
  if (rules.out_of_range == beyond::wrap && !encoded->is_integer()) {
    return error{errc::corrupt_data, fmt::format("codec 'cast_value': only integers wrap, not {}", type.name())};
  }
  cast_rules back = rules;
  const json* const map = members.find("scalar_map");
  PENSTOCK_ASSIGN(rules.values, read_map(map, "encode", *decoded, *encoded));
  PENSTOCK_ASSIGN(back.values, read_map(map, "decode", *encoded, *decoded));
  std::string description = fmt::format("cast_value({}, rounding={}, out_of_range={})", type.name(), kRoundings[round],
                                        kBeyonds[out_of_range]);
  std::shared_ptr<const byte_codec> codec;
  if (number_of(input.type) && number_of(type)) {
    PENSTOCK_ASSIGN(const stored_number from, stored_number_of(source, "cast_value"));
    PENSTOCK_ASSIGN(const stored_number to, stored_number_of(target, "data_type"));
    codec = std::make_shared<cast_value_codec>(from, to, std::move(rules), std::move(back), std::move(description));
  } else {
    codec = std::make_shared<small_cast_codec>(*decoded, *encoded, rules, back, std::move(description));
  }
  return filter_stage(std::move(codec), input, input.type, target);
}

}  // namespace penstock::inline v0
