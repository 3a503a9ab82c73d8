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

/// What a dataspace message describes.
struct hdf5_dataspace {
  bool null = false;  ///< H5S_NULL: no elements and no shape
  hdf5_shape shape;
};

/// Source: HDF5 File Format Specification 4.0, IV.A.2.b.
/// \error corrupt_data  The message contradicts itself. \error unsupported  Another version.
result<hdf5_dataspace> parse_hdf5_dataspace(const hdf5_file& file, std::span<const std::byte> body);

/// \error unsupported  A dataset without a shape, or what is shared with others.
result<hdf5_shape> parse_hdf5_shape(const hdf5_file& file, const std::vector<hdf5_message>& header);

/// How the bytes of a dataset lie in the file.
struct hdf5_layout {
  enum class kind : std::uint8_t { compact, contiguous, chunked, mapped } what = kind::contiguous;
  /// What finds chunks.
  enum class index : std::uint8_t { btree_1, single, implicit, fixed_array, extensible_array, btree_2 };

  /// Of the bytes, of the index, or of the heap with the mappings of a virtual dataset; may be undefined: nothing was
  /// written.
  std::uint64_t address = 0;
  std::uint64_t heap_index = 0;  ///< of the mappings in their heap
  std::uint64_t bytes = 0;       ///< of contiguous data; byte_range::kAll: as many as the shape needs
  std::vector<std::byte> inline_bytes;

  index by = index::btree_1;
  std::vector<std::uint64_t> chunk;  ///< in elements
  std::uint64_t element_bytes = 0;
  bool raw_edges = false;     ///< chunks that the array's edge cuts skip all filters
  bool one_filtered = false;  ///< of a single chunk: the next two say what a chunk index would
  std::uint64_t one_bytes = 0, one_mask = 0;
};

/// Source: HDF5 File Format Specification 3.0, IV.A.2.i (versions 1 to 4); 5 differs from 4 in the widths that indexes
/// store themselves.
/// \error unsupported  Another version or class of layout, or index.
result<hdf5_layout> parse_hdf5_layout(const hdf5_file& file, const std::vector<hdf5_message>& header);

/// What elements are that were never written.
struct hdf5_fill {
  enum class kind : std::uint8_t { undefined, zeros, value } what = kind::zeros;
  std::vector<std::byte> bytes;  ///< value: one element in the file's type
};

/// Undefined if the header has no such message, as libhdf5 takes it.
/// Source: HDF5 File Format Specification 4.0, IV.A.2.e and f.
/// \error corrupt_data  It is damaged. \error unsupported  Another version.
result<hdf5_fill> parse_hdf5_fill(const std::vector<hdf5_message>& header);

/// One filter of a pipeline, in the order of writing.
struct hdf5_filter {
  std::uint32_t id = 0, flags = 0;
  std::string name;
  std::vector<std::uint32_t> values;
};

/// Source: HDF5 File Format Specification 4.0, IV.A.2.l. Empty if there is no such message.
/// \error corrupt_data  It is damaged. \error unsupported  Another version.
result<std::vector<hdf5_filter>> parse_hdf5_filters(const std::vector<hdf5_message>& header);

/// A part of a dataset in another file.
struct hdf5_external_part {
  std::string file;
  std::uint64_t offset = 0, bytes = 0;  ///< bytes: byte_range::kAll: to the end
};

/// Source: HDF5 File Format Specification 4.0, IV.A.2.h. Empty if the dataset has no such files.
/// \error corrupt_data  The message or its heap is damaged.
result<std::vector<hdf5_external_part>> read_hdf5_external(hdf5_file& file, const std::vector<hdf5_message>& header);

}  // namespace penstock::inline v0
