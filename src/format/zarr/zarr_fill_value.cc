#include "format/zarr/zarr_fill_value.h"

#include <fmt/format.h>
#include <penstock/variable.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "array/item_swap.h"
#include "base/base64.h"
#include "base/counted.h"
#include "format/zarr/metadata_reader.h"

namespace penstock::inline v0 {
namespace {

error refused(const json& value, const dtype& type, std::string_view needs) {
  return {errc::corrupt_data,
          fmt::format("zarr.json: member 'fill_value' is {}, data type {} needs {}", brief(value), type.name(), needs)};
}

/// Appends the low `bytes` bytes of `bits`, in native order.
void append(std::vector<std::byte>& out, std::uint64_t bits, std::size_t bytes) {
  if constexpr (kNativeBig) bits <<= 64 - 8 * bytes;
  const std::size_t at = out.size();
  out.resize(at + bytes);
  std::memcpy(out.data() + at, &bits, bytes);
}

/// The number that `append` wrote.
std::uint64_t number_at(std::span<const std::byte> item) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, item.data(), item.size());
  if constexpr (kNativeBig) bits >>= 64 - 8 * item.size();
  return bits;
}

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An integer written as 1.0 or 1e2, within the exact range of a double.
bool whole_double(const json& value, double& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return value.get(out) && std::trunc(out) == out && std::abs(out) <= kExact;
}

/// The number in a text, as n5-zarr wrote fill values ("0"); nothing if it is not a number.
std::optional<json> number_in(const std::string* text) {
  constexpr std::size_t kMostDigits = 64;
  if (text == nullptr || text->empty() || text->size() > kMostDigits) return std::nullopt;
  const char first = text->front();
  if (first != '-' && (first < '0' || first > '9')) return std::nullopt;
  auto parsed = json::parse(*text);
  if (!parsed.ok() || !parsed->is_number()) return std::nullopt;
  return std::move(*parsed);
}

