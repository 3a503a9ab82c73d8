#pragma once

#include <memory>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include "driver/open_saved.h"

namespace penstock::inline v0 {

/// Opens the array of a manifest of joined arrays: Zarr, TIFF, `.npz` members, `.npy` files in both item orders.
///
/// Each array is opened. The size and modification time of its metadata, its shape and its dtype must equal those in
/// the manifest.
/// \error corrupt_data  The document contradicts itself. \error conflict  An array is missing or has changed.
/// \error unsupported   A location that the manifest may not name; arrays that `join` refuses.
result<array> open_saved_arrays(const json& document, const manifest_place& at, const std::shared_ptr<context>& with);

}  // namespace penstock::inline v0
