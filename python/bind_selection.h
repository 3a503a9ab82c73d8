#pragma once

#include <vector>

#include "bind.h"

namespace penstock::inline v0::python {

/// A selection that was resolved against an Array: what lists, points, masks and blocks become.
struct selection_handle {
  resolved_selection resolved;
  extents array_shape;  ///< of the array that it belongs to
};

enum class parsed_key {
  basic,   ///< ints, slices, Ellipsis, None
  other,   ///< something else: lists, arrays, masks, names of fields, a `_Selection`
  failed,  ///< a Python exception is set
};

/// Reads what stands between the brackets.
parsed_key parse_key(PyObject* key, std::vector<basic_item>& items, bool& has_ellipsis) noexcept;

/// Null where the key is no `_Selection`. No Python exception is set.
const selection_handle* as_selection(nb::handle key) noexcept;

/// What a `_Selection` means to an array; throws where it was made for another.
const resolved_selection& resolved_of(const array_handle& self, nb::handle key);

/// What a key means to an array, of any kind. Throws the Python exception.
resolved_selection resolve_key(const array_handle& self, nb::handle key);

/// The Python part's reading of keys that are not basic: `self._read_fancy(key, threads, progress)`.
nb::object read_fancy(nb::handle self, nb::handle key, unsigned threads, nb::handle progress);

// Made by penstock.core.indexing from what users type. Index arrays are int64, masks bool; both in C order.
selection_handle orthogonal_of(const array_handle& self, const nb::tuple& items);
selection_handle points_of(const array_handle& self, const nb::tuple& lists, const nb::tuple& shape);
selection_handle mask_of(const array_handle& self, nb::handle mask);
selection_handle blocks_of(const array_handle& self, const nb::tuple& items);

void bind_selection(nb::module_& m);

}  // namespace penstock::inline v0::python