result<std::uint64_t> integer_bits(const json& value, const dtype& type, bool is_signed) {
  const unsigned bits = type.bits();
  if (const std::optional<json> number = number_in(value.as_string())) return integer_bits(*number, type, is_signed);
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

float_format format_of(const dtype& type) {
  return type.kind() == dtype_kind::brain_float ? float_format::bfloat16 : type.format();
}

std::uint64_t real_from_double(double number, float_format format, unsigned bits) {
  if (format == float_format::ieee && bits == 32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (format == float_format::ieee && bits == 64) return std::bit_cast<std::uint64_t>(number);
  return bits_from_double(number, format, bits);
}

constexpr std::size_t hex_digits(unsigned bits) noexcept { return bits < 8 ? 2 : bits / 4; }

/// The bits of one floating-point number of `bits` bits. `whole` and `type` are only for messages.
result<std::uint64_t> real_bits(const json& value, float_format format, unsigned bits, const json& whole,
                                const dtype& type) {
  constexpr std::string_view kNeeds = R"(a number, "NaN", "Infinity", "-Infinity" or a hex string)";
  double number = 0;
  const std::string* text = value.as_string();
  if (text != nullptr && text->substr(0, 2) == "0x") {
    std::uint64_t pattern = 0;
    const char* first = text->data() + 2;
    const char* last = text->data() + text->size();
    const auto parsed = std::from_chars(first, last, pattern, 16);
    const auto digits = static_cast<std::size_t>(last - first);
    const bool fits = digits == hex_digits(bits) || (bits <= 4 && digits == 1);
    if (fits && parsed.ec == std::errc() && parsed.ptr == last && (bits == 64 || pattern >> bits == 0)) return pattern;
    return refused(whole, type, fmt::format("{} hex digits after 0x", hex_digits(bits)));
  }
  if (text == nullptr) {
    if (!value.get(number)) return refused(whole, type, kNeeds);
  } else if (*text == "NaN") {
    number = std::numeric_limits<double>::quiet_NaN();
  } else if (*text == "Infinity" || *text == "-Infinity") {
    number = text->front() == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  } else {
    const std::optional<json> spelled = &value == &whole ? number_in(text) : std::nullopt;
    if (!spelled || !spelled->get(number)) return refused(whole, type, kNeeds);
  }
  // Always the same NaN: the sign of a NaN depends on the compiler and the document.
  if (std::isnan(number)) {
    if (!has_nan(format)) return refused(whole, type, "a number: it has no NaN");
    return usual_nan(format, bits);
  }
  if (std::isinf(number) && !has_infinity(format)) return refused(whole, type, "a finite number");
  return real_from_double(number, format, bits);
}

/// Bytes as base64, or as a list of their values.
result<std::vector<std::byte>> read_bytes(const json& value, const dtype& type) {
  constexpr std::string_view kNeeds = "bytes in base64 or a list of byte values";
  if (const std::string* text = value.as_string()) {
    std::optional<std::vector<std::byte>> decoded = base64_decode(*text);
    if (!decoded) return refused(value, type, kNeeds);
    return std::move(*decoded);
  }
  const json::array_t* list = value.as_array();
  if (list == nullptr) return refused(value, type, kNeeds);
  std::vector<std::byte> out;
  for (const json& item : *list) {
    std::uint64_t byte = 0;
    if (!item.get(byte) || byte > 255) return refused(value, type, kNeeds);
    out.push_back(static_cast<std::byte>(byte));
  }
  return out;
}

/// UTF-8 that the JSON parser has checked, as code points of four bytes.
void append_utf32(std::vector<std::byte>& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    for (std::size_t k = 1; k < length && i + k < text.size(); ++k) {
      point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    }
    append(out, point, 4);
    i += length;
  }
}

void append_utf8(std::string& out, std::uint32_t point) {
  if (point >= 0x110000 || (point >= 0xd800 && point < 0xe000)) point = 0xfffd;
  if (point < 0x80) {
    out.push_back(static_cast<char>(point));
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  out.push_back(static_cast<char>((0xff00u >> (more + 1) & 0xffu) | point >> (6 * more)));
  for (int k = more - 1; k >= 0; --k) out.push_back(static_cast<char>(0x80u | (point >> (6 * k) & 0x3fu)));
}

zarr_fill variable(std::string text) {
  zarr_fill out;
  variable_item item;
  if (!text.empty()) {
    out.text = std::make_shared<const std::string>(std::move(text));
    item.data = reinterpret_cast<const std::byte*>(out.text->data());
    item.size = out.text->size();
  }
  out.item.resize(sizeof item);
  std::memcpy(out.item.data(), &item, sizeof item);
  return out;
}

/// A long double: a number if float64 has the same value, else base64 of its 16 bytes, of which x87 uses ten.
constexpr std::size_t kExtendedBytes = 16, kExtendedUsed = 10;

result<> append_extended(const json& value, const dtype& type, std::vector<std::byte>& out) {
  std::vector<std::byte> item(kExtendedBytes);
  const std::string* const text = value.as_string();
  if (text != nullptr && text->size() == 24) {
    PENSTOCK_ASSIGN(item, read_bytes(value, type));
    if (item.size() != kExtendedBytes) return refused(value, type, "base64 of 16 bytes");
  } else {
    PENSTOCK_ASSIGN(const std::uint64_t bits, real_bits(value, float_format::ieee, 64, value, type));
    const auto number = static_cast<long double>(std::bit_cast<double>(bits));
    std::memcpy(item.data(), &number, std::min(sizeof number, kExtendedUsed));
  }
  out.insert(out.end(), item.begin(), item.end());
  return {};
}

/// For types of fixed size; appends one item.
result<> append_item(const json& value, const dtype& type, std::vector<std::byte>& out);

result<> append_structure(const json& value, const dtype& type, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  if (value.as_object() == nullptr) {
    PENSTOCK_ASSIGN(std::vector<std::byte> bytes, read_bytes(value, type));
    if (bytes.size() != type.item_bytes()) return refused(value, type, counted(type.item_bytes(), "byte"));
    // zarr-python wrote an item in the byte order of its machine: little.
    if (kNativeBig) swap_items(bytes.data(), 1, type, std::vector<bool>(leaf_count(type), true));
    out.insert(out.end(), bytes.begin(), bytes.end());
    return {};
  }
  for (const auto& [name, member] : *value.as_object()) {
    if (type.field(name) == nullptr) return refused(value, type, fmt::format("no field '{:.80}'", name));
  }
  out.resize(begin + type.item_bytes());
  for (const dtype_field& field : type.fields()) {
    const json* member = value.find(field.name);
    if (member == nullptr) return refused(value, type, fmt::format("a field '{:.80}'", field.name));
    std::vector<std::byte> item;
    PENSTOCK_TRY(append_item(*member, field.type, item));
    for (std::uint64_t at = 0; at < field.bytes(); at += item.size()) {
      std::memcpy(out.data() + begin + field.offset + at, item.data(), item.size());
      if (item.empty()) break;
    }
  }
  return {};
}

result<> append_item(const json& value, const dtype& type, std::vector<std::byte>& out) {
  const std::size_t bytes = type.item_bytes();
  switch (type.kind()) {
    case dtype_kind::boolean: {
      std::uint64_t number = 0;
      if (const bool* flag = value.as_bool()) {
        number = *flag ? 1 : 0;
      } else if (!value.get(number) || number > 1) {
        return refused(value, type, "true or false");
      }
      append(out, number, 1);
      return {};
    }
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer: {
      PENSTOCK_ASSIGN(const std::uint64_t bits, integer_bits(value, type, type.kind() == dtype_kind::signed_integer));
      append(out, bits, bytes);
      return {};
    }
    case dtype_kind::datetime:
    case dtype_kind::timedelta: {
      if (const std::string* text = value.as_string(); text != nullptr && *text == "NaT") {
        append(out, std::uint64_t{1} << 63, bytes);
        return {};
      }
      if (!value.is_number()) return refused(value, type, "an integer or \"NaT\"");
      PENSTOCK_ASSIGN(const std::uint64_t bits, integer_bits(value, type, true));
      append(out, bits, bytes);
      return {};
    }
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::small_float: {
      PENSTOCK_ASSIGN(const std::uint64_t bits, real_bits(value, format_of(type), type.bits(), value, type));
      append(out, bits, bytes);
      return {};
    }
    case dtype_kind::complex: {
      const json::array_t* parts = value.as_array();
      if (parts == nullptr || parts->size() != 2) return refused(value, type, "a list of two floats");
      for (const json& part : *parts) {
        const unsigned bits = type.bits() / 2;
        PENSTOCK_ASSIGN(const std::uint64_t half, real_bits(part, type.format(), bits, value, type));
        append(out, half, bytes / 2);
      }
      return {};
    }
    case dtype_kind::extended_float:
      return append_extended(value, type, out);
    case dtype_kind::raw:
    case dtype_kind::fixed_bytes: {
      PENSTOCK_ASSIGN(std::vector<std::byte> read, read_bytes(value, type));
      const bool fits = type.kind() == dtype_kind::raw ? read.size() == bytes : read.size() <= bytes;
      if (!fits) return refused(value, type, counted(bytes, "byte"));
      read.resize(bytes);
      out.insert(out.end(), read.begin(), read.end());
      return {};
    }
    case dtype_kind::fixed_utf32: {
      const std::string* text = value.as_string();
      if (text == nullptr) return refused(value, type, "a string");
      const std::size_t begin = out.size();
      append_utf32(out, *text);
      if (out.size() - begin > bytes) return refused(value, type, fmt::format("at most {} characters", bytes / 4));
      out.resize(begin + bytes);
      return {};
    }
    case dtype_kind::structured:
      return append_structure(value, type, out);
    case dtype_kind::variable_utf8:
    case dtype_kind::variable_bytes:
    case dtype_kind::object:
    case dtype_kind::variable_list:
      break;
  }
  return error(errc::unsupported, fmt::format("zarr.json: fill values of data type {} are not readable", type.name()));
}

json real_json(std::uint64_t pattern, float_format format, unsigned bits, bool exact) {
  const double value = format == float_format::ieee && bits == 64 ? std::bit_cast<double>(pattern)
                       : format == float_format::ieee && bits == 32
                           ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)))
                           : double_from_bits(pattern, format, bits);
  const bool usual = pattern == usual_nan(format, bits);
  if (exact && ((std::isnan(value) && !usual) || bits < 16)) {
    return json(fmt::format("0x{:0{}x}", pattern, hex_digits(bits)));
  }
  if (std::isnan(value)) return json("NaN");
  if (std::isinf(value)) return json(value < 0 ? "-Infinity" : "Infinity");
  return json(value);
}

