#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver/open_reference.h"
#include "format/hdf5/hdf5_virtual.h"

namespace penstock::inline v0 {

/// The box of a source array, and where the result shows it.
struct shown_part {
  std::shared_ptr<const referenced_array> source;  ///< not null; of Zarr 2
  hdf5_part where;
  std::string name;  ///< name of the source in errors
};

/// Assembles parts of arrays: each chunk of the result is a chunk of a source, or a box of one.
///
/// The result's chunks end where parts or the sources' chunks end. A chunk that is shown whole has the codecs of its
/// source. From another chunk the codec `reference.window` takes a box; if several chunks of the result in one request
/// show the same chunk, it is decoded once. If parts overlap, the last one counts. Elements without a part or
/// without a chunk have the fill value of their array. Numbers of a source of another type are converted as HDF5's
/// library does (codec `hdf5.cast`).
///
/// Time and memory are in proportion to the result's chunks.
/// \param like  The result except for its chunks, table, codecs and objects: a `.zarray` and its metadata.
/// \error unsupported  A source whose elements cannot be converted to those of the result, or that has elements of
/// variable length; or a result of more than 2^22 chunks in one dimension, 2^24 chunks with references (or, if less,
/// 2^20 and one for each byte of the sources' chunks), or 60,000 different boxes of chunks.
result<referenced_array> compose_references(referenced_array like, std::span<const shown_part> parts);

}  // namespace penstock::inline v0
