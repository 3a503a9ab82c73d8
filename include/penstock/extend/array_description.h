#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// What the metadata of a format states about an array. Where the chunks are and how they decode is in the layout.
struct array_description {
  std::string format;  ///< `zarr2`, `zarr3`, `tiff`, `npy`, ...: a lower-case word
  extents shape;
  extents chunks;  ///< shape of the cells that decode on their own
  std::optional<extents> shards;
  dtype type;
  std::vector<std::byte> fill_value;                        ///< one item in native byte order
  std::string fill_value_json = "null";                     ///< as in the metadata; "null": not defined
  std::string attributes_json = "{}";                       ///< an object
  std::string codecs_json, codecs_text;                     ///< as in Zarr 3 metadata, and in a readable form
  std::vector<std::optional<std::string>> dimension_names;  ///< empty, or one for each dimension
};

}  // namespace penstock::inline v0
