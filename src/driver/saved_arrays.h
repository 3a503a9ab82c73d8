#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/shape.h>
#include "driver/for_each_file.h"

namespace penstock::inline v0 {

/// A shard that is an array by itself, as a manifest describes it.
struct saved_array {
  std::string path;      ///< absolute
  std::string metadata;  ///< the file that changes with it: itself, or a Zarr array's document
  file_stamp stamp;      ///< of `metadata`
  extents shape;
  dtype type;
  std::optional<std::uint32_t> crc32c;  ///< of all its bytes; nothing: the manifest has no checksum
};

/// The shards of a joined array that a manifest opened.
struct saved_arrays {
  std::vector<saved_array> shards;
  std::size_t axis = 0;
};

}  // namespace penstock::inline v0
