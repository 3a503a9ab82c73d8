#include "format/zarr/zarr_v2.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "format/zarr/metadata_reader.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_fill_value.h"

namespace penstock::inline v0 {
namespace {

/// As many as a list of codecs of version 3 may have.
constexpr std::size_t kMaxFilters = 60;

result<> check_format_2(const json& document) {
  PENSTOCK_ASSIGN(const json* format, required_member(document, "", "zarr_format"));
  std::int64_t number = 0;
  if (!format->get(number) || number != 2) {
    return error(errc::corrupt_data, fmt::format("zarr.json: member 'zarr_format' is {}, needs 2", brief(*format)));
  }
  return {};
}

result<> read_attributes(const json* zattrs, zarr_metadata& out) {
  if (zattrs == nullptr) return {};
  if (zattrs->as_object() == nullptr) {
    return error(errc::corrupt_data, fmt::format(".zattrs is a JSON {}, needs an object", zattrs->kind_name()));
  }
  out.attributes = *zattrs;
  return {};
}

std::vector<std::optional<std::string>> names_in_attributes(const zarr_metadata& of) {
  const json* const names = of.attributes.find(kArrayDimensions);
  const json::array_t* const list = names != nullptr ? names->as_array() : nullptr;
  std::vector<std::optional<std::string>> out;
  if (list == nullptr || list->size() != of.shape.size()) return out;
  for (const json& each : *list) {
    if (each.as_string() == nullptr) return {};
    out.emplace_back(*each.as_string());
  }
  return out;
}

const std::string* id_of(const json& codec) {
  const json* id = codec.find("id");
  return id == nullptr ? nullptr : id->as_string();
}

result<> add_codec(const json& value, const std::string& path, std::vector<codec_config>& chain) {
  if (id_of(value) == nullptr) return wrong_member(value, path, "an object with a string 'id'");
  PENSTOCK_ASSIGN(codec_config codec, codec_of_v2(value));
  chain.push_back(std::move(codec));
  return {};
}

result<> read_codecs(const json& document, zarr_metadata& out) {
  std::vector<codec_config>& chain = out.codecs.chain;
  const json* order = document.find("order");
  if (order != nullptr) {
    const std::string* text = order->as_string();
    if (text == nullptr || (*text != "C" && *text != "F")) {
      return error(errc::corrupt_data,
                   fmt::format("zarr.json: member 'order' is {}, needs \"C\" or \"F\"", brief(*order)));
    }
    out.f_order = *text == "F";
  }
  const std::size_t rank = out.shape.size();
  if (out.f_order && rank > 1) {
    json::array_t axes;
    for (std::size_t d = rank; d-- > 0;) axes.emplace_back(static_cast<std::uint64_t>(d));
    chain.push_back({"transpose", json::object_t{{"order", std::move(axes)}}});
  }
  if (!out.type.variable_length()) {
    chain.push_back({"bytes", out.endian.is_null() ? json() : json::object_t{{"endian", out.endian}}});
  }
  json::array_t listed;
  if (!out.filters.is_null()) {
    const json::array_t* list = out.filters.as_array();
    if (list == nullptr) return wrong_member(out.filters, "filters", "a list of codecs or null");
    if (list->size() > kMaxFilters) {
      return error(errc::unsupported, fmt::format("zarr.json: member 'filters' has {} codecs, at most {} are supported",
                                                  list->size(), kMaxFilters));
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      PENSTOCK_TRY(add_codec((*list)[i], fmt::format("filters[{}]", i), chain));
      listed.push_back((*list)[i]);
    }
  }
  if (!out.compressor.is_null()) {
    PENSTOCK_TRY(add_codec(out.compressor, "compressor", chain));
    listed.push_back(out.compressor);
  }
  out.codecs_json = std::move(listed);
  return {};
}

/// `|O` does not describe the items; the codec that turns them into bytes does.
result<> read_object_type(zarr_metadata& out) {
  if (out.type.kind() != dtype_kind::object) return {};
  const json::array_t* filters = out.filters.as_array();
  if (filters == nullptr || filters->empty() || id_of(filters->front()) == nullptr)
    return error(errc::unsupported, "zarr.json: data type \"|O\" has no object codec in 'filters', it is not readable");
  out.type = type_of_objects(filters->front());
  return {};
}

result<zarr_metadata> read_array(const json& document) {
  if (document.as_object() == nullptr) {
    return error(errc::corrupt_data, fmt::format(".zarray is a JSON {}, needs an object", document.kind_name()));
  }
  zarr_metadata out;
  out.zarr_format = 2;
  out.kind = zarr_node_kind::array;
  PENSTOCK_TRY(check_format_2(document));
  PENSTOCK_ASSIGN(const json* shape, required_member(document, "", "shape"));
  PENSTOCK_ASSIGN(out.shape, read_extents(*shape, "shape", 0));
  PENSTOCK_ASSIGN(const json* type, required_member(document, "", "dtype"));
  PENSTOCK_ASSIGN(zarr_v2_type stored, parse_v2_dtype(*type));
  out.type = std::move(stored.type);
  out.endian = std::move(stored.endian);
  if (const json* filters = document.find("filters")) out.filters = *filters;
  if (const json* compressor = document.find("compressor")) out.compressor = *compressor;
  PENSTOCK_TRY(read_object_type(out));
  PENSTOCK_TRY(check_array_size(out.shape, out.type));

  PENSTOCK_ASSIGN(const json* chunks, required_member(document, "", "chunks"));
  PENSTOCK_ASSIGN(out.grid.chunk, read_extents(*chunks, "chunks", 0));
  if (out.grid.chunk.size() != out.shape.size()) {
    return error(errc::corrupt_data, fmt::format("zarr.json: chunks has {}, shape has {}",
                                                 counted(out.grid.chunk.size(), "dimension"), out.shape.size()));
  }
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    // Writers use chunks of length 0 for an empty dimension.
    if (out.grid.chunk[d] == 0 && out.shape[d] == 0) out.grid.chunk[d] = 1;
    if (out.grid.chunk[d] == 0) {
      return error(errc::corrupt_data, fmt::format("zarr.json: member 'chunks[{}]' is 0, needs at least 1", d));
    }
  }

