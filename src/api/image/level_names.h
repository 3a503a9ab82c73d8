#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <penstock/levels.h>

namespace penstock::inline v0 {

/// The rule's name in attributes.
const char* method_of(level_rule rule) noexcept;

/// Attributes that name the first `count` levels: a JSON object.
std::string names_of_levels(const std::vector<std::pair<std::string, array>>& levels, std::size_t count,
                            const level_options& options);

}  // namespace penstock::inline v0
