#include "values.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <penstock/variable.h>
#include "array/list_items.h"
#include "base/printable.h"

namespace penstock::inline v0::cli {
namespace {

template <class T>
T load(const std::byte* item) {
  T value;
  std::memcpy(&value, item, sizeof value);
  return value;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double brain_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// The number with the fewest digits that is closer to `bits` than to its neighbours in a 16-bit type.
double shortest(std::uint16_t bits, double (*value_of)(std::uint16_t)) {
  const double value = value_of(bits);
  if (!std::isfinite(value) || value == 0) return value;
  const double below = value_of(static_cast<std::uint16_t>(bits - 1));  // the neighbour closer to zero
  double above = value_of(static_cast<std::uint16_t>(bits + 1));
  if (std::isinf(above)) above = value + (value - below);  // rounding to infinity begins at the same distance
  for (int digits = 1; digits < 9; ++digits) {
    const double candidate = std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
    const double miss = std::abs(candidate - value);
    if (miss < std::abs(candidate - below) && miss < std::abs(candidate - above)) return candidate;
  }
  return value;
}

/// Python writes floats with a point, so that they cannot be mistaken for ints.
std::string float_text(std::string text) {
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

/// The decimal text of one floating number of `bits` bits.
std::string real_text(bool brain, std::uint32_t bits, const std::byte* item) {
  if (bits == 16) {
    const double value = shortest(load<std::uint16_t>(item), brain ? brain_value : half_value);
    return float_text(fmt::format("{}", std::isnan(value) ? NAN : value));
  }
  // A negative NaN is also shown as NaN.
  if (bits == 32) {
    const float value = load<float>(item);
    return float_text(fmt::format("{}", std::isnan(value) ? NAN : value));
  }
  const double value = load<double>(item);
  return float_text(fmt::format("{}", std::isnan(value) ? NAN : value));
}

bool has_brain_halves(const dtype& type) { return type.format() == float_format::bfloat16; }

/// Whether the halves of a complex number are shown as numbers: smaller ones are shown as bytes, as `small_float` is.
bool has_real_halves(const dtype& type) {
  return type.format() == float_format::ieee || type.format() == float_format::bfloat16;
}

/// The decimal text of x87's 80 bits in 16 bytes.
std::string extended_text(const std::byte* item) {
  long double value = 0;
  std::memcpy(&value, item, std::min<std::size_t>(sizeof value, 10));
  return float_text(fmt::format("{}", std::isnan(value) ? static_cast<long double>(NAN) : value));
}

json real_json(const std::string& text) {
  if (text == "nan") return "NaN";
  if (text == "inf") return "Infinity";
  if (text == "-inf") return "-Infinity";
  return std::strtod(text.c_str(), nullptr);
}

std::string hex_text(const std::byte* item, std::size_t bytes) {
  std::string text = "0x";
  for (std::size_t i = 0; i < bytes; ++i)
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(item[i]));
  return text;
}

void append_utf8(std::string& out, std::uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (point >> 18 & 7));
    out += static_cast<char>(0x80 | (point >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  }
}

/// The characters of a fixed_utf32 item, without the zeros at its end.
std::string utf32_text(const std::byte* item, std::size_t bytes) {
  std::string out;
  std::size_t count = bytes / 4;
  while (count != 0 && load<std::uint32_t>(item + 4 * (count - 1)) == 0) --count;
  for (std::size_t i = 0; i < count; ++i) append_utf8(out, load<std::uint32_t>(item + 4 * i));
  return out;
}

/// Text in quotes, as Python writes it: terminal control characters are escaped.
std::string in_quotes(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char each : text) {
    if (each == quote || each == '\\') {
      out += '\\';
      out += each;
    } else {
      out += each;
    }
  }
  return printable(out) + quote;
}

std::int64_t signed_value(std::uint32_t bytes, const std::byte* item) {
  if (bytes == 1) return load<std::int8_t>(item);
  if (bytes == 2) return load<std::int16_t>(item);
  if (bytes == 4) return load<std::int32_t>(item);
  return load<std::int64_t>(item);
}

/// a / b rounded down; b > 0.
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A count since 1970 as NumPy writes it: `2020`, `2020-01-31`, `2020-01-31T06`, `2020-01-31T06:30:00.250`; the number
/// if it has no unit, or its year more than four digits.
std::string date_text(const dtype& type, std::int64_t count) {
  const time_unit unit = type.unit();
  std::int64_t ticks = 0;
  if (unit == time_unit::generic || __builtin_mul_overflow(count, std::int64_t{type.scale()}, &ticks))
    return fmt::format("{}", count);
  const int digits = 3 * (static_cast<int>(unit) - static_cast<int>(time_unit::second));  // of the fraction of a second
  std::int64_t fraction = 0;
  if (digits > 0) {
    std::int64_t of_second = 1;
    for (int i = 0; i < digits; ++i) of_second *= 10;
    fraction = ticks % of_second < 0 ? ticks % of_second + of_second : ticks % of_second;
    ticks = floor_div(ticks, of_second);
  }
  constexpr std::int64_t kMost = 1'000'000'000'000;  // beyond all dates below, and no product overflows
  if (ticks < -kMost || ticks > kMost) return fmt::format("{}", count);

  std::int64_t seconds = 0;
  switch (unit) {
    case time_unit::year:
    case time_unit::month: {
      const std::int64_t months = unit == time_unit::year ? ticks * 12 : ticks;
      const std::int64_t year = 1970 + floor_div(months, 12);
      if (year < 0 || year > 9999) return fmt::format("{}", count);
      if (unit == time_unit::year) return fmt::format("{:04}", year);
      return fmt::format("{:04}-{:02}", year, months - floor_div(months, 12) * 12 + 1);
    }
    case time_unit::week:
      seconds = ticks * (7 * 86400);
      break;
    case time_unit::day:
      seconds = ticks * 86400;
      break;
    case time_unit::hour:
      seconds = ticks * 3600;
      break;
    case time_unit::minute:
      seconds = ticks * 60;
      break;
    default:
      seconds = ticks;
  }
  const std::int64_t days = floor_div(seconds, 86400);
  constexpr std::int64_t kFirst = -719528, kLast = 2932896;  // 0000-01-01 and 9999-12-31
  if (days < kFirst || days > kLast) return fmt::format("{}", count);
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  std::string text = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (unit <= time_unit::day) return text;
  const std::int64_t of_day = seconds - days * 86400;
  text += fmt::format("T{:02}", of_day / 3600);
  if (unit >= time_unit::minute) text += fmt::format(":{:02}", of_day / 60 % 60);
  if (unit >= time_unit::second) text += fmt::format(":{:02}", of_day % 60);
  if (digits > 0) text += fmt::format(".{:0{}}", fraction, digits);
  return text;
}

std::uint64_t unsigned_value(std::uint32_t bytes, const std::byte* item) {
  if (bytes == 1) return load<std::uint8_t>(item);
  if (bytes == 2) return load<std::uint16_t>(item);
  if (bytes == 4) return load<std::uint32_t>(item);
  return load<std::uint64_t>(item);
}

/// Arranges texts of one width in brackets, as NumPy does.
class block_writer {
 public:
  block_writer(const extents& shape, const std::vector<std::string>& items) : shape_(shape), items_(items) {
    for (const auto& item : items) width_ = std::max(width_, item.size());
  }

