#pragma once

#include <memory>

#include <penstock/result.h>
#include "driver/open_reference.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {

class netcdf_layout;

/// Chunks of whole rows for values that lie one after the other: all of one length, because chunks of Zarr 2 are. They
/// have up to 4 MiB, as the divisors of the number of rows allow.
extents regular_chunks(const extents& shape, std::uint64_t item_bytes);

/// A variable of a NetCDF classic file as references: of each record, or of regular chunks where the values lie one
/// after the other.
/// \param where, what  Of the array that it is.
result<std::shared_ptr<const referenced_array>> netcdf_references(const netcdf_layout& variable,
                                                                  const array_site& where, const array_facts& what);

/// The same array where its chunks are alike but for shorter ones without codecs, as those of contiguous HDF5 datasets
/// are: with regular chunks. Any other array as it is.
result<array> with_regular_chunks(const array& from);

}  // namespace penstock::inline v0
