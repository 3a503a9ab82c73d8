#include "bind_write.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind_items.h"
#include "bind_read.h"
#include "bind_selection.h"
#include "bind_value.h"

namespace penstock::inline v0::python {
namespace {

struct write_request {
  unsigned threads = 0;
  nb::handle progress = nb::handle(Py_None);
  bool durable = false;
  bool write_empty_chunks = false;
};

// Names looked up once; they live as long as the interpreter.
struct writing_names {
  PyObject* ndarray;
  PyObject* as_value;
  PyObject* is_device_value;
};
const writing_names& known_to_writing() {
  static const writing_names all = [] {
    const nb::module_ numpy = nb::module_::import_("numpy");
    const nb::module_ writing = nb::module_::import_("penstock.core.writing");
    const nb::module_ device = nb::module_::import_("penstock.core.device");
    return writing_names{nb::object(numpy.attr("ndarray")).release().ptr(),
                         nb::object(writing.attr("as_value")).release().ptr(),
                         nb::object(device.attr("is_device_value")).release().ptr()};
  }();
  return all;
}

// The type of an ndarray whose elements the engine converts to the array's; nothing if NumPy must convert.
std::optional<dtype> convertible_type(const array_handle& to, PyObject* value) {
  if (Py_TYPE(value) != reinterpret_cast<PyTypeObject*>(known_to_writing().ndarray)) return std::nullopt;
  try {
    const nb::object numpy_type = nb::handle(value).attr("dtype");
    if (!nb::cast<bool>(numpy_type.attr("isnative"))) return std::nullopt;
    const dtype type = dtype_of(numpy_type);
    return converts(type, to.array().type()) ? std::optional(type) : std::nullopt;
  } catch (const nb::python_error&) {  // a dtype that the engine does not support
    return std::nullopt;
  }
}

// Opens `value` as items of the array, with the requested shape; converts and repeats it if it differs. False: a Python
// exception is set. `converted` owns the result.
bool open_value(const array_handle& to, PyObject* value, const extents& shape, exported_value& out,
                nb::object& converted) {
  if (!to.array().type().variable_length() && is_native(to, value) && out.open(value, to.array().type()) &&
      out.view().extents == shape)
    return true;
  if (!to.array().type().variable_length()) {
    exported_value other;
    const auto type = convertible_type(to, value);
    if (type && other.open(value, *type) && other.view().extents == shape) {
      out.take(other);
      return true;
    }
  }
  const nb::tuple sizes = to_tuple(shape);
  PyObject* const args[] = {nullptr, value, to.dtype.ptr(), sizes.ptr()};
  PyObject* const made =
      PyObject_Vectorcall(known_to_writing().as_value, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (made == nullptr) return false;
  converted = nb::steal(made);
  return true;
}

write_options options_of(const write_request& how) {
  write_options out;
  out.threads = how.threads;
  out.durable = how.durable;
  out.write_empty_chunks = how.write_empty_chunks;
  out.convert = true;
  return out;
}

std::uint64_t bytes_of(const tensor_view& value) noexcept {
  std::uint64_t bytes = value.type.item_bytes();
  for (const std::uint64_t size : value.extents) bytes *= size;
  return bytes;
}

// Writes with the GIL held if the write does not wait, otherwise without it.
template <class Resolved>
bool write_resolved(const array& a, const Resolved& where, const tensor_view& value, const write_request& how) {
  write_options options = options_of(how);
  if (how.threads == 0 && how.progress.is_none() && a.runs_inline(where)) {
    result<> outcome;
    options.threads = 1;  // another worker would wait for the GIL: dicts are Python's
    {
      const gil_is_held held;
      outcome = a.write(where, value, options);
    }
    drop_left_references();
    if (restore_exception()) return false;
    if (!outcome.ok()) {
      set_error(outcome.error());
      return false;
    }
    return true;
  }
  return watch_without_gil(how.progress, bytes_of(value),
                           [&](const progress_fn& progress, std::chrono::nanoseconds interval) {
                             options.progress = progress;
                             options.poll_interval = interval;
                             return a.write(where, value, options);
                           });
}

template <class Resolved>
bool write_value(const array_handle& to, const Resolved& where, PyObject* value, const write_request& how) {
  const array a = to.array();  // another thread, or code of `value`, may resize this Array meanwhile
  exported_value direct;
  nb::object converted;
  if (!open_value(to, value, where.shape, direct, converted)) return false;
  if (!converted.is_valid()) return write_resolved(a, where, direct.view(), how);
  if (a.type().variable_length()) {
    item_block items(a.type(), converted);
    return write_resolved(a, where, items.view(), how);
  }
  exported_value made;
  if (!made.open(converted.ptr(), a.type()) || !(made.view().extents == where.shape)) {
    set_error(error(errc::internal, "a converted value has no memory of the array's dtype"));
    return false;
  }
  return write_resolved(a, where, made.view(), how);
}

// A background write, whichever object holds this.
class write_ticket_handle {
 public:
  explicit write_ticket_handle(write_ticket started) noexcept : ticket_(std::move(started)) {}

  bool done() const { return ticket_.done(); }
  nb::tuple progress() const {
    const read_progress now = ticket_.progress();
    return nb::make_tuple(now.done_bytes, now.total_bytes);
  }
  void cancel() noexcept { ticket_.cancel(); }
  bool wait_for(double seconds) {
    return wait_and_look(seconds, [&](std::chrono::nanoseconds most) { return ticket_.wait_for(most); });
  }
  void result() {
    call_engine([&] { return ticket_.wait(); });
  }
  void on_done(nb::object then) {
    std::function<void()> call = call_from_any_thread(std::move(then));
    const without_gil released;
    ticket_.on_done(std::move(call));
  }

 private:
  write_ticket ticket_;
};

// The values are copied before this returns.
write_ticket_handle start_write(const array_handle& self, nb::handle key, nb::handle value, unsigned threads,
                                bool durable, bool write_empty_chunks) {
  const resolved_selection where = resolve_key(self, key);
  const array a = self.array();  // another thread may resize this Array meanwhile
  const write_options options = options_of({threads, nb::handle(Py_None), durable, write_empty_chunks});
  const auto start = [&](const tensor_view& values) {
    return write_ticket_handle(call_engine([&] { return a.write_async(where, values, options); }));
  };
  exported_value direct;
  nb::object converted;
  if (!open_value(self, value.ptr(), where.shape, direct, converted)) throw_python_error();
  if (!converted.is_valid()) return start(direct.view());
  if (a.type().variable_length()) {
    item_block items(a.type(), converted);
    return start(items.view());
  }
  exported_value made;
  if (!made.open(converted.ptr(), a.type()))
    raise(error(errc::internal, "a converted value has no memory of the array's dtype"));
  return start(made.view());
}

// Whether a value is in a device's memory. Objects unrelated to devices are recognised by their type alone.
bool is_device_value(PyObject* value) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  if (type == known_to_writing().ndarray || PyLong_Check(value) || PyFloat_Check(value) || PyList_Check(value) ||
      PyTuple_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value))
    return false;
  if (PyObject_HasAttrString(type, "__dlpack_device__") == 0 &&
      PyObject_HasAttrString(type, "__cuda_array_interface__") == 0)
    return false;
  return nb::cast<bool>(nb::handle(known_to_writing().is_device_value)(nb::handle(value)));
}

// If it returns false, a Python exception is set.
bool write_key(PyObject* self, PyObject* key, PyObject* value, const write_request& how) noexcept {
  try {
    const array_handle& to = nb::cast<const array_handle&>(nb::handle(self));  // `self` may have any type in `_write`
    if (is_device_value(value)) {
      nb::handle(self).attr("_write_from_device")(nb::handle(key), nb::handle(value), how.threads, how.progress,
                                                  how.durable, how.write_empty_chunks);
      return true;
    }
    basic_selection which;
    bool has_ellipsis = false;
    switch (parse_key(key, which.items, has_ellipsis)) {
      case parsed_key::basic:
        break;
      case parsed_key::other:
        if (as_selection(key) != nullptr) return write_value(to, resolved_of(to, key), value, how);
        nb::handle(self).attr("_write_fancy")(nb::handle(key), nb::handle(value), how.threads, how.progress,
                                              how.durable, how.write_empty_chunks);
        return true;
      case parsed_key::failed:
        return false;
    }
    auto where = resolve(which, to.array().shape());
    if (!where.ok()) {
      set_error(std::move(where).error().note("array '" + to.array().uri() + "'"));
      return false;
    }
    return write_value(to, *where, value, how);
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return false;
}

void write_array(nb::handle self, nb::handle key, nb::handle value, unsigned threads, nb::handle progress, bool durable,
                 bool write_empty_chunks) {
  if (!write_key(self.ptr(), key.ptr(), value.ptr(), {threads, progress, durable, write_empty_chunks}))
    throw_python_error();
}

// Values in memory of a device; `memory` is (address, strides in bytes, dtype, device), of the selection's shape.
tensor_view device_values_of(const nb::tuple& memory, const extents& shape) {
  if (memory.size() != 4) raise(error(errc::invalid_argument, "memory must be (address, strides, dtype, device)"));
  tensor_view value;
  value.data = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(memory[0]));
  value.extents = shape;
  for (const nb::handle each : nb::cast<nb::tuple>(memory[1])) value.strides.push_back(nb::cast<std::int64_t>(each));
  if (value.strides.size() != shape.size())
    raise(error(errc::internal, "values in device memory have strides of another shape"));
  value.type = dtype_of(memory[2]);
  value.space = memory_space::cuda;
  return value;
}

write_options device_options_of(const write_request& how, const nb::tuple& memory, std::optional<std::uintptr_t> stream,
                                const std::optional<std::string>& encoder) {
  write_options options = options_of(how);
  options.device = nb::cast<int>(memory[3]);
  options.stream = stream;
  if (encoder) options.encoder = encoder_of(*encoder);
  return options;
}

void write_device(const array_handle& self, nb::handle key, const nb::tuple& memory,
                  std::optional<std::uintptr_t> stream, unsigned threads, nb::handle progress, bool durable,
                  bool write_empty_chunks, const std::optional<std::string>& encoder) {
  const resolved_selection where = resolve_key(self, key);
  const array a = self.array();  // another thread may resize this Array meanwhile
  const tensor_view value = device_values_of(memory, where.shape);
  write_options options = device_options_of({threads, progress, durable, write_empty_chunks}, memory, stream, encoder);
  const bool done =
      watch_without_gil(progress, bytes_of(value), [&](const progress_fn& call, std::chrono::nanoseconds interval) {
        options.progress = call;
        options.poll_interval = interval;
        return a.write(where, value, options);
      });
  if (!done) throw_python_error();
}

// As `_write_device`. With `stream` the values are copied in its order, and this does not wait for the device.
write_ticket_handle start_write_device(const array_handle& self, nb::handle key, const nb::tuple& memory,
                                       std::optional<std::uintptr_t> stream, unsigned threads, bool durable,
                                       bool write_empty_chunks, const std::optional<std::string>& encoder) {
  const resolved_selection where = resolve_key(self, key);
  const array a = self.array();  // another thread may resize this Array meanwhile
  const tensor_view value = device_values_of(memory, where.shape);
  const write_options options =
      device_options_of({threads, nb::handle(Py_None), durable, write_empty_chunks}, memory, stream, encoder);
  return write_ticket_handle(call_engine([&] { return a.write_async(where, value, options); }));
}

extents extents_of(const nb::tuple& sizes) {
  if (sizes.size() > kMaxRank) raise(error(errc::invalid_argument, "a shape has at most 32 dimensions"));
  extents out;
  for (const nb::handle size : sizes) out.push_back(length_of(size));
  return out;
}

void resize(array_handle& self, const nb::tuple& shape) {
  const auto lock = self.array.lock_changes();
  const array before = self.array();
  const extents wanted = extents_of(shape);
  self.array = call_engine([&] { return before.resize(wanted); });
}

void append_rows(array_handle& self, const tensor_view& rows, std::size_t axis, const write_request& how) {
  const auto lock = self.array.lock_changes();
  const array before = self.array();
  std::optional<array> after;
  const bool done = watch_without_gil(how.progress, bytes_of(rows),
                                      [&](const progress_fn& call, std::chrono::nanoseconds interval) -> result<> {
                                        write_options options = options_of(how);
                                        options.progress = call;
                                        options.poll_interval = interval;
                                        auto longer = before.append(rows, axis, options);
                                        if (!longer.ok()) return std::move(longer).error();
                                        after.emplace(std::move(longer).value());
                                        return {};
                                      });
  if (after) self.array = *after;
  if (!done) throw_python_error();
}

void append(array_handle& self, nb::handle value, std::size_t axis, unsigned threads, nb::handle progress, bool durable,
            bool write_empty_chunks) {
  const write_request how{threads, progress, durable, write_empty_chunks};
  const dtype type = self.array().type();
  if (type.variable_length()) {
    item_block items(type, value);
    return append_rows(self, items.view(), axis, how);
  }
  exported_value rows;
  if (!rows.open(value.ptr(), type))
    raise(error(errc::invalid_argument, "the appended value should be an ndarray of the array's dtype"));
  append_rows(self, rows.view(), axis, how);
}

}  // namespace

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "this Array was never opened: use penstock.open");
    return -1;
  }
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
    return -1;
  }
  return write_key(self, key, value, {}) ? 0 : -1;
}

