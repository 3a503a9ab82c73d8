#pragma once

#include <penstock/result.h>

#include <string_view>

#include <penstock/extend/json.h>
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// Keys of a Zarr v2 node's documents. The first or the second makes a folder a node, the third is optional. The last
/// is in a group and contains all documents of the tree below it.
inline constexpr std::string_view kZarrayKey = ".zarray";
inline constexpr std::string_view kZgroupKey = ".zgroup";
inline constexpr std::string_view kZattrsKey = ".zattrs";
inline constexpr std::string_view kZmetadataKey = ".zmetadata";

/// The attribute in which xarray keeps the names of an array's dimensions.
inline constexpr const char* kArrayDimensions = "_ARRAY_DIMENSIONS";

/// Parses a .zarray and its .zattrs (null if it does not exist). Unknown members are ignored, as the format requires.
///
/// The chain is that of version 3: transpose (order F), bytes (the byte order of `dtype`; not for `|O`), the filters
/// and the compressor with the prefix `numcodecs.` in their names. It is compiled with `stored_order_filters`. Names of
/// dimensions are those of the attribute `_ARRAY_DIMENSIONS`, if it has one for each. `|O` with the filter vlen-utf8,
/// vlen-bytes or vlen-array is text, bytes or lists of variable length, otherwise `object`.
/// \error corrupt_data, unsupported  As parse_zarr_metadata.
/// Source: Zarr v2 specification.
result<zarr_metadata> parse_zarr_v2_array(const json& zarray, const json* zattrs);

/// The elements of an array of `|O`, by the codec that its filters begin with: text, bytes, lists, else `object`.
dtype type_of_objects(const json& codec);

/// Parses a .zgroup and its .zattrs (null if it does not exist).
result<zarr_metadata> parse_zarr_v2_group(const json& zgroup, const json* zattrs);

}  // namespace penstock::inline v0
