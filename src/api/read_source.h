#pragma once

#include <penstock/plan.h>
#include <penstock/selection.h>
#include "api/array_state.h"

namespace penstock::inline v0 {

/// Resolves any selection against an array.
result<resolved_selection> resolve_any(const array_state& state, const selection& which);

/// Refuses a selection that was resolved against an array with other chunks.
result<> check_selection(const array_state& state, const resolved_selection& which);

/// The plan's source for a selection; strides are those of the result, `to` may be null for a plan that is not run.
source source_of(const array_state& state, const resolved_basic& which, const strides& result_strides, std::byte* to);
/// The same; `which.indexed` is borrowed.
source source_of(const array_state& state, const resolved_selection& which, const strides& result_strides,
                 std::byte* to);

inline bool is_empty(const extents& shape) noexcept {
  for (const std::uint64_t each : shape)
    if (each == 0) return true;
  return false;
}

}  // namespace penstock::inline v0
