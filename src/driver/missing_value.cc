#include "driver/missing_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "base/base64.h"
#include "format/zarr/zarr_fill_value.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

constexpr const char* kMissing = "_FillValue";

using item = std::vector<std::byte>;

bool is_float(const dtype& type) { return type.kind() == dtype_kind::floating; }

bool is_number(const dtype& type) {
  switch (type.kind()) {
    case dtype_kind::boolean:
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
    case dtype_kind::floating:
      return true;
    default:
      return false;
  }
}

json written_double(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

/// The item that a number in the attributes represents; nothing if the type has no such value.
std::optional<item> item_of(const json& number, const dtype& type) {
  const json* given = &number;
  if (const json::array_t* list = number.as_array(); list != nullptr && list->size() == 1) given = &list->front();
  if (given->as_string() != nullptr) return std::nullopt;
  json value = *given;
  double real = 0;
  std::int64_t whole = 0;
  std::uint64_t large = 0;
  if (!value.get(whole) && !value.get(large) && value.get(real)) {
    constexpr double kExact = 9007199254740992;  // 2^53
    if (is_float(type)) {
      value = written_double(real);
    } else if (std::abs(real) <= kExact && std::trunc(real) == real) {
      value = static_cast<std::int64_t>(real);
    }
  }
  if (type.kind() == dtype_kind::boolean && value.get(whole)) value = whole != 0;
  auto parsed = parse_fill_value(value, type);
  if (!parsed.ok()) return std::nullopt;
  return std::move(parsed->item);
}

double double_of(const item& of, const dtype& type) {
  double out = std::numeric_limits<double>::quiet_NaN();
  auto written = write_fill_value(of, type);
  if (!written.ok() || written->get(out)) return out;
  const std::string* const text = written->as_string();
  if (text != nullptr && *text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text != nullptr && *text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return out;
}

/// For formats in which the fill value is the missing value.
bool masks_by_fill(const array_state& of) {
  return of.fill_is_nodata || (of.format == "zarr2" && of.fill_value_json != "null");
}

/// xarray's form of a float among the attributes of version 3.
std::optional<item> item_of_base64(const json& text, const dtype& type) {
  const std::string* const encoded = text.as_string();
  const auto bytes = encoded != nullptr ? base64_decode(*encoded) : std::nullopt;
  if (!bytes || bytes->size() != sizeof(std::uint64_t)) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i) bits |= std::to_integer<std::uint64_t>((*bytes)[i]) << (8 * i);
  auto parsed = parse_fill_value(written_double(std::bit_cast<double>(bits)), type);
  if (!parsed.ok()) return std::nullopt;
  return std::move(parsed->item);
}

/// An item as a number of JSON; NaN and infinities are numbers, too, as in attributes of Zarr 2.
result<json> number_of(const item& of, const dtype& type) {
  if (is_float(type)) return json(double_of(of, type));
  return write_fill_value(of, type);
}

json base64_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::vector<std::byte> bytes(sizeof bits);
  for (std::size_t i = 0; i < sizeof bits; ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
  return base64_encode(bytes);
}

bool is_same(const item& a, const item& b, const dtype& type) {
  return a == b || (is_float(type) && std::isnan(double_of(a, type)) && std::isnan(double_of(b, type)));
}

json* member(json::object_t& of, const char* name) {
  const auto found = std::find_if(of.begin(), of.end(), [&](const auto& each) { return each.first == name; });
  return found == of.end() ? nullptr : &found->second;
}

void remove(json::object_t& from, const char* name) {
  std::erase_if(from, [&](const auto& each) { return each.first == name; });
}

void set(json::object_t& in, const char* name, json value) {
  if (json* const there = member(in, name)) {
    *there = std::move(value);
  } else {
    in.emplace_back(name, std::move(value));
  }
}

result<> to_version_3(const array_state& from, json::object_t& attributes) {
  json* const attribute = member(attributes, kMissing);
  const std::string* const text = attribute != nullptr ? attribute->as_string() : nullptr;
  if (from.type.kind() == dtype_kind::fixed_bytes && from.format != "zarr2" && text != nullptr) {
    set(attributes, kMissing, base64_encode(std::as_bytes(std::span(*text))));
    return {};
  }
  if (!is_number(from.type)) return {};
  std::optional<item> missing;
  if (masks_by_fill(from)) {
    missing = from.fill_value;
  } else if (attribute != nullptr) {
    missing = item_of(*attribute, from.type);
  }
  if (!missing) {
    // A value that the type cannot hold masks nothing, and xarray does not open text that is not base64.
    if (attribute != nullptr && is_float(from.type)) remove(attributes, kMissing);
    return {};
  }
  if (is_float(from.type)) {
    set(attributes, kMissing, base64_of(double_of(*missing, from.type)));
    return {};
  }
  PENSTOCK_ASSIGN(json written, write_fill_value(*missing, from.type));
  set(attributes, kMissing, std::move(written));
  return {};
}

result<> to_version_2(const array_state& from, json::object_t& attributes, create_options& out) {
  const auto without_fill = [&] {
    out.fill_is_undefined = true;
    out.fill_value.clear();
    out.fill_value_json.clear();
  };
  if (masks_by_fill(from)) return {};
  json* const attribute = member(attributes, kMissing);
  if (attribute == nullptr) {
    without_fill();
    return {};
  }
  if (!is_number(from.type)) return {};
  const bool encoded = from.format == "zarr3" && is_float(from.type);
  const std::optional<item> missing = encoded ? item_of_base64(*attribute, from.type) : item_of(*attribute, from.type);
  if (!missing) {
    without_fill();
    return {};
  }
  remove(attributes, kMissing);
  if (!is_same(*missing, from.fill_value, from.type)) out.fill_value = *missing;
  return {};
}

}  // namespace

