#include "format/zarr/zarr_writer.h"

#include <fmt/format.h>

#include <utility>

#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_fill_value.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

json list_of(const extents& lengths) { return json::array_t(lengths.begin(), lengths.end()); }

json names_of(const std::vector<std::optional<std::string>>& names) {
  json::array_t out;
  for (const auto& name : names) out.push_back(name ? json(*name) : json());
  return out;
}

json write_keys(const zarr_key_encoding& keys) {
  json base = json::object_t{
      {"name", keys.v2 ? "v2" : "default"},
      {"configuration", json::object_t{{"separator", json(std::string(1, keys.separator))}}},
  };
  if (keys.suffix.empty()) return base;
  return json::object_t{
      {"name", "suffix"},
      {"configuration", json::object_t{{"suffix", json(keys.suffix)}, {"base_encoding", std::move(base)}}},
  };
}

result<json> v3_array(const zarr_metadata& metadata) {
  PENSTOCK_ASSIGN(json type, write_data_type(metadata.type));
  PENSTOCK_ASSIGN(json fill, write_fill_value(metadata.fill_value, metadata.type));
  json::object_t out{
      {"shape", list_of(metadata.shape)},
      {"data_type", std::move(type)},
      {"chunk_grid", write_zarr_grid(metadata.grid)},
      {"chunk_key_encoding", write_keys(metadata.keys)},
      {"fill_value", std::move(fill)},
      {"codecs", metadata.codecs_json},
      {"attributes", metadata.attributes},
  };
  if (!metadata.dimension_names.empty()) out.emplace_back("dimension_names", names_of(metadata.dimension_names));
  out.emplace_back("zarr_format", std::int64_t{3});
  out.emplace_back("node_type", "array");
  out.emplace_back("storage_transformers", json::array_t{});
  return json(std::move(out));
}

result<json> v2_array(const zarr_metadata& metadata) {
  if (!metadata.grid.regular()) {
    return error(errc::unsupported, "Zarr v2 has no chunks of unequal lengths, only zarr_format 3 has");
  }
  PENSTOCK_ASSIGN(json type, write_v2_dtype(metadata.type, metadata.endian));
  json fill;
  if (!metadata.fill_json.is_null()) {
    PENSTOCK_ASSIGN(fill, write_v2_fill_value(metadata.fill_value, metadata.type, metadata.endian));
  }
  const char separator[] = {metadata.keys.separator, 0};
  return json(json::object_t{
      {"shape", list_of(metadata.shape)},
      {"chunks", list_of(metadata.grid.chunk)},
      {"dtype", std::move(type)},
      {"fill_value", std::move(fill)},
      {"order", metadata.f_order ? "F" : "C"},
      {"filters", metadata.filters},
      {"dimension_separator", json(std::string(separator))},
      {"compressor", metadata.compressor},
      {"zarr_format", std::int64_t{2}},
  });
}

}  // namespace

result<std::vector<zarr_document>> write_zarr_documents(const zarr_metadata& metadata) {
  std::vector<zarr_document> out;
  const bool is_array = metadata.kind == zarr_node_kind::array;
  if (metadata.zarr_format == 3) {
    json content;
    if (is_array) {
      PENSTOCK_ASSIGN(content, v3_array(metadata));
    } else {
      content =
          json::object_t{{"attributes", metadata.attributes}, {"zarr_format", std::int64_t{3}}, {"node_type", "group"}};
    }
    out.push_back({std::string(kZarrKey), std::move(content)});
    return out;
  }
  json content = json::object_t{{"zarr_format", std::int64_t{2}}};
  if (is_array) {
    PENSTOCK_ASSIGN(content, v2_array(metadata));
  }
  out.push_back({std::string(kZattrsKey), metadata.attributes});
  out.push_back({std::string(is_array ? kZarrayKey : kZgroupKey), std::move(content)});
  return out;
}

std::string document_text(const json& content) { return content.dump(2); }

json with_member(const json& document, std::string_view name, json value) {
  json::object_t out;
  if (const json::object_t* members = document.as_object()) out = *members;
  for (auto& [each, old] : out) {
    if (each == name) {
      old = std::move(value);
      return out;
    }
  }
  out.emplace_back(std::string(name), std::move(value));
  return out;
}

}  // namespace penstock::inline v0
