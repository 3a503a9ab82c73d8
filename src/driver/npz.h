#pragma once

#include <optional>

#include "driver/registry.h"

namespace penstock::inline v0 {

/// Finds a member of a `.npz` archive: `t2m` is its object `t2m.npy`, and the empty path is its only array.
/// Returns nullopt if the store is not such an archive, or does not have the member.
/// \error invalid_argument  The path is empty and the archive has several arrays; the error names them.
result<std::optional<found_node>> find_npz_member(const location& at);

}  // namespace penstock::inline v0
