#pragma once

#include <string>
#include <string_view>

#include <penstock/array.h>
#include <penstock/open.h>

namespace penstock::inline v0 {

/// The data that another process needs to open the same array without reading anything: its URI, and what was read when
/// it was opened (a Zarr array's metadata; the manifest of joined `.npy` and raw files or of references). Opaque bytes,
/// for the same version of Penstock.
/// \error unsupported  The array has no URI, for example in a memory store.
/// \error  As the store's, if the metadata cannot be read again.
PENSTOCK_API result<std::string> describe(const array& from);

/// Opens the array that was passed to `describe`.
/// \error corrupt_data  `description` was not returned by `describe`. \error As open_array.
PENSTOCK_API result<array> open_description(std::string_view description, const open_options& options = {});

}  // namespace penstock::inline v0
