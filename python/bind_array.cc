#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <penstock/device.h>
#include "bind.h"
#include "bind_items.h"
#include "bind_read.h"
#include "bind_selection.h"
#include "bind_tiff.h"
#include "bind_write.h"

namespace penstock::inline v0::python {
namespace {

// A read on this thread that is not running yet keeps its list of items here: a warm `a[...]` allocates none.
thread_local std::vector<basic_item> spare_items;

class borrowed_selection {
 public:
  borrowed_selection() { which.items = std::move(spare_items); }
  ~borrowed_selection() { spare_items = std::move(which.items); }
  borrowed_selection(const borrowed_selection&) = delete;

  basic_selection which;
};

struct read_request {
  unsigned threads = 0;
  nb::handle progress = nb::handle(Py_None);
};

// Reads into a new ndarray; a scalar if `scalar` is set and there are no dimensions. Null: a Python exception is set.
template <class Resolved>
PyObject* read_resolved(const array_handle& from, const Resolved& where, const read_request& how, bool scalar) {
  const array a = from.array();  // another thread may resize the Array while memory is allocated
  read_result made;
  if (!made.prepare(from, where.shape)) return nullptr;
  const tensor_view& target = made.view();

  if (how.threads == 0 && how.progress.is_none() && a.runs_inline(where)) {
    result<> outcome;
    {
      const gil_is_held held;
      read_options options;
      options.arena = made.arena();
      outcome = a.read(where, target, options);
    }
    drop_left_references();
    if (restore_exception()) return nullptr;
    if (!outcome.ok()) {
      set_error(outcome.error());
      return nullptr;
    }
  } else if (!read_without_gil(a, where, target, how.threads, how.progress, made.arena())) {
    return nullptr;
  }
  nb::object out = nb::steal(made.take());
  if (!out.is_valid()) return nullptr;

  if (where.shape.empty() && scalar) {
    PyObject* const nothing = PyTuple_New(0);
    if (nothing == nullptr) return nullptr;
    PyObject* const item = PyObject_GetItem(out.ptr(), nothing);
    Py_DECREF(nothing);
    return item;
  }
  return out.release().ptr();
}

// The value of `a[key]`. Null: a Python exception is set.
PyObject* read_key(PyObject* self, PyObject* key, const read_request& how) noexcept {
  try {
    const array_handle& from = nb::cast<const array_handle&>(nb::handle(self));  // `self` may have any type in `_read`
    borrowed_selection borrowed;
    bool has_ellipsis = false;
    switch (parse_key(key, borrowed.which.items, has_ellipsis)) {
      case parsed_key::basic:
        break;
      case parsed_key::other:
        if (as_selection(key) != nullptr) return read_resolved(from, resolved_of(from, key), how, false);
        return read_fancy(self, key, how.threads, how.progress).release().ptr();
      case parsed_key::failed:
        return nullptr;
    }
    auto where = resolve(borrowed.which, from.array().shape());
    if (!where.ok()) {
      set_error(std::move(where).error().note("array '" + from.array().uri() + "'"));
      return nullptr;
    }
    // As in NumPy: ints for all dimensions give a scalar, with an Ellipsis a 0-d array.
    return read_resolved(from, *where, how, !has_ellipsis);
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return nullptr;
}

PyObject* get_item(PyObject* self, PyObject* key) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "this Array was never opened: use penstock.open");
    return nullptr;
  }
  return read_key(self, key, {});
}

Py_ssize_t length(PyObject* self) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "this Array was never opened: use penstock.open");
    return -1;
  }
  const array& a = nb::inst_ptr<array_handle>(self)->array();
  const extents& shape = a.shape();
  if (shape.empty()) {
    PyErr_SetString(PyExc_TypeError, "len() of unsized object");
    return -1;
  }
  return static_cast<Py_ssize_t>(shape[0]);
}

const PyType_Slot kSlots[] = {{Py_mp_subscript, reinterpret_cast<void*>(get_item)},
                              {Py_mp_ass_subscript, reinterpret_cast<void*>(set_item)},
                              {Py_mp_length, reinterpret_cast<void*>(length)},
                              {0, nullptr}};

nb::object read_array(nb::handle self, nb::handle key, unsigned threads, nb::handle progress) {
  PyObject* const made = read_key(self.ptr(), key.ptr(), {threads, progress});
  if (made == nullptr) throw_python_error();
  return nb::steal(made);
}

