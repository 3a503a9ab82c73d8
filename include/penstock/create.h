#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/open.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

struct tiff_create_options;  // <penstock/tiff_writer.h>

/// A new array. Empty members have defaults.
struct create_options {
  std::shared_ptr<penstock::context> context;  ///< null: one of its own
  std::string path;                            ///< within the store, '/'-separated; empty: the root
  /// `zarr`, or the name of a driver. Empty: for a URI, the format of the name's ending, if a driver of the context has
  /// it or the library creates such arrays (`x.tif`); else Zarr.
  std::string format;
  int zarr_format = 3;          ///< 2 or 3
  bool overwrite = false;       ///< erase the existing node, and all below it
  bool durable = false;         ///< return when the metadata, and its new parents, are on the storage device
  std::string attributes_json;  ///< an object; empty: none

  extents shape;
  dtype type;
  /// The data type as JSON, in place of `type`: a v3 name or object, or NumPy's type string or list of fields, whose
  /// byte order is that of the stored items.
  std::string dtype_json;
  std::optional<extents> chunks;                          ///< nullopt: about 1 MiB each
  std::vector<std::vector<std::uint64_t>> chunk_lengths;  ///< a rectilinear grid; an empty list: all as in `chunks`
  std::optional<extents> shards;                          ///< multiples of the chunks; version 3
  /// Shards of a rectilinear grid, each a multiple of the chunks; an empty list: all as in `shards`.
  std::vector<std::vector<std::uint64_t>> shard_lengths;
  bool auto_shards = false;        ///< shards of about 256 MiB, if the array has more than one chunk
  bool shard_index_first = false;  ///< a shard begins with its index, instead of ending with it
  /// "auto" (or empty), or JSON. Version 3: the list of codecs, those of the inner chunks in sharded arrays; each a
  /// name or an object. If no codec turns arrays into bytes, one is added. Version 2: `{"filters": list or null,
  /// "compressor": object or null}`, each of which may be absent.
  std::string codecs_json;
  std::string fill_value_json;        ///< as in the metadata
  std::vector<std::byte> fill_value;  ///< one item in native byte order, instead of the JSON
  bool fill_is_undefined = false;     ///< version 2: null
  /// Empty: none. Version 2: all must be named, and are stored as xarray's attribute `_ARRAY_DIMENSIONS`.
  std::vector<std::optional<std::string>> dimension_names;
  char order = 'C';        ///< order of the elements in a chunk: 'C' or 'F'
  bool v2_keys = false;    ///< version 3: `0/3` instead of `c/0/3`
  std::string key_suffix;  ///< version 3: suffix of each key, as in `c/0/3.tiff`
  char separator = 0;      ///< between the numbers in keys; 0: '/', or '.' if keys are as in version 2

  /// Options of TIFFs only; null: their defaults. Members that exist in both (context, path, sizes, type) are taken
  /// from this struct.
  std::shared_ptr<const tiff_create_options> tiff;
};

/// Writes the metadata of a new array and opens it. Creates missing parent groups.
///
/// Nothing is written if the metadata is wrong. With `overwrite` the old metadata is erased first, then the objects
/// that it described. A TIFF that is created in this way has no values but nodata or 0, and is read-only:
/// `begin_array` (<penstock/array_writer.h>) writes one.
/// \error invalid_argument  A member that makes no sense, by name; the path exists.
/// \error unsupported  A data type or a codec, by name.
PENSTOCK_API result<array> create_array(std::shared_ptr<store> in, const create_options& options);
/// The same at a path or URI, which `options.path` is within.
/// \error invalid_argument  The name belongs to another format (`x.nc`): see `check_new_name`.
PENSTOCK_API result<array> create_array(std::string_view uri, const create_options& options);
/// Below an open group, in its format. Its consolidated metadata is no longer used.
PENSTOCK_API result<array> create_array(const group& parent, const create_options& options);

struct create_group_options {
  std::shared_ptr<penstock::context> context;  ///< null: one of its own
  std::string path;                            ///< within the store, or below the parent
  std::string format;                          ///< `zarr`, or the name of a driver; empty: Zarr
  int zarr_format = 3;
  bool overwrite = false;
  bool durable = false;         ///< as in `create_options`
  std::string attributes_json;  ///< an object; empty: none
};

/// Writes the metadata of a new group and opens it; as create_array.
PENSTOCK_API result<group> create_group(std::shared_ptr<store> in, const create_group_options& options);
PENSTOCK_API result<group> create_group(const group& parent, const create_group_options& options);

/// Erases the node at `path` below a group and everything in it: the metadata first. \error not_found  The node does
/// not exist.
PENSTOCK_API result<> erase(const group& parent, std::string_view path);

/// Copies the metadata of all nodes below the group at `path` into one document there (version 2: .zmetadata; version
/// 3: the member `consolidated_metadata`), and opens the group with it.
PENSTOCK_API result<group> consolidate_metadata(std::shared_ptr<store> in, const open_options& options = {});

}  // namespace penstock::inline v0
