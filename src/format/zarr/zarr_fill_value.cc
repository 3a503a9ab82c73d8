#include "format/zarr/zarr_fill_value.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "format/zarr/metadata_reader.h"

namespace penstock::inline v0 {
namespace {

error refused(const json& value, dtype type, std::string_view needs) {
  return {errc::corrupt_data,
          fmt::format("zarr.json: member 'fill_value' is {}, data type {} needs {}", brief(value), type.name(), needs)};
}

/// Appends the low `bytes` bytes of `bits`, in native order.
void append(std::vector<std::byte>& out, std::uint64_t bits, std::size_t bytes) {
  if constexpr (std::endian::native == std::endian::big) bits <<= 64 - 8 * bytes;
  const std::size_t at = out.size();
  out.resize(at + bytes);
  std::memcpy(out.data() + at, &bits, bytes);
}

/// A whole number written as 1.0 or 1e2, within what a double holds exactly.
bool whole_double(const json& value, double& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return value.get(out) && std::trunc(out) == out && std::abs(out) <= kExact;
}

result<std::uint64_t> integer_bits(const json& value, dtype type) {
  const unsigned bits = type.bits();
  const bool is_signed = type.kind() == dtype_kind::signed_integer;
  if (!value.is_number()) return refused(value, type, "an integer");

  std::int64_t negative = 0;
  std::uint64_t positive = 0;
  bool whole = true;
  if (!value.get(positive)) {
    double number = 0;
    if (!value.get(negative)) {
      whole = whole_double(value, number);
      if (whole && number >= 0) {
        positive = static_cast<std::uint64_t>(number);
      } else if (whole) {
        negative = static_cast<std::int64_t>(number);
      }
    }
  }
  if (!whole) return refused(value, type, "an integer that fits");
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  if (negative < 0) {
    const std::int64_t least = is_signed ? -static_cast<std::int64_t>(most) - 1 : 0;
    if (negative < least) return refused(value, type, "an integer that fits");
    return static_cast<std::uint64_t>(negative);
  }
  if (positive > most) return refused(value, type, "an integer that fits");
  return positive;
}

std::uint64_t float_bits(double number, unsigned bits) {
  if (bits == 16) return half_from_double(number);
  if (bits == 32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  return std::bit_cast<std::uint64_t>(number);
}

/// The bits of one IEEE number of `bits` bits. `type` is only for messages.
result<std::uint64_t> real_bits(const json& value, unsigned bits, const json& whole, dtype type) {
  constexpr std::string_view kNeeds = R"(a number, "NaN", "Infinity", "-Infinity" or a hex string)";
  double number = 0;
  if (value.get(number)) {
    // One NaN, whatever sign the compiler's or a document's NaN has.
    if (std::isnan(number)) number = std::bit_cast<double>(std::uint64_t{0x7ff8} << 48);
    return float_bits(number, bits);
  }
  const std::string* text = value.as_string();
  if (text == nullptr) return refused(whole, type, kNeeds);
  const std::uint64_t exponent = bits == 16 ? 0x7c00u : bits == 32 ? 0x7f800000u : std::uint64_t{0x7ff} << 52;
  const std::uint64_t quiet = bits == 16 ? 0x0200u : bits == 32 ? 0x00400000u : std::uint64_t{1} << 51;
  if (*text == "NaN") return exponent | quiet;
  if (*text == "Infinity") return exponent;
  if (*text == "-Infinity") return exponent | std::uint64_t{1} << (bits - 1);
  if (text->substr(0, 2) == "0x") {
    std::uint64_t pattern = 0;
    const char* first = text->data() + 2;
    const char* last = text->data() + text->size();
    const auto parsed = std::from_chars(first, last, pattern, 16);
    if (static_cast<unsigned>(last - first) == bits / 4 && parsed.ec == std::errc() && parsed.ptr == last) {
      return pattern;
    }
    return refused(whole, type, fmt::format("{} hex digits after 0x", bits / 4));
  }
  return refused(whole, type, kNeeds);
}

}  // namespace

std::uint16_t half_from_double(double value) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 1024 && fraction != 0) return sign | 0x7e00;
  if (exponent >= 16) return sign | 0x7c00;
  if (exponent < -25) return sign;

  // Below 2^-14 halves are subnormal: the fraction loses one more bit with each power of two.
  const std::uint64_t significand = fraction | std::uint64_t{1} << 52;
  const bool normal = exponent >= -14;
  const int shift = normal ? 42 : 42 - 14 - exponent;
  const std::uint64_t kept = significand >> shift;
  const std::uint64_t lost = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t tie = std::uint64_t{1} << (shift - 1);
  // `kept` carries its leading 1, which counts as one in the exponent's field; so does a carry from rounding.
  std::uint64_t half = kept + (normal ? static_cast<std::uint64_t>(exponent + 14) << 10 : 0);
  if (lost > tie || (lost == tie && (kept & 1) != 0)) ++half;
  return static_cast<std::uint16_t>(sign | half);
}

bool zarr_type_is_readable(dtype type) noexcept {
  const std::uint32_t bits = type.bits();
  switch (type.kind()) {
    case dtype_kind::boolean:
      return true;
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
      return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case dtype_kind::floating:
      return bits == 16 || bits == 32 || bits == 64;
    case dtype_kind::complex:
      return bits == 64 || bits == 128;
    default:
      return false;
  }
}

result<std::vector<std::byte>> parse_fill_value(const json& value, dtype type) {
  std::vector<std::byte> out;
  if (!zarr_type_is_readable(type)) {
    return error(errc::unsupported,
                 fmt::format("zarr.json: fill values of data type {} are not readable", type.name()));
  }
  switch (type.kind()) {
    case dtype_kind::boolean: {
      std::uint64_t number = 0;
      if (const bool* flag = value.as_bool()) {
        number = *flag ? 1 : 0;
      } else if (!value.get(number) || number > 1) {
        return refused(value, type, "true or false");
      }
      append(out, number, 1);
      return out;
    }
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer: {
      PENSTOCK_ASSIGN(const std::uint64_t bits, integer_bits(value, type));
      append(out, bits, type.item_bytes());
      return out;
    }
    case dtype_kind::floating: {
      PENSTOCK_ASSIGN(const std::uint64_t bits, real_bits(value, type.bits(), value, type));
      append(out, bits, type.item_bytes());
      return out;
    }
    default:
      break;
  }
  const json::array_t* parts = value.as_array();
  if (parts == nullptr || parts->size() != 2) return refused(value, type, "a list of two floats");
  for (const json& part : *parts) {
    PENSTOCK_ASSIGN(const std::uint64_t bits, real_bits(part, type.bits() / 2, value, type));
    append(out, bits, type.item_bytes() / 2);
  }
  return out;
}

}  // namespace penstock::inline v0
