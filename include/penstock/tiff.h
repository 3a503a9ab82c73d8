#pragma once

#include <memory>

#include <penstock/array.h>
#include <penstock/open.h>
#include <penstock/result.h>
#include <penstock/store.h>
#include <penstock/tiff_header.h>

namespace penstock::inline v0 {

/// What the header of an array's file says; null where the array is no image of a TIFF. Lives as long as the array.
PENSTOCK_API const tiff_details* tiff_details_of(const array& from) noexcept;

/// Which image of its file an array is; the default if it is not an image of a TIFF.
PENSTOCK_API tiff_options tiff_options_of(const array& from);

/// The overviews and the mask of an array's image. Where requests cost nothing, those in files next to its own (`.ovr`,
/// `.msk`) too, which are looked for at each call; a damaged one says so when it is read.
PENSTOCK_API tiff_companions tiff_companions_of(const array& from);

/// Opens one image of the TIFF that stands at `options.path` of a store. (`open` opens the first one.)
/// \error not_found  There is none, or it has no such page, level or mask. \error out_of_range  It has no such band.
/// \error corrupt_data, unsupported  By tag.
PENSTOCK_API result<array> open_tiff(std::shared_ptr<const store> from, const open_options& options,
                                     const tiff_options& image);

/// Opens another image of an open one's file: of the same store, with the same context.
/// \error As above. \error conflict  The file was replaced since `of_file` was opened.
/// \error invalid_argument  `of_file` is no image of a TIFF.
PENSTOCK_API result<array> open_tiff(const array& of_file, const tiff_options& image);

}  // namespace penstock::inline v0
