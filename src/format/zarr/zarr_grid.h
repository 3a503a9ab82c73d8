#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstdint>
#include <vector>

#include <penstock/extend/json.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// How metadata divides an array into objects: `regular`, or `rectilinear` with individual lengths.
struct zarr_grid {
  extents chunk;  ///< along each dimension the length of all chunks, or of the longest one
  /// Rectilinear: for each dimension the lengths of its chunks, empty if all have the length in `chunk`. May extend
  /// beyond the end of the array. Regular: empty.
  std::vector<std::vector<std::uint64_t>> lengths;

  bool regular() const noexcept { return lengths.empty(); }
};

/// Parses `chunk_grid`.
/// \error corrupt_data  Malformed, or chunks that do not cover the array. \error unsupported  Another kind of grid, or
///                      more than 2^22 chunks of unequal lengths along one dimension.
/// Source: Zarr v3 core specification, "Regular grids"; zarr-extensions, chunk-grids/rectilinear.
result<zarr_grid> parse_zarr_grid(const json& value, const extents& shape);

/// The member `chunk_grid`: `regular`, or `rectilinear` with runs of equal lengths as `[length, count]`.
json write_zarr_grid(const zarr_grid& grid);

/// The member `chunk_grid` of the resized array, as in zarr-python: if listed lengths do not reach `shape`, the missing
/// length is added; lengths beyond the end are kept.
/// \param value  A grid that parse_zarr_grid accepted. \error corrupt_data, unsupported  As there.
result<json> resized_zarr_grid(const json& value, const extents& shape);

/// The grid of an array's objects.
result<chunk_grid> object_grid(const zarr_grid& grid, const extents& shape);

}  // namespace penstock::inline v0
