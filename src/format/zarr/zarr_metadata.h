#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "format/zarr/zarr_codecs.h"

namespace penstock::inline v0 {

enum class zarr_node_kind : std::uint8_t { array, group };

/// How a chunk's place in the grid is written as a storage key.
struct zarr_key_encoding {
  bool v2 = false;  ///< `0/3` instead of `c/0/3`
  char separator = '/';
};

/// What a zarr.json (version 3) says. A group has only its attributes.
struct zarr_metadata {
  zarr_node_kind kind = zarr_node_kind::group;
  json attributes = json::object_t{};  ///< always an object

  extents shape;
  dtype type;
  extents chunk;  ///< of the chunk grid: the shard where the array is sharded
  zarr_key_encoding keys;
  std::vector<std::byte> fill_value;  ///< one item, native byte order
  zarr_codecs codecs;
  json codecs_json;                                         ///< the list as it stands in the document
  std::vector<std::optional<std::string>> dimension_names;  ///< empty, or one for each dimension
};

/// The document that makes a folder a Zarr v3 node, and those that make it a Zarr v2 node.
inline constexpr std::string_view kZarrKey = "zarr.json";
inline constexpr std::string_view kZarrV2Keys[] = {".zarray", ".zgroup"};

/// Parses zarr.json.
///
/// Strict: what is not known is refused by name, unless it is a top-level object with `"must_understand": false`.
/// `consolidated_metadata` is known and not used.
/// \error corrupt_data  Malformed, or contradicts itself; names the member.
/// \error unsupported   A data type, chunk grid, key encoding, storage transformer, or version of the format, by name.
/// Source: Zarr core specification, version 3.1.
result<zarr_metadata> parse_zarr_metadata(std::span<const std::byte> document);

/// The refusal of a Zarr v2 node, found by `key`.
error zarr_v2_refused(std::string_view key);

}  // namespace penstock::inline v0
