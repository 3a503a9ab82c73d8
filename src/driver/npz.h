#pragma once

#include <optional>

#include "driver/registry.h"

namespace penstock::inline v0 {

/// Finds a member of a `.npz` archive: `t2m` is its object `t2m.npy`. The empty path is its only array or, if it has
/// several, a group of them. Returns nullopt if the store is not such an archive, or does not have the member.
/// \error not_found  The path is empty and the archive has no arrays.
result<std::optional<found_node>> find_npz_member(const location& at, const open_options& how);

}  // namespace penstock::inline v0
