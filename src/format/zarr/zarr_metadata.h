#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/json.h>
#include "format/zarr/zarr_codecs.h"
#include "format/zarr/zarr_grid.h"

namespace penstock::inline v0 {

enum class zarr_node_kind : std::uint8_t { array, group };

/// How a chunk's position in the grid is written as a storage key.
struct zarr_key_encoding {
  bool v2 = false;  ///< `0/3` instead of `c/0/3`
  char separator = '/';
  std::string suffix;  ///< suffix of each key, as in `c/0/3.tiff`
};

/// The contents of a node's documents, in either version of the format. A group has only its attributes.
struct zarr_metadata {
  int zarr_format = 3;
  zarr_node_kind kind = zarr_node_kind::group;
  json attributes = json::object_t{};  ///< always an object

  extents shape;
  dtype type;
  zarr_grid grid;  ///< grid of the objects: the shards if the array is sharded
  zarr_key_encoding keys;
  std::vector<std::byte> fill_value;             ///< one item, native byte order
  std::shared_ptr<const std::string> fill_text;  ///< what a variable_item in it points to
  json fill_json;                                ///< as in the document; null: not defined (version 2)
  zarr_codecs codecs;
  json codecs_json;  ///< the list as in the document
  /// Empty, or one for each dimension. In version 2 they are xarray's attribute.
  std::vector<std::optional<std::string>> dimension_names;

  // Version 2 only.
  json endian;           ///< see zarr_v2_type
  bool f_order = false;  ///< chunks are stored in Fortran order
  json filters = {};     ///< a list or null
  json compressor = {};  ///< an object or null
};

/// The document that makes a folder a Zarr v3 node.
inline constexpr std::string_view kZarrKey = "zarr.json";

/// Parses zarr.json.
///
/// Strict: unknown members are refused by name, except top-level objects with `"must_understand": false`.
/// `consolidated_metadata` is accepted and not used.
/// \error corrupt_data  Malformed, or contradicts itself; names the member.
/// \error unsupported   A data type, chunk grid, key encoding, storage transformer, or version of the format, by name.
/// Source: Zarr core specification, version 3.1.
result<zarr_metadata> parse_zarr_metadata(std::span<const std::byte> document);
/// The same for a parsed document.
result<zarr_metadata> parse_zarr_metadata(const json& document);

/// NumPy and strides count bytes in 63 bits: `unsupported` if an array has more.
result<> check_array_size(const extents& shape, const dtype& type);

}  // namespace penstock::inline v0
