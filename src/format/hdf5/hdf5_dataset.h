#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

/// The shape of a dataset: lengths, and how far they may grow.
struct hdf5_shape {
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> most;  ///< byte_range::kAll: without a limit
};

/// \error unsupported  A dataset without a shape, or what is shared with others.
result<hdf5_shape> parse_hdf5_shape(const hdf5_file& file, const std::vector<hdf5_message>& header);

/// How the bytes of a dataset lie in the file.
struct hdf5_layout {
  enum class kind : std::uint8_t { compact, contiguous, chunked } what = kind::contiguous;
  /// What finds chunks.
  enum class index : std::uint8_t { btree_1, single, implicit, fixed_array, extensible_array, btree_2 };

  std::uint64_t address = 0;  ///< of the bytes or of the index; may be undefined: nothing was written
  std::uint64_t bytes = 0;    ///< of contiguous data
  std::vector<std::byte> inline_bytes;

  index by = index::btree_1;
  std::vector<std::uint64_t> chunk;  ///< in elements
  std::uint64_t element_bytes = 0;
  bool raw_edges = false;     ///< chunks that the array's edge cuts skip all filters
  bool one_filtered = false;  ///< of a single chunk: the next two say what a chunk index would
  std::uint64_t one_bytes = 0, one_mask = 0;
};

/// Source: HDF5 File Format Specification 3.0, IV.A.2.i (versions 3 and 4); 5 differs from 4 in the widths that indexes
/// say themselves.
/// \error unsupported  Another version or class of layout, or index.
result<hdf5_layout> parse_hdf5_layout(const hdf5_file& file, const std::vector<hdf5_message>& header);

}  // namespace penstock::inline v0
