#pragma once

#include <string>
#include <vector>

#include <penstock/shards.h>

namespace penstock::inline v0 {

/// Whether a shell pattern stands for a name; '/' is matched by '/' alone.
bool matches_shard_pattern(const std::string& pattern, const std::string& name);

/// Puts names in the order of the numbers in them. \param pattern  That found them.
/// \error invalid_argument  As find_shards.
result<std::vector<std::string>> order_shards(std::vector<std::string> found, const std::string& pattern,
                                              shard_holes holes);

}  // namespace penstock::inline v0
