#pragma once

#include <deque>
#include <vector>

#include <penstock/array.h>
#include <penstock/plan.h>
#include <penstock/selection.h>
#include "array/conversion.h"
#include "engine/array_state.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {

/// Whether a selection, resolved against a layout, needs such a small part of its cells that smaller cells should be
/// tried.
bool is_sparse(const chunk_layout& layout, const resolved_selection& which);
/// Whether requests for the smaller cells of `finer` take less time than reading all cells that `which` touches.
bool costs_less(const resolved_selection& finer, const chunk_layout& layout, const resolved_selection& which);

/// Resolves any selection against an array, with the share of each part (`array_facts::parts`).
result<resolved_selection> resolve_any(const array_state& state, const selection& which);
/// The same for points whose lists are borrowed, of an array whose parts may be closed.
result<resolved_selection> resolve_points(const array_state& state, const coordinate_view& which);

/// Resolves a selection that is not a box against a layout, or its finer one if that requests less.
template <class Which>
result<resolved_selection> select_among(const chunk_layout& layout, const Which& which) {
  PENSTOCK_ASSIGN(resolved_selection made, select(which, layout.grid()));
  const chunk_layout* const finer = is_sparse(layout, made) ? layout.finer() : nullptr;
  if (finer == nullptr) return made;
  PENSTOCK_ASSIGN(resolved_selection again, select(which, finer->grid()));
  return costs_less(again, layout, made) ? std::move(again) : std::move(made);
}

/// Refuses a selection that was resolved against an array with other chunks.
result<> check_selection(const array_state& state, const resolved_selection& which);

/// The plan's source for a selection; strides are those of the result, `to` may be null for a plan that is not
/// executed.
source source_of(const array_state& state, const resolved_basic& which, const strides& result_strides, std::byte* to);
/// The same; `which.indexed` is borrowed.
source source_of(const array_state& state, const resolved_selection& which, const strides& result_strides,
                 std::byte* to);

/// The sources of a selection of an array with parts, and what they borrow in addition to the array and the selection.
struct part_sources {
  std::vector<source> all;
  std::deque<element_conversion> becomes;
};

/// Divides a source by the array's parts (`array_facts::parts`, not null), each of which is then read by its own
/// chunks. A selection of lists, points or a mask that was resolved against another array of these boxes is read by the
/// boxes.
/// \param type  The type that elements are converted to; null: none. `from.convert` is not used.
/// \error As `conversion_of`.
result<part_sources> divide_by_parts(const array_state& state, const source& from, const dtype* type);

/// A selection of an array whose parts are opened when they are read (`array_facts::closed`, not null): in the open
/// ones.
struct opened_selection {
  array of;
  resolved_selection which;
};

/// Opens the parts that a selection needs: of a box that has elements, those that it touches, else all.
/// \error As the parts'.
result<opened_selection> open_needed(const array_state& state, const resolved_selection& which);

/// Lists of rows and columns, with the parts that they need.
struct opened_lists {
  array of;
  selection which;
};

/// The same for a selection of lists that is not resolved yet: the parts between its first and its last element.
result<opened_lists> open_needed(const array_state& state, const orthogonal_selection& which);

/// The conversion of an array's elements to another type. \error As `conversion_of`.
result<element_conversion> conversion_to(const dtype& type, const array_state& state);

/// Reads a source whose elements are converted. \error As `array::read`.
result<> read_converted(const array_state& state, source from, const element_conversion& how,
                        const read_options& options);

inline bool is_empty(const extents& shape) noexcept {
  for (const std::uint64_t each : shape)
    if (each == 0) return true;
  return false;
}

}  // namespace penstock::inline v0
