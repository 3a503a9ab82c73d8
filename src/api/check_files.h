#pragma once

#include <penstock/array.h>

#include <cstddef>

#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Compares each file or shard of an array with its checksum in the manifest; adds those that differ to `report`.
void check_files(const array_state& of, array::check_report& report, std::size_t max_failures);

}  // namespace penstock::inline v0
