#include "format/zarr/zarr_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"
#include "format/zarr/metadata_reader.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_fill_value.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kArrayMembers[] = {
    "zarr_format",           "node_type",  "shape",  "data_type",       "chunk_grid",
    "chunk_key_encoding",    "fill_value", "codecs", "dimension_names", "storage_transformers",
    "consolidated_metadata", "attributes"};
constexpr std::string_view kGroupMembers[] = {"zarr_format", "node_type", "attributes", "consolidated_metadata"};

constexpr std::size_t kMaxSuffixBytes = 200;  // the limit of names in file systems is 255

result<> check_members(const json::object_t& members, std::span<const std::string_view> known) {
  for (const auto& [name, value] : members) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const json* must = value.find("must_understand");
    if (must != nullptr && must->as_bool() != nullptr && !*must->as_bool()) continue;
    return error(errc::unsupported,
                 fmt::format("zarr.json: member '{:.80}' is not known and must be understood", name));
  }
  return {};
}

result<> check_format_3(const json& document) {
  PENSTOCK_ASSIGN(const json* format, required_member(document, "", "zarr_format"));
  std::int64_t number = 0;
  if (!format->get(number)) return wrong_member(*format, "zarr_format", "the integer 3");
  if (number != 3) {
    return error(errc::unsupported, fmt::format("zarr.json: zarr_format {} is not readable, only 3 is", number));
  }
  return {};
}

/// `text` becomes part of keys: it must not lead out of the array's folder, nor into another one.
result<std::string> read_suffix(const json& configuration, const std::string& path) {
  PENSTOCK_ASSIGN(const json* value, required_member(configuration, path, "suffix"));
  const std::string* text = value->as_string();
  if (text == nullptr) return wrong_member(*value, path + ".suffix", "a string");
  if (text->size() > kMaxSuffixBytes || text->find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    return error(errc::unsupported, fmt::format("zarr.json: member '{}.suffix' is {}, at most {} bytes without '/' can "
                                                "end a key",
                                                path, brief(*value), kMaxSuffixBytes));
  }
  return *text;
}

result<zarr_key_encoding> read_keys(const json& value, const std::string& path) {
  PENSTOCK_ASSIGN(const codec_config named, read_named(value, path));
  const std::string configuration = path + ".configuration";
  if (named.name == "suffix") {
    PENSTOCK_TRY(only_members(named.configuration, configuration, {"suffix", "base_encoding", "base-encoding"}));
    const json* base = named.configuration.find("base-encoding");  // the specification spells it both ways
    if (base == nullptr) {
      PENSTOCK_ASSIGN(base, required_member(named.configuration, configuration, "base_encoding"));
    }
    PENSTOCK_ASSIGN(zarr_key_encoding out, read_keys(*base, configuration + ".base_encoding"));
    PENSTOCK_ASSIGN(const std::string suffix, read_suffix(named.configuration, configuration));
    out.suffix += suffix;
    if (out.suffix.size() > kMaxSuffixBytes) {
      return error(errc::unsupported,
                   fmt::format("zarr.json: member '{}' has suffixes of more than {} bytes", path, kMaxSuffixBytes));
    }
    return out;
  }
  zarr_key_encoding out;
  if (named.name == "v2") {
    out.v2 = true;
    out.separator = '.';
  } else if (named.name != "default") {
    return error(
        errc::unsupported,
        fmt::format("zarr.json: chunk key encoding '{:.80}' is not readable, only 'default', 'v2' and 'suffix' are",
                    named.name));
  }
  PENSTOCK_TRY(only_members(named.configuration, configuration, {"separator"}));
  if (const json* separator = named.configuration.find("separator")) {
    const std::string* text = separator->as_string();
    if (text == nullptr || (*text != "/" && *text != ".")) {
      return error(errc::corrupt_data, fmt::format("zarr.json: member '{}.separator' is {}, needs \"/\" or \".\"",
                                                   configuration, brief(*separator)));
    }
    out.separator = text->front();
  }
  return out;
}

result<std::vector<std::optional<std::string>>> read_names(const json* value, std::size_t rank) {
  std::vector<std::optional<std::string>> out;
  if (value == nullptr || value->is_null()) return out;
  const json::array_t* list = value->as_array();
  if (list == nullptr) return wrong_member(*value, "dimension_names", "a list of names");
  if (list->size() != rank) {
    return error(errc::corrupt_data, fmt::format("zarr.json: dimension_names has {}, shape has {}",
                                                 counted(list->size(), "name"), counted(rank, "dimension")));
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const json& name = (*list)[d];
    if (name.is_null()) {
      out.emplace_back(std::nullopt);
    } else if (name.as_string() != nullptr) {
      out.emplace_back(*name.as_string());
    } else {
      return wrong_member(name, fmt::format("dimension_names[{}]", d), "a string or null");
    }
  }
  return out;
}

