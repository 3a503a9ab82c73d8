#pragma once

#include <string_view>
#include <vector>

namespace penstock::inline v0 {

/// The names of the real numbers that NumPy has no type strings for: `int2`, `bfloat16`, `float8_e4m3`, ...
std::vector<std::string_view> numbers_without_typestr();

}  // namespace penstock::inline v0
