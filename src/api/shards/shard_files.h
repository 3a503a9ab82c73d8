#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// NumPy's type as Python text, for headers of `.npy` files: `'<f4'`, `[('a', '<i4'), ('b', '<f8', (2,))]`.
/// \param descr  A type string, or the JSON of a list of fields.
/// \error invalid_argument  It is neither of them.
result<std::string> python_descr(std::string_view descr);

/// Returns when the names of these files are on the storage device, in their folders and those above, up to the file
/// system's root.
result<> sync_names(std::span<const std::string> paths);

/// A path in the form of keys below '/': absolute, without '.' and '..'.
std::string key_of_path(const std::string& path);

}  // namespace penstock::inline v0
