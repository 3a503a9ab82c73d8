#pragma once

#include <cstdint>
#include <memory>

#include <penstock/array.h>
#include "engine/write_fence.h"

namespace penstock::inline v0 {

/// Writes to an array that is larger than the stored one, for the owner of a fence: no other writer may write there.
/// \param skip_unchanged  Objects whose elements already have these values are not put.
/// \error As array::write. \error conflict  The fence was taken over.
result<> write_fenced(const array& to, const basic_selection& which, const tensor_view& value,
                      const write_options& options, write_fence& fence, bool skip_unchanged = false);

/// Writes the fill value to the elements beyond the end of the stored array along these axes (bit d: axis d) in the
/// objects at its end: they are rows of an unfinished append. Objects without such elements are not put.
result<> clear_beyond_edges(const array_state& state, std::uint32_t axes, write_fence& fence);

/// Refuses values that cannot be written to a selection of `shape`, by dtype and shape, and read-only arrays.
result<> check_value(const array_state& state, const extents& shape, const tensor_view& value,
                     const write_options& options);

/// Watches the edge of an array that was opened earlier: by the claim of an append, and the stored shape. It is never
/// quiet if the write keeps all elements beyond the edge. \param lists  The write is one of lists, points or a mask.
std::unique_ptr<edge_watch> watch_edges(const array_state& state, bool lists);

}  // namespace penstock::inline v0