bool has_dimensions(const array_state& of) {
  if (of.shape.empty() && of.format == "zarr2") {
    const auto attributes = json::parse(of.attributes_json);
    return attributes.ok() && attributes->find(kArrayDimensions) != nullptr;
  }
  return of.dimension_names.size() == of.shape.size() &&
         std::all_of(of.dimension_names.begin(), of.dimension_names.end(), [](const auto& each) { return each; });
}

result<> keep_meaning(const array_state& from, create_options& out) {
  if (!has_dimensions(from)) return {};
  PENSTOCK_ASSIGN(const json parsed, json::parse(from.attributes_json.empty() ? "{}" : from.attributes_json));
  if (parsed.as_object() == nullptr) return {};
  json::object_t attributes = *parsed.as_object();
  remove(attributes, kArrayDimensions);
  out.dimension_names = from.dimension_names;
  if (out.zarr_format == 2) {
    if (from.shape.empty()) set(attributes, kArrayDimensions, json::array_t());
    PENSTOCK_TRY(to_version_2(from, attributes, out));
  } else {
    PENSTOCK_TRY(to_version_3(from, attributes));
  }
  out.attributes_json = json(std::move(attributes)).dump();
  return {};
}

result<json> attributes_in_netcdf(const array_state& from) {
  PENSTOCK_ASSIGN(json parsed, json::parse(from.attributes_json.empty() ? "{}" : from.attributes_json));
  if (!has_dimensions(from) || parsed.as_object() == nullptr) return parsed;
  json::object_t out = *parsed.as_object();
  remove(out, kArrayDimensions);
  if (!is_number(from.type) || from.type.kind() == dtype_kind::boolean) return json(std::move(out));
  const json* const attribute = member(out, kMissing);
  std::optional<item> missing;
  if (masks_by_fill(from)) {
    missing = from.fill_value;
  } else if (attribute != nullptr && from.format == "zarr3" && is_float(from.type)) {
    missing = item_of_base64(*attribute, from.type);
  }
  if (missing) {
    PENSTOCK_ASSIGN(json written, number_of(*missing, from.type));
    set(out, kMissing, std::move(written));
  }
  return json(std::move(out));
}

json with_fill_as_attribute(const zarr_metadata& of, json attributes) {
  if (of.zarr_format != 2 || of.fill_json.is_null() || !is_number(of.type) || attributes.as_object() == nullptr ||
      attributes.find(kArrayDimensions) == nullptr) {
    return attributes;
  }
  auto written = number_of(of.fill_value, of.type);
  if (!written.ok()) return attributes;
  json::object_t out = *attributes.as_object();
  set(out, kMissing, std::move(*written));
  return json(std::move(out));
}

json fill_value_of_references(const zarr_metadata& of, const json& attributes, bool has_gaps) {
  const json* const attribute = attributes.find(kMissing);
  const auto missing = attribute != nullptr && is_number(of.type) ? item_of(*attribute, of.type) : std::nullopt;
  if (missing && is_same(*missing, of.fill_value, of.type)) return of.fill_json;
  // If it is undefined, chunks without a reference are zeros.
  const bool is_zero =
      std::all_of(of.fill_value.begin(), of.fill_value.end(), [](std::byte each) { return each == std::byte{0}; });
  return has_gaps && !is_zero ? of.fill_json : json();
}

}  // namespace penstock::inline v0