  std::string write() && {
    axis(0);
    return std::move(text_);
  }

 private:
  static constexpr std::size_t kColumns = 75;

  void axis(std::size_t d) {
    if (d == shape_.size()) {  // rank 0
      text_ += items_[next_++];
      return;
    }
    text_ += '[';
    if (d + 1 == shape_.size()) {
      row(d);
    } else {
      for (std::uint64_t i = 0; i < shape_[d]; ++i) {
        if (i > 0) {
          text_.append(shape_.size() - d - 1, '\n');
          text_.append(d + 1, ' ');
        }
        axis(d + 1);
      }
    }
    text_ += ']';
  }

  void row(std::size_t d) {
    std::size_t column = d + 1;
    for (std::uint64_t i = 0; i < shape_[d]; ++i) {
      const std::string& item = items_[next_++];
      if (i > 0 && column + 1 + width_ + shape_.size() > kColumns) {
        text_ += '\n';
        text_.append(d + 1, ' ');
        column = d + 1;
      } else if (i > 0) {
        text_ += ' ';
        ++column;
      }
      text_.append(width_ - item.size(), ' ');
      text_ += item;
      column += width_;
    }
  }

  const extents& shape_;
  const std::vector<std::string>& items_;
  std::string text_;
  std::size_t width_ = 0;
  std::size_t next_ = 0;
};

/// Calls `each` with every item of a list, in memory.
template <class Each>
void for_each_of_list(const dtype& list, const variable_item& from, const Each& each) {
  if (list.item()->variable_length()) {
    for (const variable_item& one : split_list(from)) each(reinterpret_cast<const std::byte*>(&one));
    return;
  }
  const std::uint64_t bytes = list.list_item_bytes();
  for (std::uint64_t at = 0; at + bytes <= from.size; at += bytes) each(from.data + at);
}

/// An item of a list, which may be an array of `shape`. Moves `item` past it.
std::string nested_text(const dtype& type, std::span<const std::uint64_t> shape, const std::byte*& item) {
  if (shape.empty()) {
    std::string one = item_text(type, item);
    item += type.item_bytes();
    return one;
  }
  std::string out = "[";
  for (std::uint64_t i = 0; i < shape[0]; ++i) {
    if (i != 0) out += ' ';
    out += nested_text(type, shape.subspan(1), item);
  }
  return out + "]";
}

std::string list_text(const dtype& type, const variable_item& from) {
  std::string out = "[";
  for_each_of_list(type, from, [&](const std::byte* each) {
    if (out.size() > 1) out += ' ';
    out += nested_text(*type.item(), type.item_shape(), each);
  });
  return out + "]";
}

json nested(dtype type, const extents& shape, std::size_t d, const std::byte*& item) {
  if (d == shape.size()) {
    json value = item_json(type, item);
    item += type.item_bytes();
    return value;
  }
  json::array_t values;
  for (std::uint64_t i = 0; i < shape[d]; ++i) values.push_back(nested(type, shape, d + 1, item));
  return values;
}

json list_json(const dtype& type, const variable_item& from) {
  json::array_t out;
  const extents shape(type.item_shape());
  for_each_of_list(type, from, [&](const std::byte* each) { out.push_back(nested(*type.item(), shape, 0, each)); });
  return out;
}

/// A field of a structure: an element, or a block of them in brackets.
std::string field_text(const dtype& type, const extents& shape, std::size_t d, const std::byte*& item) {
  if (d == shape.size()) {
    std::string text = item_text(type, item);
    item += type.item_bytes();
    return text;
  }
  std::string out = "[";
  for (std::uint64_t i = 0; i < shape[d]; ++i) {
    if (i > 0) out += ' ';
    out += field_text(type, shape, d + 1, item);
  }
  return out + "]";
}

bool no_elements(const extents& shape) { return std::find(shape.begin(), shape.end(), 0U) != shape.end(); }

}  // namespace

std::string short_type_text(const dtype& type) {
  if (type.kind() != dtype_kind::datetime && type.kind() != dtype_kind::timedelta) return type.name();
  return fmt::format("{}[{}{}]", type.name(), type.scale() == 1 ? "" : fmt::format("{}", type.scale()),
                     to_string(type.unit()));
}

std::string type_text(const dtype& type) {
  std::string text = short_type_text(type);
  if (type.kind() != dtype_kind::structured) return text;
  std::string fields;
  for (const dtype_field& each : type.fields()) {
    fields += fmt::format("{}{}: {}", fields.empty() ? "" : ", ", each.name, type_text(each.type));
    if (!each.shape.empty()) fields += " " + to_string(each.shape);
  }
  return fmt::format("{} ({})", text, fields);
}

std::string item_text(dtype type, const std::byte* item) {
  const std::uint32_t bytes = type.item_bytes();
  switch (type.kind()) {
    case dtype_kind::boolean:
      return *item != std::byte{0} ? "True" : "False";
    case dtype_kind::signed_integer:
      return fmt::format("{}", signed_value(bytes, item));
    case dtype_kind::datetime:
    case dtype_kind::timedelta: {
      const std::int64_t count = signed_value(bytes, item);
      if (count == std::numeric_limits<std::int64_t>::min()) return "NaT";
      return type.kind() == dtype_kind::datetime ? date_text(type, count) : fmt::format("{}", count);
    }
    case dtype_kind::unsigned_integer:
      return fmt::format("{}", unsigned_value(bytes, item));
    case dtype_kind::floating:
    case dtype_kind::brain_float:
      return real_text(type.kind() == dtype_kind::brain_float, type.bits(), item);
    case dtype_kind::extended_float:
      return extended_text(item);
    case dtype_kind::complex: {
      if (!has_real_halves(type)) return hex_text(item, bytes);
      const bool brain = has_brain_halves(type);
      const std::string re = real_text(brain, type.bits() / 2, item);
      const std::string im = real_text(brain, type.bits() / 2, item + bytes / 2);
      return fmt::format("({}{}{}j)", re, im[0] == '-' ? "" : "+", im);
    }
    case dtype_kind::variable_utf8:
      return in_quotes(load<variable_item>(item).text());
    case dtype_kind::fixed_utf32:
      return in_quotes(utf32_text(item, bytes));
    case dtype_kind::variable_bytes: {
      const auto found = load<variable_item>(item);
      return hex_text(found.data, found.size);
    }
    case dtype_kind::variable_list:
      return list_text(type, load<variable_item>(item));
    case dtype_kind::structured: {
      std::string out = "(";
      for (const dtype_field& each : type.fields()) {
        const std::byte* at = item + each.offset;
        if (out.size() > 1) out += ", ";
        out += field_text(each.type, each.shape, 0, at);
      }
      return out + ")";
    }
    default:
      return hex_text(item, bytes);
  }
}

std::optional<std::string> plain_text(const dtype& type, const std::byte* item) {
  if (type.kind() == dtype_kind::variable_utf8) return std::string(load<variable_item>(item).text());
  if (type.kind() == dtype_kind::fixed_utf32) return utf32_text(item, type.item_bytes());
  return std::nullopt;
}

std::string csv_text(const dtype& type, const std::byte* item) {
  const std::optional<std::string> found = plain_text(type, item);
  const std::string text = found ? *found : item_text(type, item);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char each : text) out += each == '"' ? std::string("\"\"") : std::string(1, each);
  return out + "\"";
}

