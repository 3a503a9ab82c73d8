#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>
#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Opens an array whose metadata has already been read: `from` is not read.
/// \param documents  Metadata documents by name (`zarr.json`; `.zarray`, `.zattrs`) and text, as in storage.
/// \error As open_array.
result<array> open_described(std::shared_ptr<const store> from, const open_options& options,
                             const std::vector<std::pair<std::string, std::string>>& documents,
                             beyond_edge after_writes = beyond_edge::filled);

}  // namespace penstock::inline v0
