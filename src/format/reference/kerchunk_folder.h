#pragma once

#include <cstdint>
#include <string_view>

#include <penstock/result.h>
#include "format/reference/reference_rows.h"

namespace penstock::inline v0 {

/// The `.zmetadata` of a folder of references in Parquet: documents, and the number of chunks in one file.
///
/// Chunk i of the array at `x` is row `i % record_size` of `x/refs.{i / record_size}.parq`, which has the columns
/// `path`, `offset`, `size` and `raw`.
/// Source: fsspec's LazyReferenceMapper.
struct kerchunk_folder {
  reference_documents documents;
  std::uint64_t record_size = 0;

  /// \error corrupt_data  It is not JSON, has no 'metadata', or a 'record_size' that is not a positive number.
  static result<kerchunk_folder> parse(std::string_view text);
};

}  // namespace penstock::inline v0
