#pragma once

#include <optional>
#include <string_view>

#include <penstock/array.h>
#include <penstock/tiff.h>
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

/// Whether a prefix (`scene.tif/`) has the ending of a TIFF.
bool is_tiff_name(std::string_view prefix) noexcept;

/// Opens one image of the TIFF whose key is the place's prefix; nothing if it is not an object, or not a TIFF.
///
/// Reads the first 16 KiB (4 KiB if requests cost nothing), which hold the header of most files, and then the missing
/// bytes, in growing requests. Overviews and masks that the file does not have are looked up in `<key>.ovr` and
/// `<key>.msk` when one is requested.
/// \error corrupt_data, unsupported  By tag. \error not_found  The TIFF has no such page, level, mask or band.
/// \param head  Of the file, read before; null: it is read.
result<std::optional<array>> open_tiff(const node_place& at, const tiff_options& options,
                                       const object_head* head = nullptr);

}  // namespace penstock::inline v0
