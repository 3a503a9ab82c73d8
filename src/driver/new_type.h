#pragma once

#include <penstock/create.h>
#include "format/zarr/zarr_data_type.h"

namespace penstock::inline v0 {

/// The data type that options of a new array name, and the byte order of its stored items (JSON: "little", "big", or
/// null).
/// \error invalid_argument, unsupported  Names the type.
result<zarr_v2_type> type_of_new(const create_options& options);

}  // namespace penstock::inline v0
