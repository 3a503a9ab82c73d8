#include "bind_items.h"

#include <string>
#include <utility>
#include <vector>

#include "array/list_items.h"

namespace penstock::inline v0::python {
namespace {

PyObject* object_of_list(const variable_item& item, const dtype& type, nb::handle item_type);
// An array of objects as one of `numpy_type`; null: a Python exception is set.
PyObject* array_of_type(nb::object made, PyObject* numpy_type) noexcept;

nb::object numpy(const char* name) { return nb::module_::import_("numpy").attr(name); }

// A contiguous array's memory. NumPy exports object arrays too.
PyObject** objects_in(PyObject* array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) throw_python_error();
  auto* const at = static_cast<PyObject**>(view.buf);
  PyBuffer_Release(&view);  // the array is ours: its memory does not move
  return at;
}

[[noreturn]] void wrong_element(PyObject* element, const char* wanted) {
  const std::string text = std::string("elements must be ") + wanted + ", one is " + type_name_of(element);
  throw nb::type_error(text.c_str());
}

bool stands_for_nothing(PyObject* element) {
  if (element == nullptr || element == Py_None) return true;
  return PyLong_CheckExact(element) != 0 && PyLong_AsLong(element) == 0 && PyErr_Occurred() == nullptr;
}

variable_item text_item(PyObject* element) {
  if (stands_for_nothing(element)) return {};
  if (PyUnicode_Check(element) == 0) wrong_element(element, "str");
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(element, &size);
  if (text == nullptr) throw_python_error();
  if (size == 0) return {};
  return {reinterpret_cast<const std::byte*>(text), static_cast<std::uint64_t>(size)};
}

variable_item bytes_item(PyObject* element, item_arena& arena) {
  if (stands_for_nothing(element)) return {};
  if (PyBytes_Check(element) != 0) {
    const Py_ssize_t size = PyBytes_Size(element);
    if (size == 0) return {};
    return {reinterpret_cast<const std::byte*>(PyBytes_AsString(element)), static_cast<std::uint64_t>(size)};
  }
  Py_buffer view;
  if (PyUnicode_Check(element) != 0 || PyObject_GetBuffer(element, &view, PyBUF_SIMPLE) < 0) {
    PyErr_Clear();
    wrong_element(element, "bytes");
  }
  auto copied = arena.copy({static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)});
  PyBuffer_Release(&view);
  return unwrap(std::move(copied));
}

// The dtype of an array of one list's items; None: they are objects. That of arrays gives further dimensions to it.
nb::object dtype_of_items(const dtype& list) {
  return list.item() == nullptr || list.item()->variable_length() ? nb::none() : list_item_dtype(list);
}

// A list, converted from anything from which NumPy makes a one-dimensional array.
variable_item list_item(PyObject* element, nb::handle item_type, item_arena& arena) {
  if (stands_for_nothing(element)) return {};
  const nb::object made = numpy("ascontiguousarray")(nb::handle(element), item_type);
  if (nb::cast<int>(made.attr("ndim")) != 1) wrong_element(element, "lists of one dimension");
  const nb::object bytes = made.attr("tobytes")();
  const Py_ssize_t size = PyBytes_Size(bytes.ptr());
  if (size == 0) return {};
  const auto* const data = reinterpret_cast<const std::byte*>(PyBytes_AsString(bytes.ptr()));
  return unwrap(arena.copy({data, static_cast<std::size_t>(size)}));
}

// A new array of objects. The recursion is as deep as lists are nested, which `dtype` limits.
PyObject* object_of_nested(const variable_item& list, const dtype& type) {
  const std::vector<variable_item> items = split_list(list);
  const nb::object item_type = dtype_of_items(*type.item());
  nb::object made = numpy("empty")(items.size(), "O");
  PyObject** const objects = items.empty() ? nullptr : objects_in(made.ptr());
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyObject* const element = type.item()->item() == nullptr ? object_of(items[i], *type.item())
                                                             : object_of_list(items[i], *type.item(), item_type);
    if (element == nullptr) throw nb::python_error();
    PyObject* const before = std::exchange(objects[i], element);
    Py_XDECREF(before);
  }
  return made.release().ptr();
}

// A new array, which owns its memory. \param item_type  `dtype_of_items`.
PyObject* object_of_list(const variable_item& item, const dtype& type, nb::handle item_type) {
  if (type.item()->variable_length()) return object_of_nested(item, type);
  nb::object memory = nb::steal(
      PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(item.data), static_cast<Py_ssize_t>(item.size)));
  if (!memory.is_valid()) return nullptr;
  const auto count = item.size / nb::cast<std::uint64_t>(item_type.attr("itemsize"));
  return nb::object(numpy("ndarray")(nb::make_tuple(count), item_type, memory)).release().ptr();
}

}  // namespace

item_block::item_block(const dtype& type, const extents& shape)
    : type_(type), shape_(shape), arena_(std::make_shared<item_arena>()) {
  items_.resize(static_cast<std::size_t>(unwrap(element_count(shape))));
}