json extended_json(std::span<const std::byte> item) {
  long double number = 0;
  std::memcpy(&number, item.data(), std::min(sizeof number, kExtendedUsed));
  const auto near = static_cast<double>(number);
  const auto again = static_cast<long double>(near);
  if (std::memcmp(&again, &number, std::min(sizeof number, kExtendedUsed)) != 0) return json(base64_encode(item));
  return real_json(std::bit_cast<std::uint64_t>(near), float_format::ieee, 64, false);
}

result<json> write_item(std::span<const std::byte> item, const dtype& type, bool exact) {
  switch (type.kind()) {
    case dtype_kind::boolean:
      return json(number_at(item) != 0);
    case dtype_kind::unsigned_integer:
      return json(number_at(item));
    case dtype_kind::signed_integer:
    case dtype_kind::datetime:
    case dtype_kind::timedelta: {
      const unsigned shift = 64 - 8 * static_cast<unsigned>(item.size());
      return json(static_cast<std::int64_t>(number_at(item) << shift) >> shift);
    }
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::small_float:
      return real_json(number_at(item), format_of(type), type.bits(), exact);
    case dtype_kind::complex: {
      json::array_t parts;
      const std::size_t half = item.size() / 2;
      for (std::size_t i = 0; i < 2; ++i) {
        parts.push_back(real_json(number_at(item.subspan(i * half, half)), type.format(), type.bits() / 2, exact));
      }
      return json(std::move(parts));
    }
    case dtype_kind::extended_float:
      return extended_json(item);
    case dtype_kind::raw:
      return json(base64_encode(item));
    case dtype_kind::fixed_bytes: {
      std::size_t length = item.size();
      while (length > 0 && item[length - 1] == std::byte{0}) --length;
      return json(base64_encode(item.first(length)));
    }
    case dtype_kind::fixed_utf32: {
      std::size_t length = item.size() / 4;
      while (length > 0 && number_at(item.subspan(4 * length - 4, 4)) == 0) --length;
      std::string text;
      for (std::size_t i = 0; i < length; ++i) {
        append_utf8(text, static_cast<std::uint32_t>(number_at(item.subspan(4 * i, 4))));
      }
      return json(std::move(text));
    }
    case dtype_kind::variable_utf8:
    case dtype_kind::variable_bytes: {
      variable_item where;
      std::memcpy(&where, item.data(), sizeof where);
      if (type.kind() == dtype_kind::variable_utf8) return json(std::string(where.text()));
      return json(base64_encode({where.data, static_cast<std::size_t>(where.size)}));
    }
    case dtype_kind::structured: {
      json::object_t fields;
      for (const dtype_field& field : type.fields()) {
        PENSTOCK_ASSIGN(json value, write_item(item.subspan(field.offset, field.type.item_bytes()), field.type, exact));
        fields.emplace_back(field.name, std::move(value));
      }
      return json(std::move(fields));
    }
    case dtype_kind::object:
    case dtype_kind::variable_list:
      break;
  }
  return error(errc::unsupported, fmt::format("fill values of data type {} cannot be written", type.name()));
}

