#include "format/zarr/zarr_data_type.h"
#include "array/list_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "array/packed_fields.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "format/zarr/metadata_reader.h"

namespace penstock::inline v0 {
namespace {

/// An item of 256 MiB is larger than any writer's.
constexpr std::uint64_t kMaxItemBytes = std::uint64_t{1} << 28;

error not_readable(const json& value) {
  return {errc::unsupported, fmt::format("zarr.json: data type {} is not readable", brief(value))};
}

std::string setting(std::string_view path, std::string_view name) {
  return fmt::format("{}.configuration.{}", path, name);
}

/// The setting `name`, from `least` to `most`.
result<std::uint64_t> read_count(const json& configuration, std::string_view path, std::string_view name,
                                 std::uint64_t least, std::uint64_t most) {
  PENSTOCK_ASSIGN(const json* value, required_member(configuration, fmt::format("{}.configuration", path), name));
  std::uint64_t count = 0;
  if (!value->get(count) || count < least || count > most) {
    return error(errc::corrupt_data, fmt::format("zarr.json: member '{}' is {}, needs an integer from {} to {}",
                                                 setting(path, name), brief(*value), least, most));
  }
  return count;
}

result<std::uint32_t> read_length_bytes(const json& configuration, std::string_view path) {
  PENSTOCK_TRY(only_members(configuration, path, {"length_bytes"}));
  PENSTOCK_ASSIGN(const std::uint64_t bytes, read_count(configuration, path, "length_bytes", 0, kMaxItemBytes));
  return static_cast<std::uint32_t>(bytes);
}

result<dtype> read_time(const json& configuration, std::string_view path, bool since_1970) {
  PENSTOCK_TRY(only_members(configuration, path, {"unit", "scale_factor"}));
  PENSTOCK_ASSIGN(const json* unit, required_member(configuration, fmt::format("{}.configuration", path), "unit"));
  const std::string* text = unit->as_string();
  if (text == nullptr) return wrong_member(*unit, setting(path, "unit"), "a string");
  PENSTOCK_ASSIGN(const time_unit parsed, time_unit_from(*text == "\u03bcs" || *text == "\u00b5s" ? "us" : *text));
  PENSTOCK_ASSIGN(const std::uint64_t scale,
                  read_count(configuration, path, "scale_factor", 1, std::numeric_limits<std::int32_t>::max()));
  const auto factor = static_cast<std::uint32_t>(scale);
  return since_1970 ? dtype::datetime(parsed, factor) : dtype::timedelta(parsed, factor);
}

// Recursion ends: the JSON parser bounds how deep a document nests.
result<dtype> read_structure(const json& configuration, std::string_view path) {
  PENSTOCK_TRY(only_members(configuration, path, {"fields"}));
  PENSTOCK_ASSIGN(const json* fields, required_member(configuration, fmt::format("{}.configuration", path), "fields"));
  const json::array_t* list = fields->as_array();
  if (list == nullptr) return wrong_member(*fields, setting(path, "fields"), "a list");
  std::vector<dtype_field> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& item = (*list)[i];
    const std::string here = fmt::format("{}[{}]", setting(path, "fields"), i);
    const json* name = nullptr;
    const json* type = nullptr;
    if (const json::array_t* pair = item.as_array(); pair != nullptr && pair->size() == 2) {
      name = &(*pair)[0];  // `structured`, as zarr-python wrote it before `struct` was registered
      type = &(*pair)[1];
    } else {
      if (item.as_object() == nullptr) return wrong_member(item, here, "an object");
      PENSTOCK_TRY(only_members(item, here, {"name", "data_type"}));
      PENSTOCK_ASSIGN(name, required_member(item, here, "name"));
      PENSTOCK_ASSIGN(type, required_member(item, here, "data_type"));
    }
    if (name->as_string() == nullptr) return wrong_member(*name, here + ".name", "a string");
    dtype_field field;
    field.name = *name->as_string();
    PENSTOCK_ASSIGN(field.type, parse_data_type(*type, here + ".data_type"));
    out.push_back(std::move(field));
  }
  result<dtype> made = dtype::structured(std::move(out));
  if (made.ok()) return made;
  // An invalid argument here means that the document is invalid.
  const errc code = made.error().code() == errc::invalid_argument ? errc::corrupt_data : made.error().code();
  return error(code, fmt::format("zarr.json: member '{}': {}", path, made.error().message()));
}

/// Appends the byte order of each leaf of `type` to `leaves`.
result<zarr_v2_type> read_v2_fields(const json::array_t& list, std::string_view path, json::array_t& leaves);

result<zarr_v2_type> read_v2_type(const json& value, std::string_view path, json::array_t& leaves) {
  if (const json::array_t* list = value.as_array()) return read_v2_fields(*list, path, leaves);
  const std::string* text = value.as_string();
  if (text == nullptr) return wrong_member(value, path, "a type string or a list of fields");
  zarr_v2_type out;
  if (result<numpy_type> parsed = dtype::from_numpy(*text); parsed.ok()) {
    out.type = parsed->type;
    out.endian = out.type.has_byte_order() ? json(parsed->big_endian ? "big" : "little") : json();
  } else {
    result<dtype> named = dtype::from_name(*text);
    if (!named.ok()) {
      return error(parsed.error().code(), fmt::format("zarr.json: data type {} is not readable", brief(value)));
    }
    out.type = *named;
    out.endian = out.type.has_byte_order() ? json("little") : json();
  }
  leaves.push_back(out.endian);
  return out;
}

result<zarr_v2_type> read_v2_fields(const json::array_t& list, std::string_view path, json::array_t& leaves) {
  std::vector<dtype_field> fields;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    const json::array_t* parts = list[i].as_array();
    if (parts == nullptr || parts->size() < 2 || parts->size() > 3) {
      return wrong_member(list[i], here, "a list of name, type and perhaps a shape");
    }
    const std::string* name = (*parts)[0].as_string();
    if (name == nullptr) return wrong_member((*parts)[0], here + "[0]", "a string");
    dtype_field field;
    field.name = *name;
    PENSTOCK_ASSIGN(zarr_v2_type inner, read_v2_type((*parts)[1], here + "[1]", leaves));
    field.type = std::move(inner.type);
    if (parts->size() == 3) {
      std::uint64_t length = 0;
      if ((*parts)[2].get(length)) {
        field.shape.push_back(length);
      } else {
        PENSTOCK_ASSIGN(field.shape, read_extents((*parts)[2], here + "[2]", 0));
      }
    }
    std::uint64_t bytes = field.type.item_bytes();
    for (const std::uint64_t length : field.shape) {
      if (!checked_mul(bytes, length, bytes)) bytes = kMaxItemBytes;
    }
    field.offset = static_cast<std::uint32_t>(std::min(at, kMaxItemBytes));
    at = std::min(at + std::min(bytes, kMaxItemBytes), kMaxItemBytes + 1);
    // NumPy's descr writes bytes between fields as a field without a name.
    const bool gap = field.name.empty() && field.type.kind() == dtype_kind::raw;
    if (gap) {
      leaves.pop_back();
    } else {
      fields.push_back(std::move(field));
    }
  }
  if (at > kMaxItemBytes) {
    return error(errc::unsupported,
                 fmt::format("zarr.json: member '{}': an item beyond {} bytes", path, kMaxItemBytes));
  }
  result<dtype> made = dtype::structured(std::move(fields), static_cast<std::uint32_t>(at));
  if (!made.ok()) {
    const errc code = made.error().code() == errc::invalid_argument ? errc::corrupt_data : made.error().code();
    return error(code, fmt::format("zarr.json: member '{}': {}", path, made.error().message()));
  }
  return zarr_v2_type{std::move(*made), {}};
}

