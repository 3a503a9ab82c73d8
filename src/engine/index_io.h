#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/plan.h>
#include "engine/index_cache.h"

namespace penstock::inline v0 {

/// Deeper than any format's index; a layout that requests more is in a cycle.
inline constexpr unsigned kMaxIndexRounds = 64;

/// Turns the outcome of an index read into an entry: parsed, or `block` null if the object is absent.
/// \error corrupt_data  With notes of the read. \error version_changed  The object has been replaced.
result<index_entry> take_index(const source& from, const index_request& request, const std::string& key,
                               result<read_done> arrived);

/// Copies an index of an earlier read to `out`; false if there is none that is valid.
/// \param uid   Of the array; 0: nothing is cached.
/// \param root  The entry of the object's root that the read uses; null if it has none. A node below the root is valid
///              only with the root of the same version.
bool find_cached(index_cache& cache, std::uint64_t uid, const index_key& key, const index_entry* root,
                 index_entry& out);

/// The note of a failed read of bytes: `reading 'c/0/3', bytes [1024, 5120)`.
std::string read_note(std::string_view key, const byte_range& range);

}  // namespace penstock::inline v0
