#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// An object that references name.
struct referenced_object {
  std::string name;  ///< as errors show it: a path, a URI
  std::shared_ptr<const store> from;
  std::string key;                      ///< in `from`
  bool pinned = false;                  ///< reads fail once it is another version than now
  std::optional<std::uint32_t> crc32c;  ///< of all its bytes: what `array::check` compares
  version seen = {};                    ///< the version that reads expect, if it is known; `pinned` learns it
};

/// The array's usual codecs, with some left out.
struct chain_variant {
  std::vector<std::uint32_t> skipped;  ///< numbers of filters and compressor, in the order of encoding
  std::optional<extents> shape;        ///< of cells that are stored shorter than the others
};

/// Where the cells of arrays that are joined begin and end along the dimension that joins them.
struct joined_axis {
  std::size_t axis = 0;
  std::vector<std::uint64_t> edges;    ///< from 0 to the length, ascending
  std::vector<std::uint64_t> decoded;  ///< of each cell, what its codecs make along the axis: no less than its length
};

/// An array whose bytes lie in objects that other formats made.
struct referenced_array {
  zarr_metadata metadata;  ///< of an array: what it is, and how its chunks decode
  std::shared_ptr<const reference_table> table;
  std::vector<chain_variant> variants;
  std::vector<referenced_object> objects;
  std::string format, uri;
  std::vector<std::optional<std::string>> dimension_names;  ///< empty: as the metadata say
  bool missing_is_fill = false;
  bool opened_for_reading = false;
  std::optional<joined_axis> joined;
};

/// \error corrupt_data, unsupported  The metadata or the table, by member. \error not_found  A pinned object.
result<array> open_reference(const std::shared_ptr<context>& with, const referenced_array& what);

/// The table of an array that open_reference opened, in its saved form.
/// \error invalid_argument  It is no such array.
result<std::vector<std::byte>> save_references(const array& from);

}  // namespace penstock::inline v0
