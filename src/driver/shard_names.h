#pragma once

#include <string>
#include <vector>

#include <penstock/shards.h>

namespace penstock::inline v0 {

/// Whether a shell pattern matches a name; '/' is matched by '/' only.
bool matches_shard_pattern(const std::string& pattern, const std::string& name);

/// Sorts names by the numbers in them.
/// \param pattern  The pattern that matched them.
/// \error invalid_argument  As find_shards.
result<std::vector<std::string>> order_shards(std::vector<std::string> found, const std::string& pattern,
                                              shard_gaps gaps);

}  // namespace penstock::inline v0
