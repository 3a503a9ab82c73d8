#pragma once

#include <memory>

#include <penstock/array.h>
#include <penstock/open.h>
#include <penstock/result.h>
#include <penstock/store.h>
#include <penstock/tiff_header.h>

namespace penstock::inline v0 {

/// The header of an array's file; null if the array is not an image of a TIFF. Lives as long as the array.
PENSTOCK_API const tiff_details* tiff_details_of(const array& from) noexcept;

/// Which image of its file an array is; default options if it is not an image of a TIFF.
PENSTOCK_API tiff_options tiff_options_of(const array& from);

/// The overviews and the mask of an array's image. If requests cost nothing, also those in sidecar files (`.ovr`,
/// `.msk`), which are looked up at each call; a damaged one is an error when it is read.
PENSTOCK_API tiff_companions tiff_companions_of(const array& from);

/// Opens one image of the TIFF at `options.path` of a store. (`open` opens the first one.)
/// \error not_found  The file, its page, level or mask does not exist. \error out_of_range  The band does not exist.
/// \error corrupt_data, unsupported  By tag.
PENSTOCK_API result<array> open_tiff(std::shared_ptr<const store> from, const open_options& options,
                                     const tiff_options& image);

/// Opens another image of the file of an open one: from the same store, with the same context.
/// \error As above. \error conflict  The file was replaced since `of_file` was opened.
/// \error invalid_argument  `of_file` is not an image of a TIFF.
PENSTOCK_API result<array> open_tiff(const array& of_file, const tiff_options& image);

}  // namespace penstock::inline v0
