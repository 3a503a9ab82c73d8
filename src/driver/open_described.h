#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>

namespace penstock::inline v0 {

/// Opens an array whose metadata has already been read: `from` is not read.
/// \param documents  Metadata documents by name (`zarr.json`; `.zarray`, `.zattrs`) and text, as in storage.
/// \param keeps_beyond_edges  Writes change no element that chunks have beyond the array's edge, as in zarr-python's
///   shards. Other arrays store the fill value there if a write replaces all elements of the array in a chunk.
/// \error As open_array.
result<array> open_described(std::shared_ptr<const store> from, const open_options& options,
                             const std::vector<std::pair<std::string, std::string>>& documents,
                             bool keeps_beyond_edges = false);

}  // namespace penstock::inline v0
