#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>

#include <cstddef>
#include <cstdint>

namespace penstock::inline v0 {

/// Whether some bytes of an item belong to no field, at any level of a structure.
bool has_gaps(const dtype& type) noexcept;

/// The structure with the same fields and without gaps, which formats store; any other type is returned unchanged.
/// \error As dtype::structured.
result<dtype> without_gaps(const dtype& type);

/// Copies the fields of `count` adjacent items of a structure to items of `without_gaps(type)`. Source and destination
/// do not overlap.
void pack_items(const dtype& type, const std::byte* from, std::byte* to, std::uint64_t count);

}  // namespace penstock::inline v0
