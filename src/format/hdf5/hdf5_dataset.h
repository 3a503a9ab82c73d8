#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

/// The shape of a dataset: the lengths of its dimensions, and their limits.
struct hdf5_shape {
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> most;  ///< byte_range::kAll: without a limit
};

/// What a dataspace message describes.
struct hdf5_dataspace {
  bool null = false;  ///< H5S_NULL: it has neither elements nor a shape
  hdf5_shape shape;
};

/// Source: HDF5 File Format Specification 4.0, IV.A.2.b.
/// \error corrupt_data  The message is contradictory. \error unsupported  Another version.
result<hdf5_dataspace> parse_hdf5_dataspace(const hdf5_file& file, std::span<const std::byte> body);

/// \error unsupported  A dataset without a shape, or a dataspace that is shared with other objects.
result<hdf5_shape> parse_hdf5_shape(const hdf5_file& file, const std::vector<hdf5_message>& header);

/// The storage layout of a dataset.
struct hdf5_layout {
  enum class kind : std::uint8_t { compact, contiguous, chunked, mapped } what = kind::contiguous;
  /// The structure that finds chunks.
  enum class index : std::uint8_t { btree_1, single, implicit, fixed_array, extensible_array, btree_2 };

  /// Address of the bytes, of the index, or of the heap with a virtual dataset's mappings. If undefined, nothing was
  /// written.
  std::uint64_t address = 0;
  std::uint64_t heap_index = 0;  ///< number of the mappings in their heap
  std::uint64_t bytes = 0;       ///< length of contiguous data; byte_range::kAll: as long as the shape needs
  std::vector<std::byte> inline_bytes;

  index by = index::btree_1;
  std::vector<std::uint64_t> chunk;  ///< in elements
  std::uint64_t element_bytes = 0;
  bool raw_edges = false;     ///< chunks that extend beyond the array's edge skip all filters
  bool one_filtered = false;  ///< for a single chunk: the next two are what a chunk index would have
  std::uint64_t one_bytes = 0, one_mask = 0;
};

/// Source: HDF5 File Format Specification 3.0, IV.A.2.i (versions 1 to 4). Version 5 differs from 4 in the widths that
/// indexes store.
/// \error unsupported  Another version, class of layout, or index.
result<hdf5_layout> parse_hdf5_layout(const hdf5_file& file, const std::vector<hdf5_message>& header);

/// The value of elements that were never written.
struct hdf5_fill {
  enum class kind : std::uint8_t { undefined, zeros, value } what = kind::zeros;
  std::vector<std::byte> bytes;  ///< value: one element in the file's type
};

/// The fill value, undefined if the header has no such message, as in libhdf5.
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
/// The same for the body of the message.
result<std::vector<hdf5_filter>> parse_hdf5_filters(std::span<const std::byte> body);

/// A part of a dataset in another file.
struct hdf5_external_part {
  std::string file;
  std::uint64_t offset = 0, bytes = 0;  ///< bytes: byte_range::kAll: to the end
};

/// Source: HDF5 File Format Specification 4.0, IV.A.2.h. Empty if the dataset has no such files.
/// \error corrupt_data  The message or its heap is damaged.
result<std::vector<hdf5_external_part>> read_hdf5_external(hdf5_file& file, const std::vector<hdf5_message>& header);

}  // namespace penstock::inline v0