item_block::item_block(const dtype& type, nb::handle values) : type_(type), arena_(std::make_shared<item_arena>()) {
  // A copy of the references, so that no other code drops the items' bytes while the engine works without the GIL.
  nb::object owned = numpy("array")(values, nb::arg("dtype") = "O", nb::arg("order") = "C", nb::arg("copy") = true);
  check_rank(nb::len(nb::object(owned.attr("shape"))));
  for (const nb::handle size : nb::object(owned.attr("shape"))) shape_.push_back(nb::cast<std::uint64_t>(size));
  items_.resize(static_cast<std::size_t>(unwrap(element_count(shape_))));
  PyObject** const objects = items_.empty() ? nullptr : objects_in(owned.ptr());
  if (is_nested_list(type))
    raise(error(errc::unsupported, "lists of lists, arrays and text are read only: " + type.name()));
  const nb::object item_type = dtype_of_items(type);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (type.kind() == dtype_kind::variable_utf8) {
      items_[i] = text_item(objects[i]);
    } else if (type.kind() == dtype_kind::variable_bytes) {
      items_[i] = bytes_item(objects[i], *arena_);
    } else if (type.kind() == dtype_kind::variable_list) {
      items_[i] = list_item(objects[i], item_type, *arena_);
    } else {
      items_[i] = {reinterpret_cast<const std::byte*>(objects[i]), 0};
    }
  }
  arena_->keep(std::shared_ptr<const void>(owned.release().ptr(), drop_reference));
}

PyObject* object_of(const variable_item& item, const dtype& type) noexcept {
  if (type.item() != nullptr) {
    try {
      return object_of_list(item, type, dtype_of_items(type));
    } catch (nb::python_error& failed) {
      failed.restore();
    } catch (const std::exception& failed) {
      set_error(failed);
    }
    return nullptr;
  }
  const auto size = static_cast<Py_ssize_t>(item.size);
  const auto* const text = reinterpret_cast<const char*>(item.data);
  if (type.kind() == dtype_kind::variable_utf8) return PyUnicode_DecodeUTF8(text == nullptr ? "" : text, size, nullptr);
  if (type.kind() == dtype_kind::variable_bytes) return PyBytes_FromStringAndSize(text == nullptr ? "" : text, size);
  auto* const object = item.data == nullptr ? Py_None : reinterpret_cast<PyObject*>(const_cast<std::byte*>(item.data));
  Py_INCREF(object);
  return object;
}

PyObject* objects_of(std::span<const variable_item> items, const dtype& type, const extents& shape) noexcept {
  try {
    nb::object made = numpy("empty")(to_tuple(shape), "O");
    PyObject** const objects = items.empty() ? nullptr : objects_in(made.ptr());
    const nb::object item_type = dtype_of_items(type);
    for (std::size_t i = 0; i < items.size(); ++i) {
      PyObject* const element =
          type.item() == nullptr ? object_of(items[i], type) : object_of_list(items[i], type, item_type);
      if (element == nullptr) return nullptr;
      PyObject* const before = std::exchange(objects[i], element);
      Py_XDECREF(before);
    }
    return made.release().ptr();
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return nullptr;
}

PyObject* ndarray_of_items(std::span<const variable_item> items, const dtype& type, const extents& shape,
                           PyObject* numpy_type) noexcept {
  return array_of_type(nb::steal(objects_of(items, type, shape)), numpy_type);
}

namespace {

PyObject* array_of_type(nb::object made, PyObject* numpy_type) noexcept {
  if (!made.is_valid()) return nullptr;
  try {
    const nb::object character = nb::handle(numpy_type).attr("char");
    if (PyUnicode_CompareWithASCIIString(character.ptr(), "O") == 0) return made.release().ptr();
    return nb::object(made.attr("astype")(nb::handle(numpy_type))).release().ptr();
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return nullptr;
}

}  // namespace

PyObject* item_block::to_ndarray(PyObject* dtype) const noexcept {
  return ndarray_of_items(items_, type_, shape_, dtype);
}

bool read_result::prepare(const array_handle& from, const extents& shape) noexcept {
  const dtype type = from.array().type();
  if (!type.variable_length()) {
    std::byte* data = nullptr;
    array_ = nb::steal(new_ndarray(from.array().context(), from.dtype.ptr(), type.item_bytes(), shape, data));
    if (!array_.is_valid()) return false;
    view_ = tensor_view::contiguous(data, type, shape);
    return true;
  }
  try {
    items_ = std::make_unique<item_block>(type, shape);
    dtype_ = from.dtype;
    view_ = items_->view();
    return true;
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return false;
}

PyObject* read_result::take() noexcept {
  if (items_) {
    // Long items are freed before their objects are converted, so that text is in memory twice and not three times.
    constexpr std::uint64_t kLongBytes = std::uint64_t{1} << 20;
    if (items_->arena()->bytes() < kLongBytes) {
      PyObject* const made = items_->to_ndarray(dtype_.ptr());
      items_.reset();
      return made;
    }
    nb::object made;
    try {
      made = nb::steal(items_->to_ndarray(nb::object(numpy("dtype")("O")).ptr()));
    } catch (nb::python_error& failed) {
      failed.restore();
    }
    items_.reset();
    return array_of_type(std::move(made), dtype_.ptr());
  }
  return array_.release().ptr();
}

}  // namespace penstock::inline v0::python
