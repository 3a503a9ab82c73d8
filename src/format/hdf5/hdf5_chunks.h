#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// The entry of an index for one chunk.
struct hdf5_chunk_place {
  std::uint64_t address = 0, length = 0;
  std::uint64_t mask = 0;  ///< bit i: filter i was skipped
};

/// The locations of a dataset's chunks: columns, in the order of the cells. Chunks that were never written, or that are
/// outside of the dataset's present shape, are omitted.
struct hdf5_chunks {
  std::vector<std::uint64_t> cells;    ///< numbers in the grid of the present shape, in C order, without duplicates
  std::vector<std::uint64_t> offsets;  ///< in bytes from the beginning of the file
  std::vector<std::uint64_t> lengths;
  std::vector<std::uint64_t> masks;  ///< bit i: filter i was skipped
};

/// Reads a dataset's chunk index of any kind: B-trees of both versions, fixed and extensible arrays, implicit places, a
/// single chunk.
///
/// Memory is proportional to the size of the index in the file.
/// Source: HDF5 File Format Specification 3.0, III.A and VII.
/// \error corrupt_data  It is damaged: a checksum, a place outside of the file, a duplicate chunk, a loop.
/// \error unsupported   A grid of more than 2^64 chunks.
result<hdf5_chunks> list_hdf5_chunks(hdf5_file& file, const hdf5_shape& shape, const hdf5_layout& layout);

}  // namespace penstock::inline v0
