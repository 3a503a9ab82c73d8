#pragma once

#include <memory>
#include <vector>

#include "bind.h"

namespace penstock::inline v0::python {

/// Elements of variable length in C order, and the owners of their bytes: between NumPy's arrays of objects or strings
/// and the engine.
class item_block {
 public:
  /// Memory for the result of a read.
  item_block(const dtype& type, const extents& shape);
  /// The elements of `values` (anything that numpy.asarray takes) for a write: strings, bytes, or any objects. None is
  /// the empty string. Raises TypeError if an element is of another kind. The GIL is held.
  item_block(const dtype& type, nb::handle values);
  item_block(item_block&&) noexcept = default;

  const std::shared_ptr<item_arena>& arena() const noexcept { return arena_; }
  /// The items; borrowed.
  tensor_view view() noexcept { return tensor_view::contiguous(items_.data(), type_, shape_); }

  /// As `ndarray_of_items`.
  PyObject* to_ndarray(PyObject* dtype) const noexcept;

 private:
  dtype type_;
  extents shape_;
  std::vector<variable_item> items_;
  std::shared_ptr<item_arena> arena_;
};

/// A new NumPy array of Python objects; null: a Python exception is set.
PyObject* objects_of(std::span<const variable_item> items, const dtype& type, const extents& shape) noexcept;
/// A new NumPy array with Python objects, or text, from items; null: a Python exception is set. The GIL is held.
/// `numpy_type` as from `numpy_dtype`.
PyObject* ndarray_of_items(std::span<const variable_item> items, const dtype& type, const extents& shape,
                           PyObject* numpy_type) noexcept;
/// One item as a Python object; null: a Python exception is set.
PyObject* object_of(const variable_item& item, const dtype& type) noexcept;

/// The target of a read: a new ndarray, or items that become one after the read.
class read_result {
 public:
  /// Returns false if a Python exception is set.
  bool prepare(const array_handle& from, const extents& shape) noexcept;
  const tensor_view& view() const noexcept { return view_; }
  /// Null if the elements have a fixed size.
  std::shared_ptr<item_arena> arena() const noexcept {
    return items_ ? items_->arena() : std::shared_ptr<item_arena>();
  }
  /// The ndarray, after the read has succeeded. Null: a Python exception is set.
  PyObject* take() noexcept;

 private:
  nb::object array_;
  std::unique_ptr<item_block> items_;
  nb::object dtype_;
  tensor_view view_;
};

}  // namespace penstock::inline v0::python
