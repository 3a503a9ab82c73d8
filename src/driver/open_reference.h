#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include <penstock/references.h>
#include "array/chunk_grid.h"
#include "driver/for_each_file.h"
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

struct hdf5_facts;  // driver/open_hdf5.h
class hdf5_chunk_index;
class hdf5_heap_store;
class held_bytes;

/// An object that references point to.
struct referenced_object {
  std::string name;  ///< name in errors: a path, a URI
  std::shared_ptr<const store> from;
  std::string key;                      ///< in `from`
  bool pinned = false;                  ///< reads fail if its version changes
  std::optional<std::uint32_t> crc32c;  ///< of all its bytes; `array::check` compares it
  version seen = {};                    ///< the version that reads expect, if it is known; `pinned` looks it up
  /// Bytes of that version which were fetched with the metadata; null: none.
  std::shared_ptr<const held_bytes> held = nullptr;

  // What a manifest stores about the object.
  bool inlined = false;                  ///< `from` is this process's memory: the manifest holds the bytes
  std::uint64_t gathered_bytes = 0;      ///< not 0: `inlined`, and in several files; a manifest holds a limited number
  std::string path = {};                 ///< of a file of this machine; else empty
  std::optional<file_stamp> stamp = {};  ///< of that file when its index was read
  std::string remote_stamp = {};         ///< of a remote object, in the caller's store; empty: not known
};

/// Codecs of chunks that differ from the array's: the array's without some of them, or a list of their own.
struct chain_variant {
  std::vector<std::uint32_t> skipped;  ///< numbers of filters and compressor, in the order of encoding
  std::optional<extents> shape;        ///< of cells that are stored shorter than the others
  /// An object with `dtype` and `filters` that replace those of the `.zarray`: the chunks come from another array,
  /// whose type differs at most in byte order. null: the array's own.
  json own = {};
};

/// The ends of the cells of joined arrays along one dimension.
struct joined_axis {
  std::size_t axis = 0;
  std::vector<std::uint64_t> edges;    ///< from 0 to the length, ascending; empty: there are no cells
  std::vector<std::uint64_t> decoded;  ///< for each cell, the length to which its codecs decode, at least its own
};

/// An array whose bytes are in objects of other formats.
struct referenced_array {
  zarr_metadata metadata;  ///< of an array: its type, shape and codecs
  /// The documents that it was parsed from, by name (`.zarray`, `.zattrs`, `zarr.json`).
  std::vector<std::pair<std::string, std::string>> documents;
  /// If null, `read_table` returns this array with a table. Until then the `index`, or another layout, finds the
  /// chunks.
  std::shared_ptr<const reference_table> table;
  std::shared_ptr<const hdf5_chunk_index> index;
  /// If set, it stores each cell as an object, named as Zarr names chunks. It replaces `objects` until there is a
  /// table.
  std::shared_ptr<const hdf5_heap_store> cells;
  std::function<result<std::shared_ptr<const referenced_array>>()> read_table;
  std::vector<chain_variant> variants;
  std::vector<referenced_object> objects;
  std::string format, uri;
  std::vector<std::optional<std::string>> dimension_names;  ///< empty: as in the metadata
  bool missing_is_fill = false;
  bool opened_for_reading = false;
  std::vector<joined_axis> joined;         ///< dimensions whose cells have different lengths, each once
  std::shared_ptr<const hdf5_facts> hdf5;  ///< of a dataset of an HDF5 file; else null
};

/// The grid of the cells that the table numbers.
/// \error corrupt_data, invalid_argument  The metadata or `joined` contradict themselves.
result<chunk_grid> grid_of(const referenced_array& what);

/// \error corrupt_data, unsupported  The metadata or the table, by member. \error not_found  A pinned object.
result<array> open_reference(const std::shared_ptr<context>& with, referenced_array what);

/// \error unsupported  A manifest would hold more than 2^28 bytes that are in several files.
result<> check_gathered(const referenced_object& of);

/// All bytes of an object, named by the path of a file of this machine, else by its URI; by its key alone in a store
/// that has no location, such as one in memory.
referenced_object whole_object(std::shared_ptr<const store> from, std::string key, version seen);

/// All references of an array: for a dataset with many chunks, its index is read. Null: it has none.
/// \error As of reading the index.
result<std::shared_ptr<const referenced_array>> references_of(const array& from);

/// The array with all of its references in memory; the array itself if they already are, or if it has none.
result<array> with_references(const array& from);

/// `save_references` for an array of many files.
/// \param shards  JSON of the joined files, with file names as they are to be saved; empty: not joined.
result<std::vector<std::byte>> save_references_of_shards(const array& from, const manifest_options& how,
                                                         const std::string& shards);

/// The paths of the local files that an array with references reads; empty for any other array.
std::vector<std::string> referenced_files(const array& from);

}  // namespace penstock::inline v0
