#include <penstock/dtype.h>

#include <charconv>
#include <iterator>

namespace penstock::inline v0 {
namespace {

struct named_type {
  std::string_view name;
  dtype_kind kind;
  std::uint32_t bits;
};

/// Source: Zarr v3 core specification, "Core data types", and the registered extension types.
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
    {"bfloat16", dtype_kind::brain_float, 16},
    {"complex64", dtype_kind::complex, 64},
    {"complex128", dtype_kind::complex, 128},
    {"numpy.datetime64", dtype_kind::datetime, 64},
    {"numpy.timedelta64", dtype_kind::timedelta, 64},
    {"string", dtype_kind::variable_utf8, 0},
    {"bytes", dtype_kind::variable_bytes, 0},
    {"variable_length_bytes", dtype_kind::variable_bytes, 0},
};

constexpr bool has_bits(dtype_kind kind) noexcept {
  return kind != dtype_kind::variable_utf8 && kind != dtype_kind::variable_bytes;
}

// `r24`: any whole number of bytes.
bool parse_raw(std::string_view name, std::uint32_t& bits) noexcept {
  if (name.size() < 2 || name[0] != 'r' || name[1] < '1' || name[1] > '9') return false;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + 1, end, bits);
  return parsed.ec == std::errc() && parsed.ptr == end && bits % 8 == 0;
}

}  // namespace

result<dtype> dtype::from_name(std::string_view name) {
  for (const named_type& each : kTypes) {
    if (each.name == name) return dtype(each.kind, each.bits);
  }
  std::uint32_t bits = 0;
  if (parse_raw(name, bits)) return dtype(dtype_kind::raw, bits);
  return error(errc::unsupported, "there is no data type named '" + std::string(name) + "'");
}

std::uint32_t dtype::swap_bytes() const noexcept {
  switch (kind_) {
    case dtype_kind::complex:
      return item_bytes() / 2;
    case dtype_kind::fixed_utf32:
      return 4;
    case dtype_kind::boolean:
    case dtype_kind::raw:
    case dtype_kind::fixed_bytes:
    case dtype_kind::variable_utf8:
    case dtype_kind::variable_bytes:
      return 1;
    default:
      return item_bytes();
  }
}

std::string dtype::name() const {
  switch (kind_) {
    case dtype_kind::raw:
      return "r" + std::to_string(bits_);
    case dtype_kind::fixed_bytes:
      return "null_terminated_bytes";
    case dtype_kind::fixed_utf32:
      return "fixed_length_utf32";
    default:
      break;
  }
  for (const named_type& each : kTypes) {
    if (each.kind == kind_ && (each.bits == bits_ || !has_bits(kind_))) return std::string(each.name);
  }
  return "unnamed" + std::to_string(bits_);
}

std::string dtype::numpy_typestr() const {
  const std::uint32_t bytes = item_bytes();
  char letter = 0;
  switch (kind_) {
    case dtype_kind::boolean:
      letter = 'b';
      break;
    case dtype_kind::signed_integer:
      letter = 'i';
      break;
    case dtype_kind::unsigned_integer:
      letter = 'u';
      break;
    case dtype_kind::floating:
      letter = 'f';
      break;
    case dtype_kind::complex:
      letter = 'c';
      break;
    case dtype_kind::raw:
      letter = 'V';
      break;
    case dtype_kind::fixed_bytes:
      letter = 'S';
      break;
    case dtype_kind::fixed_utf32:
      letter = 'U';
      break;
    case dtype_kind::datetime:
      letter = 'M';
      break;
    case dtype_kind::timedelta:
      letter = 'm';
      break;
    case dtype_kind::brain_float:
    case dtype_kind::variable_utf8:
    case dtype_kind::variable_bytes:
      return {};
  }
  if (bits_ < 8) return {};  // NumPy has no int4
  const char order = swap_bytes() == 1 ? '|' : __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
  // UTF-32 strings are counted in code units, everything else in bytes.
  return std::string{order, letter} + std::to_string(kind_ == dtype_kind::fixed_utf32 ? bytes / 4 : bytes);
}

}  // namespace penstock::inline v0
