#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// What an index says of one chunk.
struct hdf5_chunk_place {
  std::uint64_t address = 0, length = 0;
  std::uint64_t mask = 0;  ///< bit i: filter i was skipped
};

/// Where the chunks of a dataset are: columns, in the order of the cells. Chunks that were never written, or lie beyond
/// the dataset's present shape, are not among them.
struct hdf5_chunks {
  std::vector<std::uint64_t> cells;    ///< numbers in the grid of the present shape, in C order; each once
  std::vector<std::uint64_t> offsets;  ///< in bytes from the beginning of the file
  std::vector<std::uint64_t> lengths;
  std::vector<std::uint64_t> masks;  ///< bit i: filter i was skipped
};

/// Reads a dataset's chunk index, whichever it has: B-trees of both versions, fixed and extensible arrays, implicit
/// places, one chunk.
///
/// Memory is taken in proportion to what the file holds of the index.
/// Source: HDF5 File Format Specification 3.0, III.A and VII.
/// \error corrupt_data  It is damaged: a checksum, a place outside of the file, a chunk named twice, a loop.
/// \error unsupported   A grid of more than 2^64 chunks.
result<hdf5_chunks> list_hdf5_chunks(hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout);

}  // namespace penstock::inline v0
