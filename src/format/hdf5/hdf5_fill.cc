// Fill values as a .zarray writes them.

#include <fmt/format.h>
#include <penstock/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "array/small_float.h"
#include "base/base64.h"
#include "format/hdf5/hdf5_array.h"

namespace penstock::inline v0 {
namespace {

std::uint64_t load_bits(std::span<const std::byte> item, bool big_endian) noexcept {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < item.size(); ++i)
    out = out << 8 | static_cast<std::uint64_t>(item[big_endian ? i : item.size() - 1 - i]);
  return out;
}

json float_json(std::uint64_t bits, std::size_t bytes, float_format format) {
  const auto width = static_cast<unsigned>(8 * bytes);
  double value = 0;
  if (bytes == 8) {
    std::memcpy(&value, &bits, sizeof(value));
  } else if (bytes == 4) {
    const auto narrow = static_cast<std::uint32_t>(bits);
    float single = 0;
    std::memcpy(&single, &narrow, sizeof(single));
    value = static_cast<double>(single);
  } else {
    value = double_from_bits(bits, format, width);
  }
  if (std::isinf(value)) return json(value > 0 ? "Infinity" : "-Infinity");
  if (!std::isnan(value)) return json(value);
  const std::uint64_t usual = bytes == 8 ? 0x7ff8000000000000 : bytes == 4 ? 0x7fc00000 : usual_nan(format, width);
  return bits == usual ? json("NaN") : json(fmt::format("0x{:0{}x}", bits, 2 * bytes));
}

json number_json(std::span<const std::byte> item, std::string_view type) {
  const bool big_endian = type[0] == '>';
  const std::uint64_t bits = load_bits(item, big_endian);
  switch (type[1]) {
    case 'b':
      return json(bits != 0);
    case 'u':
      return json(bits);
    case 'f':
      return float_json(bits, item.size(), float_format::ieee);
    case 'c': {
      const std::size_t half = item.size() / 2;
      return json(json::array_t{float_json(load_bits(item.first(half), big_endian), half, float_format::ieee),
                                float_json(load_bits(item.last(half), big_endian), half, float_format::ieee)});
    }
    default: {  // i, m, M
      const auto unused = static_cast<unsigned>(64 - 8 * item.size());
      return json(static_cast<std::int64_t>(bits << unused) >> unused);
    }
  }
}

json item_json(std::span<const std::byte> item, const json& type) {
  const std::string* const name = type.as_string();
  if (name == nullptr || (*name)[1] == 'S' || (*name)[1] == 'V' || *name == "<f16") return json(base64_encode(item));
  if (*name == "bfloat16") return float_json(load_bits(item, false), item.size(), float_format::bfloat16);
  return number_json(item, *name);
}

/// Applies the codec `hdf5.bits` to an item.
void take_bits(std::span<std::byte> item, const json& codec) {
  std::uint64_t precision = 0, offset = 0;
  const json* const found[] = {codec.find("precision"), codec.find("offset"), codec.find("signed"),
                               codec.find("endian")};
  if (found[0] == nullptr || !found[0]->get(precision) || precision == 0 || precision > 64) return;
  if (found[1] != nullptr) found[1]->get(offset);
  const bool is_signed = found[2] != nullptr && found[2]->as_bool() != nullptr && *found[2]->as_bool();
  const bool big_endian = found[3] != nullptr && found[3]->as_string() != nullptr && *found[3]->as_string() == "big";
  std::uint64_t value = load_bits(item, big_endian);
  value = (offset < 64 ? value >> offset : 0) & (~std::uint64_t{0} >> (64 - precision));
  if (is_signed && precision < 64 && (value >> (precision - 1) & 1) != 0) value |= ~std::uint64_t{0} << precision;
  for (std::size_t i = 0; i < item.size(); ++i)
    item[big_endian ? item.size() - 1 - i : i] = static_cast<std::byte>(value >> (8 * i));
}

/// The result of the codec `hdf5.number` for an item.
std::vector<std::byte> number_of(std::span<const std::byte> item, const hdf5_type& type, std::size_t bytes) {
  const hdf5_type* inner = &type;
  while (!inner->base.empty()) inner = &inner->base[0];  // of arrays and enumerations
  const hdf5_number_form form = hdf5_form_of(*inner);
  std::vector<std::byte> out(bytes);
  if (bytes > sizeof(double)) {
    form.extended(item, out.data());
    return out;
  }
  std::uint64_t bits = form.floating ? 0 : form.integer(item);
  const double value = form.floating ? form.real(item) : 0;
  const auto single = static_cast<float>(value);
  if (form.floating) std::memcpy(&bits, bytes == sizeof value ? static_cast<const void*>(&value) : &single, bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(bits >> (8 * i));
  return out;
}

/// Applies the codec `hdf5.string` to an item.
void clear_behind_texts(std::span<std::byte> item, const std::vector<hdf5_element::text>& texts) {
  for (const hdf5_element::text& each : texts) {
    for (std::uint64_t i = 0; i < each.count; ++i) {
      const std::uint64_t begin = each.offset + i * each.bytes;
      if (begin > item.size() || each.bytes > item.size() - begin) return;
      const auto text = item.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(each.bytes));
      std::size_t end = text.size();
      if (each.spaces) {
        while (end != 0 && text[end - 1] == std::byte{' '}) --end;
      } else {
        end = static_cast<std::size_t>(std::find(text.begin(), text.end(), std::byte{0}) - text.begin());
      }
      std::fill(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), std::byte{0});
    }
  }
}

}  // namespace

result<json> hdf5_fill_json(const hdf5_fill& fill, const hdf5_type& type, const hdf5_element& element) {
  if (fill.what == hdf5_fill::kind::undefined || element.item_bytes == 0) return json();
  const std::size_t item = element.stored_bytes;
  if (fill.what == hdf5_fill::kind::zeros) return item_json(std::vector<std::byte>(element.item_bytes), element.dtype);
  if (fill.bytes.size() != type.bytes)
    return hdf5_damaged(fmt::format("a fill value of {} bytes for elements of {}", fill.bytes.size(), type.bytes));
  if (fill.bytes.size() % item != 0)
    return hdf5_damaged(fmt::format("a fill value of {} bytes for items of {}", fill.bytes.size(), item));
  if (fill.bytes.empty()) return json();
  std::vector<std::byte> items = fill.bytes;
  const std::span<std::byte> all(items);
  const json* const codec = element.bits.find("id");
  const bool is_converted = codec != nullptr && *codec == json("hdf5.number");
  for (std::size_t at = 0; at < items.size(); at += item) {
    const auto each = all.subspan(at, item);
    if (!element.bits.is_null() && !is_converted) take_bits(each, element.bits);
    clear_behind_texts(each, element.texts);
    if (!std::equal(each.begin(), each.end(), all.begin()))
      return error(errc::unsupported, "a fill value of an array whose elements differ is not readable");
  }
  if (is_converted) return item_json(number_of(all.first(item), type, element.item_bytes), element.dtype);
  return item_json(all.first(item), element.dtype);
}

}  // namespace penstock::inline v0