// `dtype`: of `out`; None: the array's.
void read_into(const array_handle& self, nb::handle key, nb::handle out, unsigned threads, nb::handle progress,
               nb::handle dtype) {
  const resolved_selection which = resolve_key(self, key);
  const array a = self.array();  // another thread, or code of `out`, may resize the Array meanwhile
  if (a.type().variable_length()) {
    // Objects and text are created from the read items, then assigned.
    item_block items(a.type(), which.shape);
    if (!read_without_gil(a, which, items.view(), threads, progress, items.arena())) throw_python_error();
    const nb::object made = nb::steal(items.to_ndarray(self.dtype.ptr()));
    if (!made.is_valid()) throw_python_error();
    out[nb::ellipsis()] = made;
    return;
  }
  const exported_buffer target(out, dtype.is_none() ? a.type() : dtype_of(dtype));
  if (!read_without_gil(a, which, target.view(), threads, progress)) throw_python_error();
}

ticket_handle start_read(const array_handle& self, nb::handle key, nb::object out, unsigned threads,
                         nb::handle numpy_type) {
  const resolved_selection which = resolve_key(self, key);
  const array a = self.array();  // another thread may resize the Array meanwhile
  const nb::handle as_made = numpy_type.is_none() ? nb::handle(self.dtype) : numpy_type;
  const dtype type = numpy_type.is_none() ? a.type() : dtype_of(numpy_type);
  if (out.is_none()) {
    std::byte* data = nullptr;
    PyObject* const made = new_ndarray(a.context(), as_made.ptr(), type.item_bytes(), which.shape, data);
    if (made == nullptr) throw_python_error();
    out = nb::steal(made);
  }
  exported_buffer target(out, type);
  read_options options;
  options.threads = threads;
  if (!(type == a.type())) options.type = type;
  ticket started = call_engine([&] { return a.read_async(which, target.view(), options); });
  return {std::move(started), std::move(out), std::move(target)};
}

// For each dimension (start, step, count, axis of the result or -1), or None if the selection is not a box; and the
// result's shape.
nb::tuple ranges_of(const array_handle& self, nb::handle key) {
  const resolved_selection where = resolve_key(self, key);
  const nb::tuple shape = to_tuple(where.shape);
  if (where.indexed) return nb::make_tuple(nb::none(), shape);
  nb::list ranges;
  for (std::size_t d = 0; d < where.from.size(); ++d) {
    const axis_range& range = where.from[d];
    ranges.append(nb::make_tuple(range.start, range.step, range.count, static_cast<int>(where.axis[d])));
  }
  return nb::make_tuple(nb::tuple(ranges), shape);
}

// Whether the engine converts elements of the one dtype to the other; false also for dtypes that it does not support.
bool converts_numpy(nb::handle from, nb::handle to) {
  for (const nb::handle each : {from, to})
    if (!nb::cast<bool>(each.attr("isnative"))) return false;
  try {
    return converts(dtype_of(from), dtype_of(to));
  } catch (const nb::python_error&) {
    return false;
  }
}

nb::dict plan(const array_handle& self, nb::handle key, std::size_t max_lines, std::size_t max_touched,
              bool on_device) {
  const resolved_selection which = resolve_key(self, key);
  const array a = self.array();
  const plan_summary made = call_engine([&] {
    return on_device ? summarize_device_plan(a, which, max_lines, max_touched)
                     : a.summarize_plan(which, max_lines, max_touched);
  });
  nb::dict out;
  out["text"] = to_str(made.text);
  out["selects"] = to_str(made.selects);
  out["cells"] = made.cells;
  out["grid_cells"] = made.grid_cells;
  out["complete"] = made.complete;
  out["index_requests"] = made.index_requests;
  out["index_bytes"] = made.index_bytes;
  out["requests"] = made.requests;
  out["fetched_bytes"] = made.fetched_bytes;
  out["whole_objects"] = made.whole_objects;
  out["unknown_sizes"] = made.unknown_sizes;
  out["version_checks"] = made.version_checks;
  out["direct"] = made.direct;
  out["scattered"] = made.scattered;
  out["in_place"] = made.in_place;
  out["filled"] = made.filled;
  out["decoded_bytes"] = made.decoded_bytes;
  out["returned_bytes"] = made.returned_bytes;
  out["chunks"] = to_tuple(made.chunks);
  nb::list touched;
  const std::size_t rank = made.chunks.size();
  for (std::size_t i = 0; rank != 0 && i + rank <= made.touched.size(); i += rank) {
    extents at(rank);
    for (std::size_t d = 0; d < rank; ++d) at[d] = made.touched[i + d];
    touched.append(to_tuple(at));
  }
  out["touched"] = nb::tuple(touched);
  return out;
}

