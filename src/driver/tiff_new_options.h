#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <penstock/extend/driver.h>
#include <penstock/result.h>
#include <penstock/tiff_header.h>
#include <penstock/tiff_writer.h>
#include "codec/tiff/tiff_encoders.h"
#include "driver/tiff_pyramid.h"
#include "format/tiff/tiff_image.h"

namespace penstock::inline v0 {

/// The description of a new TIFF by its options.
struct tiff_new_image {
  sample_kind kind = sample_kind::unsigned_integer;
  tiff_encoding encoding = tiff_encoding::none;
  tiff_compression compression = tiff_compression::none;
  std::vector<tiff_level> levels;           ///< the image and its overviews, each half as large as the one before
  std::vector<std::byte> nodata;            ///< one native item; empty: none
  std::vector<tiff_tag> tags, shared_tags;  ///< tags of the image alone; tags of the overviews, too
};

/// Checks the options and sets defaults.
/// \error invalid_argument, unsupported  By name.
result<tiff_new_image> resolve_options(tiff_create_options& options);

/// Begins a TIFF. \error invalid_argument, unsupported  An option of `how`, or of `how.tiff`, by name.
result<std::unique_ptr<array_writer>> begin_tiff(const new_location& at, const create_options& how);

/// invalid_argument.
error wrong_image(std::string what);

}  // namespace penstock::inline v0
