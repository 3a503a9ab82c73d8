#pragma once

#include <optional>
#include <string_view>

#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include "driver/registry.h"
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

/// Finds references saved as Parquet in a local folder above a location: `saved.refs` of `saved.refs/t2m`.
///
/// Returns nullopt if no folder above the location has such references.
result<std::optional<found_node>> find_references_above(const location& at);

/// Opens references that are saved as Parquet below a place, by their `.zmetadata`.
/// \param inner  Path of the node to open; empty: the root.
result<node> open_reference_folder(node_place at, const json& zmetadata, std::string_view inner = {});

}  // namespace penstock::inline v0