nb::object dimension_names(const array_handle& self) {
  const array a = self.array();
  const auto& names = a.dimension_names();
  if (names.empty()) return nb::none();
  nb::list all;
  for (const auto& name : names) {
    if (name) {
      all.append(to_str(*name));
    } else {
      all.append(nb::none());
    }
  }
  return nb::tuple(all);
}

nb::object shards(const array_handle& self) {
  const array a = self.array();
  const extents* const shape = a.shards();
  if (shape == nullptr) return nb::none();
  return to_tuple(*shape);
}

nb::bytes fill_value(const array_handle& self) {
  const array a = self.array();
  const auto bytes = a.fill_value();
  return nb::bytes(bytes.data(), bytes.size());
}

// An array with elements of variable length.
nb::object fill_object(const array_handle& self) {
  variable_item item;
  const array a = self.array();
  const auto bytes = a.fill_value();
  if (!self.array().type().variable_length() || bytes.size() != sizeof item) return nb::none();
  std::memcpy(&item, bytes.data(), sizeof item);
  PyObject* const made = object_of(item, self.array().type());
  if (made == nullptr) throw_python_error();
  return nb::steal(made);
}

}  // namespace

array_handle::array_handle(penstock::array from) : array(from), dtype(numpy_dtype(from.type())) {}

void bind_array(nb::module_& m) {
  m.def("_converts", converts_numpy, nb::arg("from_"), nb::arg("to"));
  bind_ticket(m);
  bind_selection(m);
  nb::class_<array_handle> type(m, "Array", nb::type_slots(kSlots), "An open array; penstock.Array derives from it.");
  bind_write(m, type);
  type.def(nb::init<const array_handle&>(), nb::arg("from_"))
      .def_prop_ro("shape", [](const array_handle& self) { return to_tuple(self.array().shape()); })
      .def_prop_ro("dtype", [](const array_handle& self) { return self.dtype; })
      .def_prop_ro("chunks", [](const array_handle& self) { return to_tuple(self.array().chunks()); })
      .def_prop_ro("shards", shards)
      .def_prop_ro("dimension_names", dimension_names)
      .def_prop_ro("format", [](const array_handle& self) { return to_str(self.array().format()); })
      .def_prop_ro("uri", [](const array_handle& self) { return to_str(self.array().uri()); })
      .def_prop_ro("read_only", [](const array_handle& self) { return self.array().read_only(); })
      .def_prop_ro("_fill_value_bytes", fill_value)
      .def_prop_ro("_fill_object", fill_object)
      .def_prop_ro("_has_items", [](const array_handle& self) { return self.array().type().variable_length(); })
      .def_prop_ro("_fill_value_json", [](const array_handle& self) { return to_str(self.array().fill_value_json()); })
      .def_prop_ro("_attributes_json", [](const array_handle& self) { return self.attributes.get(self.array()); })
      .def_prop_ro("_tiff_details", tiff_of)
      .def("_tiff_image", tiff_image_of, nb::arg("options"))
      .def_prop_ro("_codecs_text", [](const array_handle& self) { return to_str(self.array().codecs_text()); })
      .def_prop_ro("_codecs_json", [](const array_handle& self) { return to_str(self.array().codecs_json()); })
      .def("_read", read_array, nb::arg("key").none(), nb::arg("threads"), nb::arg("progress").none())
      .def("_read_into", read_into, nb::arg("key").none(), nb::arg("out"), nb::arg("threads"),
           nb::arg("progress").none(), nb::arg("dtype").none() = nb::none())
      .def("_start_read", start_read, nb::arg("key").none(), nb::arg("out").none(), nb::arg("threads"),
           nb::arg("dtype").none() = nb::none())
      .def(
          "_become",
          [](array_handle& self, const array_handle& other) {
            const auto changing = self.array.lock_changes();
            self.array = other.array();
          },
          nb::arg("other"), "From now on it is the same array as `other`, which has its shape and dtype.")
      .def("_resolve", ranges_of, nb::arg("key").none())
      .def("_orthogonal", orthogonal_of, nb::arg("items"))
      .def("_points", points_of, nb::arg("lists"), nb::arg("shape"))
      .def("_of_mask", mask_of, nb::arg("mask"))
      .def("_blocks", blocks_of, nb::arg("items"))
      .def("_plan", plan, nb::arg("key").none(), nb::arg("max_lines"), nb::arg("max_touched"),
           nb::arg("on_device") = false);
}

}  // namespace penstock::inline v0::python
