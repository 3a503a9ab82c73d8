// The names of types: Zarr's and NumPy's.

#include "array/dtype_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include <penstock/dtype.h>

namespace penstock::inline v0 {
namespace {

struct named_type {
  std::string_view name;
  dtype_kind kind;
  std::uint32_t bits;
  float_format format = float_format::ieee;
};

/// The first name of a type is the one that is written. Source: Zarr v3 core specification, "Core data types";
/// zarr-extensions, data-types.
constexpr named_type kTypes[] = {
    {"bool", dtype_kind::boolean, 8},
    {"int2", dtype_kind::signed_integer, 2},
    {"int4", dtype_kind::signed_integer, 4},
    {"int8", dtype_kind::signed_integer, 8},
    {"int16", dtype_kind::signed_integer, 16},
    {"int32", dtype_kind::signed_integer, 32},
    {"int64", dtype_kind::signed_integer, 64},
    {"uint2", dtype_kind::unsigned_integer, 2},
    {"uint4", dtype_kind::unsigned_integer, 4},
    {"uint8", dtype_kind::unsigned_integer, 8},
    {"uint16", dtype_kind::unsigned_integer, 16},
    {"uint32", dtype_kind::unsigned_integer, 32},
    {"uint64", dtype_kind::unsigned_integer, 64},
    {"float16", dtype_kind::floating, 16},
    {"float32", dtype_kind::floating, 32},
    {"float64", dtype_kind::floating, 64},
    {"bfloat16", dtype_kind::brain_float, 16, float_format::bfloat16},
    {"float8_e3m4", dtype_kind::small_float, 8, float_format::float8_e3m4},
    {"float8_e4m3", dtype_kind::small_float, 8, float_format::float8_e4m3},
    {"float8_e4m3b11fnuz", dtype_kind::small_float, 8, float_format::float8_e4m3b11fnuz},
    {"float8_e4m3fn", dtype_kind::small_float, 8, float_format::float8_e4m3fn},
    {"float8_e4m3fnuz", dtype_kind::small_float, 8, float_format::float8_e4m3fnuz},
    {"float8_e5m2", dtype_kind::small_float, 8, float_format::float8_e5m2},
    {"float8_e5m2fnuz", dtype_kind::small_float, 8, float_format::float8_e5m2fnuz},
    {"float8_e8m0fnu", dtype_kind::small_float, 8, float_format::float8_e8m0fnu},
    {"float6_e2m3fn", dtype_kind::small_float, 6, float_format::float6_e2m3fn},
    {"float6_e3m2fn", dtype_kind::small_float, 6, float_format::float6_e3m2fn},
    {"float4_e2m1fn", dtype_kind::small_float, 4, float_format::float4_e2m1fn},
    {"complex64", dtype_kind::complex, 64},
    {"complex128", dtype_kind::complex, 128},
    {"complex_float16", dtype_kind::complex, 32},
    {"complex_float32", dtype_kind::complex, 64},
    {"complex_float64", dtype_kind::complex, 128},
    {"complex_bfloat16", dtype_kind::complex, 32, float_format::bfloat16},
    {"complex_float8_e3m4", dtype_kind::complex, 16, float_format::float8_e3m4},
    {"complex_float8_e4m3", dtype_kind::complex, 16, float_format::float8_e4m3},
    {"complex_float8_e4m3b11fnuz", dtype_kind::complex, 16, float_format::float8_e4m3b11fnuz},
    {"complex_float8_e4m3fn", dtype_kind::complex, 16, float_format::float8_e4m3fn},
    {"complex_float8_e4m3fnuz", dtype_kind::complex, 16, float_format::float8_e4m3fnuz},
    {"complex_float8_e5m2", dtype_kind::complex, 16, float_format::float8_e5m2},
    {"complex_float8_e5m2fnuz", dtype_kind::complex, 16, float_format::float8_e5m2fnuz},
    {"complex_float8_e8m0fnu", dtype_kind::complex, 16, float_format::float8_e8m0fnu},
    {"complex_float6_e2m3fn", dtype_kind::complex, 16, float_format::float6_e2m3fn},
    {"complex_float6_e3m2fn", dtype_kind::complex, 16, float_format::float6_e3m2fn},
    {"complex_float4_e2m1fn", dtype_kind::complex, 16, float_format::float4_e2m1fn},
    {"numpy.datetime64", dtype_kind::datetime, 64},
    {"numpy.timedelta64", dtype_kind::timedelta, 64},
    {"string", dtype_kind::variable_utf8, 0},
    {"variable_length_bytes", dtype_kind::variable_bytes, 0},
    {"bytes", dtype_kind::variable_bytes, 0},
};

// On other platforms NumPy's type of 16 bytes is a different one, or does not exist.
#if defined(__x86_64__)
constexpr bool kHasExtendedFloat = true;
#else
constexpr bool kHasExtendedFloat = false;
#endif

constexpr bool has_bits(dtype_kind kind) noexcept {
  return kind != dtype_kind::variable_utf8 && kind != dtype_kind::variable_bytes;
}

// All of `text` as a positive number below 2^28.
bool parse_number(std::string_view text, std::uint32_t& out) noexcept {
  if (text.empty() || text[0] < '0' || text[0] > '9' || (text[0] == '0' && text.size() > 1)) return false;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out);
  return parsed.ec == std::errc() && parsed.ptr == end && out < (std::uint32_t{1} << 28);
}

// `r24`: any whole number of bytes.
bool parse_raw(std::string_view name, std::uint32_t& bits) noexcept {
  return name.size() > 1 && name[0] == 'r' && parse_number(name.substr(1), bits) && bits != 0 && bits % 8 == 0;
}

error no_typestr(std::string_view text) {
  return {errc::corrupt_data, fmt::format("'{:.80}' is not a NumPy type string", text)};
}

// `8[10ns]` after M or m.
result<dtype> parse_time(dtype_kind kind, std::string_view rest, std::string_view typestr) {
  const auto wrong = [&] { return no_typestr(typestr); };
  if (rest.empty() || rest[0] != '8') return wrong();
  rest.remove_prefix(1);
  time_unit unit = time_unit::generic;
  std::uint32_t scale = 1;
  if (!rest.empty()) {
    if (rest.size() < 3 || rest.front() != '[' || rest.back() != ']') return wrong();
    rest = rest.substr(1, rest.size() - 2);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits != 0 && (!parse_number(rest.substr(0, digits), scale) || scale == 0)) return wrong();
    PENSTOCK_ASSIGN(unit, time_unit_from(rest.substr(digits)));
  }
  return kind == dtype_kind::datetime ? dtype::datetime(unit, scale) : dtype::timedelta(unit, scale);
}

