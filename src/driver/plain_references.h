#pragma once

#include <memory>

#include <penstock/result.h>
#include "driver/open_reference.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {

class netcdf_layout;

/// Returns chunks of whole rows for adjacent values. All have one length, because chunks of Zarr 2 do. They have up to
/// 4 MiB, as far as the divisors of the number of rows allow.
extents regular_chunks(const extents& shape, std::uint64_t item_bytes);

/// A variable of a NetCDF classic file as references: for each record, or for regular chunks if the values are
/// adjacent.
/// \param where, what The array's location and metadata.
result<std::shared_ptr<const referenced_array>> netcdf_references(const netcdf_layout& variable,
                                                                  const array_site& where, const array_facts& what);

/// The same array with regular chunks, if its chunks are equal except for shorter ones without codecs, as those of
/// contiguous HDF5 datasets are. Any other array is returned unchanged.
result<array> with_regular_chunks(const array& from);

}  // namespace penstock::inline v0
