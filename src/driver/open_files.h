#pragma once

#include <penstock/array.h>
#include <penstock/open.h>

#include <optional>
#include <string_view>
#include <vector>

#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Opens what a path of this machine names if it is a `.npy` file, a manifest of files, or a pattern that `.npy` files
/// match; nothing where it is something else.
result<std::optional<array>> open_files(std::string_view uri, const open_options& options);

/// Holds each file of an array against the checksum that its manifest has; adds those that differ to `report`.
void check_files(const array_state& of, array::check_report& report, std::size_t max_failures);

}  // namespace penstock::inline v0
