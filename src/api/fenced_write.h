#pragma once

#include <cstdint>
#include <memory>

#include <penstock/array.h>
#include "engine/write_fence.h"

namespace penstock::inline v0 {

/// Writes to an array that is larger than the stored one, by the owner of a fence: nobody else may have elements there.
/// \param skip_unchanged  Objects whose elements have these values already are not put.
/// \error As array::write. \error conflict  The fence was taken over.
result<> write_fenced(const array& to, const basic_selection& which, const tensor_view& value,
                      const write_options& options, write_fence& fence, bool skip_unchanged = false);

/// Writes the fill value to what objects at the end of the stored array hold beyond it along these axes (bit d: axis
/// d): rows of an append that did not finish. Objects without such elements are not put.
result<> clear_beyond_edges(const array_state& state, std::uint32_t axes, write_fence& fence);

/// Refuses values that cannot be written to a selection of `shape`, by dtype and shape, and arrays that are only read.
result<> check_value(const array_state& state, const extents& shape, const tensor_view& value,
                     const write_options& options);

/// Watches the edge of an array that was opened some time ago: by the claim of an append, and the stored shape.
std::unique_ptr<edge_watch> watch_edges(const array_state& state);

}  // namespace penstock::inline v0
