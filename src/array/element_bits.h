#pragma once

#include <cstdint>
#include <vector>

#include <penstock/extend/chunk_grid.h>
#include <penstock/shape.h>
#include "array/indexed_copy.h"

namespace penstock::inline v0 {

/// Sets a bit, in C order, for each selected element of a cell; all others are 0.
/// \param box  The selected elements, if `of` is null.
void mark_elements(const strided_box* box, const indexed_region* of, const extents& cell,
                   std::vector<std::uint64_t>& bits);

}  // namespace penstock::inline v0