result<json> write_v2_type(const dtype& type, const json& endian, std::size_t& leaf) {
  const auto order = [&]() -> bool {
    const json::array_t* list = endian.as_array();
    const json& mine = list != nullptr && leaf < list->size() ? (*list)[leaf] : endian;
    ++leaf;
    const std::string* text = mine.as_string();
    return text != nullptr && *text == "big";
  };
  if (type.kind() == dtype_kind::variable_utf8 || type.kind() == dtype_kind::variable_bytes ||
      type.kind() == dtype_kind::object || type.kind() == dtype_kind::variable_list) {
    return json("|O");
  }
  if (type.kind() != dtype_kind::structured) {
    std::string text = type.numpy_typestr(order());
    return json(text.empty() ? type.name() : std::move(text));
  }
  if (has_gaps(type)) return error(errc::unsupported, "a structure with gaps between its fields cannot be stored");
  json::array_t fields;
  for (const dtype_field& field : type.fields()) {
    PENSTOCK_ASSIGN(json inner, write_v2_type(field.type, endian, leaf));
    json::array_t parts{json(field.name), std::move(inner)};
    if (!field.shape.empty()) parts.emplace_back(json::array_t(field.shape.begin(), field.shape.end()));
    fields.emplace_back(std::move(parts));
  }
  return json(std::move(fields));
}

json with_settings(std::string name, json::object_t settings) {
  return json::object_t{{"name", json(std::move(name))}, {"configuration", json(std::move(settings))}};
}

}  // namespace

