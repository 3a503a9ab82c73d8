#include <limits>
#include <memory>

#include <cstring>
#include <string>
#include <string_view>

#include "api/read_source.h"
#include "bind_selection.h"
#include "engine/array_state.h"

namespace penstock::inline v0::python {
namespace {

void refuse(const char* why) noexcept { set_error(error(errc::out_of_range, why)); }

bool parse_slice(PyObject* item, std::vector<basic_item>& items) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(item, &start, &stop, &step) < 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) return false;
    PyErr_Clear();
    items.emplace_back(slice{std::nullopt, std::nullopt, 0});  // the engine's message for a step of 0
    return true;
  }
  // PySlice_Unpack replaces an absent part by an extreme number. The text of a plan is more readable without it.
  constexpr Py_ssize_t kMax = std::numeric_limits<Py_ssize_t>::max(), kMin = std::numeric_limits<Py_ssize_t>::min();
  slice parsed;
  if (start != (step < 0 ? kMax : 0)) parsed.start = start;
  if (stop != (step < 0 ? kMin : kMax)) parsed.stop = stop;
  if (step != 1) parsed.step = step;
  items.emplace_back(parsed);
  return true;
}

// Whether an object with `__index__` is a mask, or a tensor with dimensions: those of other libraries have `__index__`
// if they have one element. NumPy's objects, which export buffers, have it only as integers without dimensions.
bool is_list_or_mask(PyObject* item) {
  if (PyObject_CheckBuffer(item) != 0) return false;
  const auto text_of = [item](const char* name) {
    PyObject* const found = PyObject_GetAttrString(item, name);
    PyObject* const shown = found == nullptr ? nullptr : PyObject_Str(found);
    Py_XDECREF(found);
    Py_ssize_t size = 0;
    const char* const text = shown == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(shown, &size);
    std::string out = text == nullptr ? std::string() : std::string(text, static_cast<std::size_t>(size));
    Py_XDECREF(shown);
    PyErr_Clear();  // most objects have no such attribute
    return out;
  };
  const std::string dimensions = text_of("ndim");
  return !dimensions.empty() && (dimensions != "0" || text_of("dtype").ends_with("bool"));
}

parsed_key parse_item(PyObject* item, std::vector<basic_item>& items, bool& has_ellipsis) {
  PyTypeObject* const type = Py_TYPE(item);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0) {
      refuse("cannot fit 'int' into an index-sized integer");
      return parsed_key::failed;
    }
    items.emplace_back(std::int64_t{value});
    return parsed_key::basic;
  }
  if (type == &PySlice_Type) return parse_slice(item, items) ? parsed_key::basic : parsed_key::failed;
  if (item == Py_Ellipsis) {
    if (has_ellipsis) {
      refuse("an index can only have a single ellipsis ('...')");
      return parsed_key::failed;
    }
    has_ellipsis = true;
    items.emplace_back(ellipsis);
    return parsed_key::basic;
  }
  if (item == Py_None) {
    items.emplace_back(newaxis);
    return parsed_key::basic;
  }
  if (type == &PyBool_Type) return parsed_key::other;  // a mask to NumPy
  // NumPy integers, 0-d integer arrays, and other objects with `__index__`.
  PyObject* const number = PyIndex_Check(item) != 0 && !is_list_or_mask(item) ? PyNumber_Index(item) : nullptr;
  if (number == nullptr) {
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) == 0) return parsed_key::failed;
    PyErr_Clear();
    return parsed_key::other;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (overflow != 0) {
    refuse("cannot fit 'int' into an index-sized integer");
    return parsed_key::failed;
  }
  items.emplace_back(std::int64_t{value});
  return parsed_key::basic;
}

}  // namespace

parsed_key parse_key(PyObject* key, std::vector<basic_item>& items, bool& has_ellipsis) noexcept {
  try {
    items.clear();
    has_ellipsis = false;
    if (Py_TYPE(key) != &PyTuple_Type && PyTuple_Check(key) == 0) return parse_item(key, items, has_ellipsis);
    const Py_ssize_t count = PyTuple_Size(key);
    for (Py_ssize_t i = 0; i < count; ++i) {
      const parsed_key found = parse_item(PyTuple_GetItem(key, i), items, has_ellipsis);
      if (found != parsed_key::basic) return found;
    }
    return parsed_key::basic;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return parsed_key::failed;
  }
}

const selection_handle* as_selection(nb::handle key) noexcept {
  return nb::isinstance<selection_handle>(key) && nb::inst_ready(key) ? nb::inst_ptr<selection_handle>(key) : nullptr;
}

resolved_selection resolve_key(const array_handle& self, nb::handle key) {
  basic_selection which;
  bool has_ellipsis = false;
  switch (parse_key(key.ptr(), which.items, has_ellipsis)) {
    case parsed_key::basic:
      return unwrap(self.array().select(which));
    case parsed_key::failed:
      throw_python_error();
    case parsed_key::other:
      break;
  }
  return resolved_of(self, key);
}