void bind_write(nb::module_& m, nb::class_<array_handle>& type) {
  locked_class<write_ticket_handle>(m, "_WriteTicket", "A write in the background.")
      .def_prop_ro("done", &write_ticket_handle::done)
      .def_prop_ro("progress", &write_ticket_handle::progress, "(bytes done, bytes in all), decoded.")
      .def("cancel", &write_ticket_handle::cancel)
      .def("wait_for", &write_ticket_handle::wait_for, nb::arg("seconds"))
      .def("result", &write_ticket_handle::result)
      .def("on_done", &write_ticket_handle::on_done, nb::arg("then"));
  type.def("_start_write", start_write, nb::arg("key").none(), nb::arg("value").none(), nb::arg("threads"),
           nb::arg("durable"), nb::arg("write_empty_chunks"))
      .def("_start_write_device", start_write_device, nb::arg("key").none(), nb::arg("memory"),
           nb::arg("stream").none(), nb::arg("threads"), nb::arg("durable"), nb::arg("write_empty_chunks"),
           nb::arg("encoder").none())
      .def("_write", write_array, nb::arg("key").none(), nb::arg("value").none(), nb::arg("threads"),
           nb::arg("progress").none(), nb::arg("durable"), nb::arg("write_empty_chunks"))
      .def("_write_device", write_device, nb::arg("key").none(), nb::arg("memory"), nb::arg("stream").none(),
           nb::arg("threads"), nb::arg("progress").none(), nb::arg("durable"), nb::arg("write_empty_chunks"),
           nb::arg("encoder").none() = nb::none())
      .def("_resize", resize, nb::arg("shape"))
      .def("_append", append, nb::arg("value"), nb::arg("axis"), nb::arg("threads"), nb::arg("progress").none(),
           nb::arg("durable"), nb::arg("write_empty_chunks"));
}

}  // namespace penstock::inline v0::python
