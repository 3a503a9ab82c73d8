#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// Returns when the names of these files are on the storage device, in their folders and those above, up to the file
/// system's root.
result<> sync_names(std::span<const std::string> paths);

/// A path in the form of keys below '/': absolute, without '.' and '..'.
std::string key_of_path(const std::string& path);

}  // namespace penstock::inline v0
