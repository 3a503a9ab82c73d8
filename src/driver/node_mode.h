#pragma once

#include <penstock/array.h>
#include <penstock/open.h>
#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Every function that writes through an open array or group calls this first.
/// Needs no system call: only a write shows whether the storage accepts it.
/// \error read_only  The format or the store cannot be written to, or the node was opened with `open_mode::read`.
result<> check_writable(const array_state& state);
result<> check_writable(const group_state& state);

/// As `check_writable`, for changes of an array's shape or attributes.
/// \error unsupported  The array's format does not allow such changes: only Zarr does.
result<> check_editable(const array_state& state);
result<> check_editable(const group_state& state);

/// As `check_writable`. It also makes the checks for which the store needs no write (`store::check_writable`), for
/// instance of a folder's permissions.
/// \error permission_denied  As the store's.
result<> check_writable_now(const array_state& state);
result<> check_writable_now(const group_state& state);

/// \error invalid_argument  `open` and `open_array` do not create nodes.
result<> check_open_mode(open_mode mode);

/// The found node for use in `mode`: a read-only copy, or an error if it must be writable and is not.
result<node> in_mode(result<node> found, open_mode mode);

}  // namespace penstock::inline v0
