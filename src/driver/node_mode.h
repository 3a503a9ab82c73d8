#pragma once

#include <penstock/array.h>
#include <penstock/open.h>
#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Every function that writes through an open array or group calls this first.
///
/// Costs no system call: whether the storage accepts the write is known after it was tried.
/// \error read_only  The format or the store cannot be written to, or the node was opened with `open_mode::read`.
result<> check_writable(const array_state& state);
result<> check_writable(const group_state& state);

/// As `check_writable`, for what changes an array's shape or attributes.
/// \error unsupported  The array's format does not let them be changed: only Zarr does.
result<> check_editable(const array_state& state);
result<> check_editable(const group_state& state);

/// As `check_writable`. In addition it checks what the store can tell without a write (`store::check_writable`), for
/// instance the permissions of a folder.
/// \error permission_denied  As the store's.
result<> check_writable_now(const array_state& state);
result<> check_writable_now(const group_state& state);

/// \error invalid_argument  `open` and `open_array` do not create nodes.
result<> check_open_mode(open_mode mode);

/// What was found, as `mode` allows it to be used: a read-only copy, or an error if it must be writable and is not.
result<node> in_mode(result<node> found, open_mode mode);

}  // namespace penstock::inline v0