result<dtype> parse_data_type(const json& value, std::string_view path) {
  PENSTOCK_ASSIGN(const codec_config named, read_named(value, path));
  const json& settings = named.configuration;
  if (named.name == "numpy.datetime64") return read_time(settings, path, true);
  if (named.name == "numpy.timedelta64") return read_time(settings, path, false);
  if (named.name == "struct" || named.name == "structured") return read_structure(settings, path);
  if (named.name == "fixed_length_utf32") {
    PENSTOCK_ASSIGN(const std::uint32_t bytes, read_length_bytes(settings, path));
    if (bytes % 4 != 0) {
      return error(errc::corrupt_data, fmt::format("zarr.json: member '{}' is {}, needs a multiple of 4",
                                                   setting(path, "length_bytes"), bytes));
    }
    return dtype::fixed_utf32(bytes / 4);
  }
  if (named.name == "null_terminated_bytes" || named.name == "fixed_length_bytes") {
    PENSTOCK_ASSIGN(const std::uint32_t bytes, read_length_bytes(settings, path));
    return dtype::fixed_bytes(bytes);
  }
  if (named.name == "fixed_length_ascii") {
    PENSTOCK_TRY(only_members(settings, path, {"length_bits"}));
    PENSTOCK_ASSIGN(const std::uint64_t bits, read_count(settings, path, "length_bits", 0, kMaxItemBytes));
    if (bits % 8 != 0) return not_readable(value);
    return dtype::fixed_bytes(static_cast<std::uint32_t>(bits / 8));
  }
  if (named.name == "raw_bytes") {
    PENSTOCK_ASSIGN(const std::uint32_t bytes, read_length_bytes(settings, path));
    return dtype::raw(bytes);
  }
  // All other names are one type each. A known name with settings is a different, unknown type.
  const json::object_t* members = settings.as_object();
  if (members != nullptr && !members->empty()) return not_readable(value);
  result<dtype> type = dtype::from_name(named.name);
  if (!type.ok() || type->bits() > kMaxItemBytes * 8) return not_readable(json(named.name));
  return type;
}

bool has_long_doubles(const dtype& type) noexcept {
  const auto fields = type.fields();
  return type.kind() == dtype_kind::extended_float ||
         std::any_of(fields.begin(), fields.end(), [](const dtype_field& each) { return has_long_doubles(each.type); });
}

result<json> write_data_type(const dtype& type) {
  const auto bytes = [&] { return json::object_t{{"length_bytes", std::uint64_t{type.item_bytes()}}}; };
  switch (type.kind()) {
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      return with_settings(
          type.kind() == dtype_kind::datetime ? "numpy.datetime64" : "numpy.timedelta64",
          {{"unit", json(std::string(to_string(type.unit())))}, {"scale_factor", std::uint64_t{type.scale()}}});
    case dtype_kind::fixed_utf32:
      return with_settings("fixed_length_utf32", bytes());
    case dtype_kind::fixed_bytes:
      return with_settings("null_terminated_bytes", bytes());
    case dtype_kind::raw:
      return with_settings("raw_bytes", bytes());
    case dtype_kind::variable_utf8:
      return json("string");
    case dtype_kind::variable_bytes:
      return json("variable_length_bytes");
    case dtype_kind::extended_float:
      return error(errc::unsupported, "long doubles have no data type in Zarr v3: convert them to float64");
    case dtype_kind::object:
      return error(errc::unsupported, "elements that are Python objects have no form in Zarr v3");
    case dtype_kind::variable_list:
      if (is_nested_list(type))
        return error(errc::unsupported,
                     fmt::format("{} is not written: lists in Zarr have single items of a fixed size", type.name()));
      return error(errc::unsupported,
                   "lists of variable length have no data type in Zarr v3: write them with zarr_format 2");
    case dtype_kind::structured:
      break;
    default:
      return json(type.name());
  }
  if (has_gaps(type)) return error(errc::unsupported, "a structure with gaps between its fields cannot be stored");
  json::array_t fields;
  for (const dtype_field& field : type.fields()) {
    if (!field.shape.empty()) {
      return error(errc::unsupported,
                   fmt::format("field '{:.80}' is an array, which has no form in Zarr v3", field.name));
    }
    PENSTOCK_ASSIGN(json inner, write_data_type(field.type));
    fields.emplace_back(json::object_t{{"name", json(field.name)}, {"data_type", std::move(inner)}});
  }
  return with_settings("struct", {{"fields", json(std::move(fields))}});
}

result<zarr_v2_type> parse_v2_dtype(const json& value, std::string_view path) {
  json::array_t leaves;
  PENSTOCK_ASSIGN(zarr_v2_type out, read_v2_type(value, path, leaves));
  if (out.type.kind() != dtype_kind::structured) return out;
  if (!out.type.has_byte_order()) return out;
  // Leaves without a byte order belong to the preceding ones.
  json first;
  bool equal = true;
  for (const json& leaf : leaves) {
    if (first.is_null()) first = leaf;
    equal = equal && (leaf.is_null() || leaf == first);
  }
  for (json& leaf : leaves) leaf = leaf.is_null() ? first : leaf;
  out.endian = equal ? first : json(std::move(leaves));
  return out;
}

result<json> write_v2_dtype(const dtype& type, const json& endian) {
  std::size_t leaf = 0;
  return write_v2_type(type, endian, leaf);
}

}  // namespace penstock::inline v0
