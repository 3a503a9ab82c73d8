#pragma once

#include <penstock/context.h>
#include <penstock/result.h>
#include <penstock/store.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5/hdf5_chunks.h"

namespace penstock::inline v0 {

struct hdf5_index {
  hdf5_chunks chunks;
  bool raw_edges = false;  ///< chunks that the array's edge cuts skip all filters
};

/// The chunk index of a dataset, read from its file without the HDF5 library and its lock.
///
/// \param header  The address of the dataset's object header, from the library.
/// \error unsupported   Not a chunked dataset, or one that only the library reads.
/// \error corrupt_data  The file is damaged. \error conflict  It changed meanwhile.
result<hdf5_index> read_hdf5_index(const store& from, std::string_view key, std::uint64_t header);

/// Checks every link of the group whose object header is at `header`, before the library uses them.
///
/// \error corrupt_data  It is damaged. \error unsupported  Only the library understands its links.
/// \error conflict      The file changed meanwhile.
result<> check_hdf5_group(const store& from, std::string_view key, std::uint64_t header);

/// Datasets of one name in many files, all chunked or all contiguous, which differ in nothing but their length along
/// one axis.
struct hdf5_shards {
  std::vector<std::uint64_t> rows;     ///< of each file
  std::vector<std::uint64_t> starts;   ///< of contiguous ones: of the first byte; byte_range::kAll: never written
  std::vector<std::uint64_t> entries;  ///< chunks of each file; `chunks` has them one file after the other
  hdf5_chunks chunks;                  ///< cells are numbers in the file's own grid; no filter was skipped
};

/// Reads the chunk indexes of many files in parallel. Types, fill values, filters and chunk shapes are compared in
/// their stored form, so that the meaning of one file is that of all.
///
/// Returns nothing if a file cannot be read, differs, or can only be read by the library. Reading them one by one shows
/// which.
std::optional<hdf5_shards> scan_hdf5_shards(const store& from, const std::vector<std::string>& keys,
                                            std::string_view dataset, std::size_t axis, context& with);

/// What a file's metadata says (see describe_hdf5), and what reading it took.
struct hdf5_description {
  std::string text;          ///< JSON
  std::uint64_t rounds = 0;  ///< round trips after the first, which learns the file's size
  std::uint64_t requests = 0, bytes = 0;
};

/// Describes every group, dataset and attribute of a file. Its metadata is fetched in rounds: all pages that are known
/// to be needed at once.
/// \error As describe_hdf5 and the store. \error conflict  The file changed meanwhile.
result<hdf5_description> describe_hdf5_file(const store& from, std::string_view key);

}  // namespace penstock::inline v0
