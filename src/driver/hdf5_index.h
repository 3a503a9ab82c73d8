#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "format/hdf5/hdf5_chunks.h"

namespace penstock::inline v0 {

struct hdf5_index {
  hdf5_chunks chunks;
  bool raw_edges = false;  ///< chunks that extend beyond the array's edge skip all filters
};

/// The chunk index of a dataset, read from its file without the HDF5 library and its lock.
///
/// \param header  The address of the dataset's object header, from the library.
/// \error unsupported   Not a chunked dataset, or one that only the library reads.
/// \error corrupt_data  The file is damaged. \error conflict  It changed during the read.
result<hdf5_index> read_hdf5_index(const store& from, std::string_view key, std::uint64_t header);

/// A file's metadata (see describe_hdf5), and the cost of reading it.
struct hdf5_description {
  std::string text;          ///< JSON
  std::uint64_t rounds = 0;  ///< round trips after the first one, which returns the file's size
  std::uint64_t requests = 0, bytes = 0;
};

/// Describes every group, dataset and attribute of a file. Its metadata is fetched in rounds: each requests all pages
/// that are known to be needed.
/// \error As describe_hdf5 and the store. \error conflict  The file changed during the read.
result<hdf5_description> describe_hdf5_file(const store& from, std::string_view key);

}  // namespace penstock::inline v0