/// Swaps bytes between memory and storage, in either direction.
void swap_stored(std::vector<std::byte>& item, const dtype& type, const json& endian) {
  const std::vector<bool> leaves = swapped_leaves(type, endian);
  for (const bool swapped : leaves) {
    if (!swapped) continue;
    swap_items(item.data(), 1, type, leaves);
    return;
  }
}

bool is_zero(const json& value) {
  double number = 1;
  return value.get(number) && number == 0;
}

}  // namespace

std::vector<bool> swapped_leaves(const dtype& type, const json& endian) {
  std::vector<bool> out(leaf_count(type), false);
  const json::array_t* list = endian.as_array();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const json& mine = list != nullptr && i < list->size() ? (*list)[i] : endian;
    const std::string* text = mine.as_string();
    if (text != nullptr) out[i] = (*text == "big") != kNativeBig;
  }
  return out;
}

result<zarr_fill> parse_fill_value(const json& value, const dtype& type) {
  if (type.kind() == dtype_kind::variable_utf8) {
    if (value.as_string() == nullptr) return refused(value, type, "a string");
    return variable(*value.as_string());
  }
  if (type.kind() == dtype_kind::variable_bytes) {
    PENSTOCK_ASSIGN(const std::vector<std::byte> bytes, read_bytes(value, type));
    return variable(as_text(bytes));
  }
  zarr_fill out;
  PENSTOCK_TRY(append_item(value, type, out.item));
  return out;
}

