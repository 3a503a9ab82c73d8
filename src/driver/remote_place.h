#pragma once

#include <string_view>

#include <penstock/place.h>

namespace penstock::inline v0 {

/// The place of a URI with a remote scheme: `http:`, `https:`, `s3:`, `gs:`.
/// \error unsupported  No store for that scheme; or no HTTP in this build, or on this machine. \error invalid_argument
/// Not a URL.
result<place> find_remote_place(std::string_view uri, const place_options& options);

}  // namespace penstock::inline v0
