#pragma once

#include <penstock/create.h>

#include <span>
#include <string_view>

#include "format/zarr/zarr_data_type.h"

namespace penstock::inline v0 {

/// The data type that options of a new array name, and the byte order of its stored items (JSON: "little", "big", or
/// null).
/// \error invalid_argument, unsupported  Names the type.
result<zarr_v2_type> type_of_new(const create_options& options);

/// A format's replacement for an option of Zarr arrays: the end of the error that refuses the option.
struct other_option {
  std::string_view name, instead;
};

/// Refuses given options that only Zarr arrays have.
/// \param kind  `TIFFs`.
/// \error invalid_argument  Names the option.
result<> refuse_zarr_options(const create_options& options, std::string_view kind,
                             std::span<const other_option> instead = {});

}  // namespace penstock::inline v0