result<zarr_fill> parse_v2_fill_value(const json& value, const dtype& type, const json& endian) {
  zarr_fill zeros;
  zeros.item.resize(type.item_bytes());
  const bool is_time = type.kind() == dtype_kind::datetime || type.kind() == dtype_kind::timedelta;
  if (value.is_null() && is_time) return parse_fill_value(json("NaT"), type);
  // NumPy's object arrays accept any fill value; elements without a value are empty.
  const bool is_object = type.kind() == dtype_kind::object || type.kind() == dtype_kind::variable_list;
  if (value.is_null() || is_object) return zeros;
  switch (type.kind()) {
    case dtype_kind::variable_utf8:
      // NumPy's object arrays accepted any fill value, and writers left it at 0.
      if (value.is_number()) return variable(value.dump());
      return parse_fill_value(value, type);
    case dtype_kind::variable_bytes:
    case dtype_kind::fixed_bytes:
    case dtype_kind::fixed_utf32:
    case dtype_kind::raw:
      if (is_zero(value)) return zeros;
      return parse_fill_value(value, type);
    case dtype_kind::structured: {
      if (is_zero(value)) return zeros;
      PENSTOCK_ASSIGN(zeros.item, read_bytes(value, type));
      if (zeros.item.size() != type.item_bytes()) {
        return refused(value, type, counted(type.item_bytes(), "byte"));
      }
      swap_stored(zeros.item, type, endian);
      return zeros;
    }
    default:
      return parse_fill_value(value, type);
  }
}

result<json> write_fill_value(std::span<const std::byte> item, const dtype& type) {
  return write_item(item, type, true);
}

result<json> write_v2_fill_value(std::span<const std::byte> item, const dtype& type, const json& endian) {
  if (type.kind() == dtype_kind::object || type.kind() == dtype_kind::variable_list) return json();
  if (type.kind() != dtype_kind::structured) return write_item(item, type, false);
  std::vector<std::byte> stored(item.begin(), item.end());
  swap_stored(stored, type, endian);
  return json(base64_encode(stored));
}

}  // namespace penstock::inline v0
