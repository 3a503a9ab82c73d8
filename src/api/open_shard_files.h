#pragma once

#include <optional>
#include <string_view>

#include <penstock/array.h>
#include <penstock/open.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The array of the files that a pattern names (`run/x_*.tif`, `run/x_*.h5/group/set`); nullopt if `uri` is not a
/// pattern, or is the name of a file.
/// \error As of `open_shards`.
result<std::optional<array>> open_pattern(std::string_view uri, const open_options& options);

/// True if a pattern continues inside a local file: its characters may belong to a member's name.
bool is_pattern_within_file(std::string_view uri);

/// The array of a folder whose files are of one format, other than Zarr.
/// \param why  The error of opening the folder as a node: returned, with a note, if it is not a folder of files.
result<array> open_folder_of_files(std::string_view uri, const open_options& options, error why);

}  // namespace penstock::inline v0