const resolved_selection& resolved_of(const array_handle& self, nb::handle key) {
  const selection_handle* const made = as_selection(key);
  if (made == nullptr) {
    raise(error(errc::out_of_range,
                "only integers, slices (`:`), ellipsis (`...`) and numpy.newaxis (`None`) are valid "
                "indices here; oindex and vindex take lists, index arrays and masks"));
  }
  if (!(made->array_shape == self.array().shape())) {
    raise(error(errc::invalid_argument, "the selection was made for an array of shape " + to_string(made->array_shape) +
                                            ", this one has " + to_string(self.array().shape())));
  }
  return made->resolved;
}

nb::object read_fancy(nb::handle self, nb::handle key, unsigned threads, nb::handle progress) {
  return self.attr("_read_fancy")(key, threads, progress);
}

namespace {

// The memory of a C-order array of items of `item_bytes`, for as long as the object lives.
class exported_array {
 public:
  exported_array(nb::handle object, std::string_view formats, Py_ssize_t item_bytes) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) throw_python_error();
    const std::string_view format = buffer_.format == nullptr ? "B" : buffer_.format;
    if (format.size() == 1 && formats.find(format[0]) != std::string_view::npos && buffer_.itemsize == item_bytes)
      return;
    PyBuffer_Release(&buffer_);
    raise(error(errc::internal, "an index array of an unexpected type"));
  }
  exported_array(const exported_array&) = delete;
  ~exported_array() { PyBuffer_Release(&buffer_); }

  const void* data() const noexcept { return buffer_.buf; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(buffer_.len / buffer_.itemsize); }
  extents shape() const {
    extents out;
    if (static_cast<std::size_t>(buffer_.ndim) > kMaxRank)
      raise(error(errc::out_of_range, "an index array of more than 32 dimensions"));
    for (int d = 0; d < buffer_.ndim; ++d) out.push_back(static_cast<std::uint64_t>(buffer_.shape[d]));
    return out;
  }

 private:
  Py_buffer buffer_{};
};

index_list indexes_of(nb::handle array) {
  const exported_array items(array, "lq", 8);
  index_list out(items.size());
  if (!out.empty()) std::memcpy(out.data(), items.data(), out.size() * 8);
  return out;
}

// An int or a slice; false for other objects.
template <class Item>
bool append_basic(nb::handle from, std::vector<Item>& items) {
  std::vector<basic_item> one;
  bool has_ellipsis = false;
  switch (parse_key(from.ptr(), one, has_ellipsis)) {
    case parsed_key::failed:
      throw_python_error();
    case parsed_key::other:
      return false;
    case parsed_key::basic:
      break;
  }
  if (one.size() != 1) return false;
  if (const auto* index = std::get_if<std::int64_t>(&one[0])) {
    items.emplace_back(*index);
  } else if (const auto* range = std::get_if<slice>(&one[0])) {
    items.emplace_back(*range);
  } else {
    return false;
  }
  return true;
}

selection_handle resolved(const array_handle& self, const selection& which) {
  const array a = self.array();  // another thread may resize the Array meanwhile
  return {call_engine([&] { return a.select(which); }), a.shape()};
}

}  // namespace

selection_handle orthogonal_of(const array_handle& self, const nb::tuple& items) {
  orthogonal_selection which;
  for (const nb::handle item : items)
    if (!append_basic(item, which.items)) which.items.emplace_back(indexes_of(item));
  return resolved(self, which);
}

selection_handle points_of(const array_handle& self, const nb::tuple& lists, const nb::tuple& shape) {
  // The lists are not moved: a million points would be a large copy.
  std::vector<std::unique_ptr<exported_array>> exported;
  coordinate_view which;
  if (shape.size() > kMaxRank) raise(error(errc::out_of_range, "index arrays of more than 32 dimensions"));
  for (const nb::handle size : shape) which.shape.push_back(nb::cast<std::uint64_t>(size));
  for (const nb::handle list : lists) {
    exported.push_back(std::make_unique<exported_array>(list, "lq", 8));
    which.points.emplace_back(static_cast<const std::int64_t*>(exported.back()->data()), exported.back()->size());
  }
  const array a = self.array();  // another thread may resize the Array meanwhile
  return {call_engine([&]() -> result<resolved_selection> {
            auto made = resolve_points(a.state(), which);
            if (!made.ok()) return std::move(made).error().note("array '" + a.uri() + "'");
            return made;
          }),
          a.shape()};
}

selection_handle mask_of(const array_handle& self, nb::handle mask) {
  const exported_array items(mask, "?", 1);
  const extents shape = items.shape();
  const std::span bytes(static_cast<const std::uint8_t*>(items.data()), items.size());
  const array a = self.array();
  return {call_engine([&] { return a.select(mask_selection::pack(shape, bytes)); }), a.shape()};
}

selection_handle blocks_of(const array_handle& self, const nb::tuple& items) {
  block_selection which;
  for (const nb::handle item : items) {
    if (!append_basic(item, which.items))
      raise(error(errc::out_of_range, "blocks take ints and slices of step 1, one for each dimension at most"));
  }
  return resolved(self, which);
}

void bind_selection(nb::module_& m) {
  nb::class_<selection_handle>(m, "_Selection", "A selection resolved against an array: it may be read repeatedly.")
      .def_prop_ro("shape", [](const selection_handle& self) { return to_tuple(self.resolved.shape); });
}

}  // namespace penstock::inline v0::python
