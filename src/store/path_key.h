#pragma once

#include <penstock/result.h>

#include <string_view>

namespace penstock::inline v0 {

/// Whether `key` names an object below a store's root: segments between single '/', none of them empty, `.` or `..`,
/// and no NUL.
///
/// Keys are built from metadata, which may be hostile: `../../etc/passwd` must not reach a path. Stores without paths
/// refuse the same keys, so that a dataset that works in one store works in all. Allocates nothing on success.
/// \error invalid_argument  Says what is wrong with the key.
result<> check_key(std::string_view key);

/// Whether `prefix` is one that can be listed: empty, or a key with a final '/'.
/// \error invalid_argument  As `check_key`.
result<> check_prefix(std::string_view prefix);

}  // namespace penstock::inline v0
