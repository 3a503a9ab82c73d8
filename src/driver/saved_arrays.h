#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/extend/json.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include "driver/for_each_file.h"
#include "driver/open_saved.h"

namespace penstock::inline v0 {

/// A shard that is an array of a format, as a manifest describes it.
struct saved_array {
  std::string path;                     ///< absolute path
  std::string metadata;                 ///< the file that changes with it: itself, or a Zarr array's document
  file_stamp stamp;                     ///< stamp of `metadata`
  std::optional<std::uint32_t> crc32c;  ///< checksum of all its bytes; nothing: the manifest has none
  std::string format;                   ///< the name of its driver; empty: the manifest does not have it
  extents shape;
  extents chunks;     ///< has the rank of `shape`, and no length is 0
  std::string descr;  ///< the dtype in the form of a manifest: NumPy's type string, or JSON of a list of fields
  dtype type;         ///< `descr`, parsed
};

/// The shards of a joined array that a manifest opened.
struct saved_arrays {
  std::vector<saved_array> shards;
  std::size_t axis = 0;
};

/// The file that changes whenever the shard at `path` is replaced: the shard itself, or the document of a Zarr array.
std::string metadata_of_shard(const std::string& path);

/// The shards of a manifest. No shard is opened or looked up.
/// \param manifest  The document, on one line.
/// \error corrupt_data  It contradicts itself, by member. \error unsupported  A location that it may not name, or a
///                      remote one; `at.missing_is_fill`; another version or kind.
result<saved_arrays> parse_saved_arrays(std::span<const std::byte> manifest, const manifest_place& at);
result<saved_arrays> parse_saved_arrays(const json& document, const manifest_place& at);

/// The manifest of such shards, for a file in `folder`: shards below it are named relative to it.
/// \param folder  Absolute.
std::string write_saved_arrays(const saved_arrays& of, const std::string& folder);

}  // namespace penstock::inline v0
