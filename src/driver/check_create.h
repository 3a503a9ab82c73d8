#pragma once

#include <memory>

#include <penstock/create.h>

namespace penstock::inline v0 {

/// Checks what `create_array` checks before it writes, except what exists at the destination.
/// \error As create_array's.
result<> check_create(std::shared_ptr<store> in, const create_options& options);

}  // namespace penstock::inline v0