  out.keys.v2 = true;
  out.keys.separator = '.';
  if (const json* separator = document.find("dimension_separator"); separator != nullptr && !separator->is_null()) {
    const std::string* text = separator->as_string();
    if (text == nullptr || (*text != "." && *text != "/")) {
      return error(
          errc::corrupt_data,
          fmt::format("zarr.json: member 'dimension_separator' is {}, needs \".\" or \"/\"", brief(*separator)));
    }
    out.keys.separator = text->front();
  }
  PENSTOCK_TRY(read_codecs(document, out));

  if (const json* fill = document.find("fill_value")) out.fill_json = *fill;
  PENSTOCK_ASSIGN(zarr_fill fill, parse_v2_fill_value(out.fill_json, out.type, out.endian));
  out.fill_value = std::move(fill.item);
  out.fill_text = std::move(fill.text);
  return out;
}

result<zarr_metadata> read_group(const json& document) {
  if (document.as_object() == nullptr) {
    return error(errc::corrupt_data, fmt::format(".zgroup is a JSON {}, needs an object", document.kind_name()));
  }
  PENSTOCK_TRY(check_format_2(document));
  zarr_metadata out;
  out.zarr_format = 2;
  return out;
}

// The type of the elements of arrays, and their shape: `["<i4", [2]]`. Null: another type. Lists of fields are lists
// whose second member begins with a name.
const json* array_elements(const json& stored, extents& shape) {
  const json::array_t* const parts = stored.as_array();
  const json::array_t* const lengths = parts != nullptr && parts->size() == 2 ? (*parts)[1].as_array() : nullptr;
  if (lengths == nullptr || lengths->empty() || lengths->size() >= kMaxRank) return nullptr;
  for (const json& each : *lengths) {
    std::uint64_t length = 0;
    if (!each.get(length)) return nullptr;
    shape.push_back(length);
  }
  return &parts->front();
}

}  // namespace

dtype type_of_objects(const json& codec) {
  const std::string* const id = id_of(codec);
  if (id != nullptr && *id == "vlen-utf8") return dtype::variable_utf8();
  if (id != nullptr && *id == "vlen-bytes") return dtype::variable_bytes();
  const json* const named = codec.find("dtype");
  if (id == nullptr || *id != "vlen-array" || named == nullptr) return dtype::object();
  dtype item = dtype::object();
  extents shape;
  if (named->as_object() != nullptr) {
    item = type_of_objects(*named);  // as deep as the JSON is
  } else {
    const json* const elements = array_elements(*named, shape);
    if (elements == nullptr) shape.clear();
    auto parsed = parse_v2_dtype(elements == nullptr ? *named : *elements);
    if (!parsed.ok()) return dtype::object();
    item = std::move(parsed->type);
  }
  auto made = dtype::variable_list(std::move(item), shape);
  return made.ok() ? std::move(*made) : dtype::object();
}

result<zarr_metadata> parse_zarr_v2_array(const json& zarray, const json* zattrs) {
  result<zarr_metadata> out = read_array(zarray);
  if (!out.ok()) return of_document(std::move(out).error(), kZarrayKey);
  PENSTOCK_TRY(read_attributes(zattrs, *out));
  out->dimension_names = names_in_attributes(*out);
  return out;
}

result<zarr_metadata> parse_zarr_v2_group(const json& zgroup, const json* zattrs) {
  result<zarr_metadata> out = read_group(zgroup);
  if (!out.ok()) return of_document(std::move(out).error(), kZgroupKey);
  PENSTOCK_TRY(read_attributes(zattrs, *out));
  return out;
}

}  // namespace penstock::inline v0