json item_json(dtype type, const std::byte* item) {
  const std::uint32_t bytes = type.item_bytes();
  switch (type.kind()) {
    case dtype_kind::boolean:
      return *item != std::byte{0};
    case dtype_kind::signed_integer:
      return signed_value(bytes, item);
    case dtype_kind::datetime:
    case dtype_kind::timedelta: {
      const std::int64_t count = signed_value(bytes, item);
      const bool is_number = type.kind() == dtype_kind::timedelta || type.unit() == time_unit::generic;
      if (is_number && count != std::numeric_limits<std::int64_t>::min()) return count;
      return item_text(type, item);
    }
    case dtype_kind::unsigned_integer:
      return unsigned_value(bytes, item);
    case dtype_kind::floating:
    case dtype_kind::brain_float:
      return real_json(real_text(type.kind() == dtype_kind::brain_float, type.bits(), item));
    case dtype_kind::extended_float:
      return real_json(extended_text(item));
    case dtype_kind::complex: {
      if (!has_real_halves(type)) return hex_text(item, bytes);
      const bool brain = has_brain_halves(type);
      return json::array_t{real_json(real_text(brain, type.bits() / 2, item)),
                           real_json(real_text(brain, type.bits() / 2, item + bytes / 2))};
    }
    case dtype_kind::variable_utf8:
    case dtype_kind::fixed_utf32:
      return *plain_text(type, item);
    case dtype_kind::variable_bytes:
      return item_text(type, item);
    case dtype_kind::variable_list:
      return list_json(type, load<variable_item>(item));
    case dtype_kind::structured: {
      json::object_t out;
      for (const dtype_field& each : type.fields()) {
        const std::byte* at = item + each.offset;
        out.emplace_back(each.name, nested(each.type, each.shape, 0, at));
      }
      return out;
    }
    default:
      return hex_text(item, bytes);
  }
}

std::string block_text(dtype type, const extents& shape, const std::byte* data) {
  if (no_elements(shape)) return fmt::format("[] of shape {}", to_string(shape));
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) count *= size;
  std::vector<std::string> items;
  for (std::uint64_t i = 0; i < count; ++i) items.push_back(item_text(type, data + i * type.item_bytes()));
  return block_writer(shape, items).write();
}

json block_json(dtype type, const extents& shape, const std::byte* data) {
  // A shape such as (10^9, 0) must not become that many empty lists.
  if (no_elements(shape)) return json::array_t{};
  return nested(type, shape, 0, data);
}

}  // namespace penstock::inline v0::cli
