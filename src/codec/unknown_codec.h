#pragma once

#include <penstock/result.h>

#include <string_view>

namespace penstock::inline v0 {

/// The error for a codec that this library does not have. It lists those that it has, and a note names the nearest one.
error unknown_codec(std::string_view name);

}  // namespace penstock::inline v0