char numpy_letter(dtype_kind kind) noexcept {
  switch (kind) {
    case dtype_kind::boolean:
      return 'b';
    case dtype_kind::signed_integer:
      return 'i';
    case dtype_kind::unsigned_integer:
      return 'u';
    case dtype_kind::floating:
    case dtype_kind::extended_float:
      return 'f';
    case dtype_kind::complex:
      return 'c';
    case dtype_kind::raw:
      return 'V';
    case dtype_kind::fixed_bytes:
      return 'S';
    case dtype_kind::fixed_utf32:
      return 'U';
    case dtype_kind::datetime:
      return 'M';
    case dtype_kind::timedelta:
      return 'm';
    case dtype_kind::object:
    case dtype_kind::variable_list:
      return 'O';
    default:
      return 0;
  }
}

std::string quoted(std::string_view text) {
  std::string out(1, '\'');
  for (const char each : text) {
    if (each == '\'' || each == '\\') out.push_back('\\');
    out.push_back(each);
  }
  out.push_back('\'');
  return out;
}

void append_padding(std::string& out, std::uint64_t bytes) {
  if (bytes == 0) return;
  out += fmt::format("('', '|V{}'), ", bytes);
}

}  // namespace

std::vector<std::string_view> numbers_without_typestr() {
  std::vector<std::string_view> out;
  for (const named_type& each : kTypes) {
    const bool is_integer = each.kind == dtype_kind::signed_integer || each.kind == dtype_kind::unsigned_integer;
    const bool is_small = each.kind == dtype_kind::brain_float || each.kind == dtype_kind::small_float;
    if (is_small || (is_integer && each.bits < 8)) out.push_back(each.name);
  }
  return out;
}

result<dtype> dtype::from_name(std::string_view name) {
  for (const named_type& each : kTypes) {
    if (each.name == name) return dtype(each.kind, each.bits, each.format);
  }
  std::uint32_t bits = 0;
  if (parse_raw(name, bits)) return dtype(dtype_kind::raw, bits);
  return error(errc::unsupported, fmt::format("there is no data type named '{:.80}'", name));
}

