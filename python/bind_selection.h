#pragma once

#include <vector>

#include "bind.h"

namespace penstock::inline v0::python {

/// A selection that was resolved against an Array: for lists, points, masks and blocks.
struct selection_handle {
  resolved_selection resolved;
  extents array_shape;  ///< identity of the array that it belongs to
};

enum class parsed_key {
  basic,   ///< ints, slices, Ellipsis, None
  other,   ///< other keys: lists, arrays, masks, names of fields, a `_Selection`
  failed,  ///< a Python exception is set
};

/// Reads the items between the brackets.
parsed_key parse_key(PyObject* key, std::vector<basic_item>& items, bool& has_ellipsis) noexcept;

/// Null if the key is not a `_Selection`. No Python exception is set.
const selection_handle* as_selection(nb::handle key) noexcept;

/// The meaning of a `_Selection` for an array; throws if it was made for another.
const resolved_selection& resolved_of(const array_handle& self, nb::handle key);

/// The meaning of a key of any kind for an array. Throws the Python exception.
resolved_selection resolve_key(const array_handle& self, nb::handle key);

/// Python's part of reading keys that are not basic: `self._read_fancy(key, threads, progress)`.
nb::object read_fancy(nb::handle self, nb::handle key, unsigned threads, nb::handle progress);

// Made by penstock.core.indexing from users' keys. Index arrays are int64, masks bool; both in C order.
selection_handle orthogonal_of(const array_handle& self, const nb::tuple& items);
selection_handle points_of(const array_handle& self, const nb::tuple& lists, const nb::tuple& shape);
selection_handle mask_of(const array_handle& self, nb::handle mask);
selection_handle blocks_of(const array_handle& self, const nb::tuple& items);

void bind_selection(nb::module_& m);

}  // namespace penstock::inline v0::python