result<> check_transformers(const json* value) {
  if (value == nullptr || value->is_null()) return {};
  const json::array_t* list = value->as_array();
  if (list == nullptr) return wrong_member(*value, "storage_transformers", "a list");
  if (list->empty()) return {};
  PENSTOCK_ASSIGN(const codec_config first, read_named(list->front(), "storage_transformers[0]"));
  return error(errc::unsupported, fmt::format("zarr.json: storage transformer '{:.80}' is not readable", first.name));
}

result<> read_array(const json& document, zarr_metadata& out) {
  PENSTOCK_ASSIGN(const json* shape, required_member(document, "", "shape"));
  PENSTOCK_ASSIGN(out.shape, read_extents(*shape, "shape", 0));
  PENSTOCK_ASSIGN(const json* type, required_member(document, "", "data_type"));
  PENSTOCK_ASSIGN(out.type, parse_data_type(*type));
  PENSTOCK_TRY(check_array_size(out.shape, out.type));
  PENSTOCK_ASSIGN(const json* grid, required_member(document, "", "chunk_grid"));
  PENSTOCK_ASSIGN(out.grid, parse_zarr_grid(*grid, out.shape));
  PENSTOCK_ASSIGN(const json* keys, required_member(document, "", "chunk_key_encoding"));
  PENSTOCK_ASSIGN(out.keys, read_keys(*keys, "chunk_key_encoding"));
  PENSTOCK_ASSIGN(const json* fill, required_member(document, "", "fill_value"));
  PENSTOCK_ASSIGN(zarr_fill item, parse_fill_value(*fill, out.type));
  out.fill_value = std::move(item.item);
  out.fill_text = std::move(item.text);
  out.fill_json = *fill;
  PENSTOCK_TRY(check_transformers(document.find("storage_transformers")));
  PENSTOCK_ASSIGN(const json* codecs, required_member(document, "", "codecs"));
  PENSTOCK_ASSIGN(out.codecs, parse_zarr_codecs(*codecs, "codecs"));
  out.codecs_json = *codecs;
  PENSTOCK_ASSIGN(out.dimension_names, read_names(document.find("dimension_names"), out.shape.size()));
  return {};
}

}  // namespace

result<> check_array_size(const extents& shape, const dtype& type) {
  std::uint64_t bytes = type.item_bytes();
  bool empty = false;
  for (const std::uint64_t length : shape) empty = empty || length == 0;
  for (const std::uint64_t length : shape) {
    if (empty) break;
    if (!checked_mul(bytes, length, bytes) ||
        bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return error(errc::unsupported, fmt::format("zarr.json: shape {} of {} has more than 2^63 - 1 bytes",
                                                  to_string(shape), type.name()));
    }
  }
  return {};
}

result<zarr_metadata> parse_zarr_metadata(std::span<const std::byte> document) {
  result<json> parsed = json::parse({reinterpret_cast<const char*>(document.data()), document.size()});
  if (!parsed.ok()) return std::move(parsed).error().note("parsing zarr.json");
  return parse_zarr_metadata(*parsed);
}

result<zarr_metadata> parse_zarr_metadata(const json& root) {
  const json::object_t* members = root.as_object();
  if (members == nullptr) {
    return error(errc::corrupt_data, fmt::format("zarr.json is a JSON {}, needs an object", root.kind_name()));
  }

  // First the members that determine how the rest is read.
  PENSTOCK_TRY(check_format_3(root));
  PENSTOCK_ASSIGN(const json* kind, required_member(root, "", "node_type"));
  if (kind->as_string() == nullptr) return wrong_member(*kind, "node_type", "\"array\" or \"group\"");

  zarr_metadata out;
  if (*kind->as_string() == "array") {
    out.kind = zarr_node_kind::array;
    PENSTOCK_TRY(check_members(*members, kArrayMembers));
    PENSTOCK_TRY(read_array(root, out));
  } else if (*kind->as_string() == "group") {
    PENSTOCK_TRY(check_members(*members, kGroupMembers));
  } else {
    return error(errc::corrupt_data,
                 fmt::format("zarr.json: member 'node_type' is {}, needs \"array\" or \"group\"", brief(*kind)));
  }
  if (const json* attributes = root.find("attributes"); attributes != nullptr && !attributes->is_null()) {
    if (attributes->as_object() == nullptr) return wrong_member(*attributes, "attributes", "an object");
    out.attributes = *attributes;
  }
  return out;
}

}  // namespace penstock::inline v0