std::string dtype::name() const {
  switch (kind_) {
    case dtype_kind::raw:
      return fmt::format("r{}", bits_);
    case dtype_kind::fixed_bytes:
      return "null_terminated_bytes";
    case dtype_kind::fixed_utf32:
      return "fixed_length_utf32";
    case dtype_kind::structured:
      return "struct";
    case dtype_kind::extended_float:
      return "longdouble";
    case dtype_kind::object:
      return "object";
    case dtype_kind::variable_list:
      return fmt::format("variable_length_list[{}{}]", item()->name(),
                         item_shape().empty() ? std::string() : " " + to_string(fields_->front().shape));
    default:
      break;
  }
  for (const named_type& each : kTypes) {
    if (each.kind == kind_ && each.format == format_ && (each.bits == bits_ || !has_bits(kind_)))
      return std::string(each.name);
  }
  return fmt::format("unnamed{}", bits_);
}

result<numpy_type> dtype::from_numpy(std::string_view typestr) {
  const auto wrong = [&] { return no_typestr(typestr); };
  if (typestr.size() < 2) return wrong();
  const char order = typestr[0];
  if (order != '<' && order != '>' && order != '|' && order != '=') return wrong();
  constexpr bool kNativeBig = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  const bool big = order == '>' || (order == '=' && kNativeBig);
  const char letter = typestr[1];
  const std::string_view rest = typestr.substr(2);
  if (letter == 'O') {
    if (!rest.empty() && rest != "8") return wrong();
    return numpy_type{dtype::object(), false};
  }
  if (letter == 'M' || letter == 'm') {
    PENSTOCK_ASSIGN(const dtype type,
                    parse_time(letter == 'M' ? dtype_kind::datetime : dtype_kind::timedelta, rest, typestr));
    return numpy_type{type, big};
  }
  std::uint32_t size = 0;
  if (!parse_number(rest, size)) return wrong();
  if (letter == 'U' && size >= (std::uint32_t{1} << 26)) return wrong();
  const auto made = [&](dtype type) { return numpy_type{type, big && type.has_byte_order()}; };
  switch (letter) {
    case 'V':
      return made(raw(size));
    case 'S':
    case 'a':
      return made(fixed_bytes(size));
    case 'U':
      return made(fixed_utf32(size));
    default:
      break;
  }
  if (kHasExtendedFloat && letter == 'f' && size == 16 && !big)
    return numpy_type{dtype(dtype_kind::extended_float, 128), false};
  for (const named_type& each : kTypes) {
    if (each.format == float_format::ieee && numpy_letter(each.kind) == letter && each.bits == size * 8 &&
        each.kind != dtype_kind::datetime && each.kind != dtype_kind::timedelta &&
        !(each.kind == dtype_kind::complex && size < 8)) {
      return made(dtype(each.kind, each.bits));
    }
  }
  return error(errc::unsupported, fmt::format("there is no data type for NumPy's '{:.80}'", typestr));
}

std::string dtype::numpy_typestr(bool big_endian) const {
  const char letter = numpy_letter(kind_);
  if (letter == 0 || format_ != float_format::ieee) return {};
  if (letter == 'O') return "|O";
  if (bits_ < 8 && bits_ != 0) return {};                     // NumPy has no int4
  if (kind_ == dtype_kind::complex && bits_ < 64) return {};  // and no halves of 16 bits
  const char order = swap_bytes() == 1 ? '|' : big_endian ? '>' : '<';
  // UTF-32 strings are counted in code units, all others in bytes.
  std::string out =
      fmt::format("{}{}{}", order, letter, kind_ == dtype_kind::fixed_utf32 ? item_bytes() / 4 : item_bytes());
  if (unit_ != time_unit::generic) {
    out += '[';
    if (scale_ != 1) out += std::to_string(scale_);
    out += to_string(unit_);
    out += ']';
  }
  return out;
}

std::string dtype::numpy_descr(bool big_endian) const {
  if (kind_ != dtype_kind::structured) {
    const std::string text = numpy_typestr(big_endian);
    return text.empty() ? text : quoted(text);
  }
  std::string out(1, '[');
  std::uint64_t end = 0;
  for (const dtype_field& each : fields()) {
    const std::string inner = each.type.numpy_descr(big_endian);
    if (inner.empty()) return {};
    append_padding(out, each.offset - end);
    out += fmt::format("({}, {}", quoted(each.name), inner);
    if (!each.shape.empty())
      out += fmt::format(", ({}{})", fmt::join(each.shape, ", "), each.shape.size() == 1 ? "," : "");
    out += "), ";
    end = each.offset + each.bytes();
  }
  append_padding(out, item_bytes() - end);
  if (out.size() > 2) out.resize(out.size() - 2);
  out.push_back(']');
  return out;
}

}  // namespace penstock::inline v0
