#pragma once

#include <optional>

#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

/// Opens a member of JSON references by a path that leads into them (`refs.json/t2m`); nothing if the path has no part
/// that is named and begins as JSON.
/// \error As reference_tree.
result<std::optional<node>> open_inside_references(const location& at, const open_options& how);

/// Opens what is inside of a local folder of references saved as Parquet on the way to a location: `saved.refs/t2m`.
///
/// Returns nullopt if no folder above the location has such references.
result<std::optional<node>> open_inside_reference_folder(const location& at, const open_options& how);

/// Opens references that are saved as Parquet below a place, by their `.zmetadata`.
result<node> open_reference_folder(node_place at, const json& zmetadata);

}  // namespace penstock::inline v0
