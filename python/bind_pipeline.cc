#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>

#include "api/chunk_pipeline.h"
#include "base/checked.h"
#include "bind.h"
#include "bind_read.h"
#include "bind_selection.h"
#include "driver/open_described.h"

namespace penstock::inline v0::python {
namespace {

/// The most that is decoded on the calling thread with the interpreter's lock held: well under a millisecond.
constexpr std::uint64_t kMaxInlineBytes = std::uint64_t{512} << 10;

struct pipeline_handle {
  std::shared_ptr<const chunk_pipeline> pipeline;
};

// Names looked up once; they live as long as the interpreter.
PyObject* path_name() {
  static PyObject* const name = PyUnicode_InternFromString("path");
  return name;
}

bool looks_for_signals(const read_progress&) noexcept { return may_go_on(); }

// One dimension of a chunk's selection. False: it is neither an int nor a slice with a positive step.
bool parse_range(PyObject* item, std::uint64_t length, axis_range& out, bool& drops) {
  if (PySlice_Check(item)) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) throw_python_error();
    if (step <= 0) return false;
    const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(length), &start, &stop, step);
    out = {start, step, static_cast<std::uint64_t>(count)};
    drops = false;
    return true;
  }
  if (PyBool_Check(item) != 0 || PyIndex_Check(item) == 0) return false;
  const Py_ssize_t at = PyNumber_AsSsize_t(item, nullptr);
  if (at == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();  // an index array of several dimensions counts as an index, too
    return false;
  }
  if (at < 0 || static_cast<std::uint64_t>(at) >= length) return false;
  out = {at, 1, 1};
  drops = true;
  return true;
}

/// A batch as zarr-python passes it to its pipelines, read once: (byte getter, spec, selection within the chunk,
/// selection within the array in memory, whether a write replaces all that is in the chunk).
class chunk_batch {
 public:
  /// Memory of the host. Read-only memory can be written from, not read into.
  chunk_batch(std::shared_ptr<const chunk_pipeline> pipeline, exported_buffer memory)
      : pipeline_(std::move(pipeline)), exported_(std::move(memory)), memory_(exported_.view()) {}
  /// Memory of a device, owned by the caller.
  chunk_batch(std::shared_ptr<const chunk_pipeline> pipeline, tensor_view memory)
      : pipeline_(std::move(pipeline)), memory_(std::move(memory)) {}
  chunk_batch(chunk_batch&&) noexcept = default;

  /// False if an item's selections are not all ints and slices with a positive step, one for each dimension.
  bool add(nb::handle item);

  std::size_t size() const noexcept { return items_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  const chunk_pipeline& pipeline() const noexcept { return *pipeline_; }
  std::span<const chunk_item> items() const noexcept { return items_; }
  std::vector<std::uint8_t>& missing() noexcept { return missing_; }

  nb::object read(const context_handle& with, const store_handle& from, unsigned threads);
  nb::object read_to_device(const context_handle& with, const store_handle& from, int device,
                            std::optional<std::uintptr_t> stream, unsigned threads);
  nb::object write(const context_handle& with, const store_handle& from, nb::object to, bool write_empty_chunks,
                   unsigned threads, std::optional<int> device, std::optional<std::uintptr_t> stream);
  nb::object missing_flags() const;

  void check_target() const;

 private:
  bool add_selection(PyObject* chunk_selection, PyObject* memory_selection, chunk_item& out) const;

  std::shared_ptr<const chunk_pipeline> pipeline_;
  exported_buffer exported_;
  tensor_view memory_;
  std::vector<nb::object> keys_;  // the items' keys are in these
  std::vector<chunk_item> items_;
  std::vector<std::uint8_t> missing_;
  std::uint64_t bytes_ = 0;
};

bool chunk_batch::add_selection(PyObject* chunk_selection, PyObject* memory_selection, chunk_item& out) const {
  const extents& chunk = pipeline_->chunk();
  const tensor_view& memory = memory_;
  const std::size_t rank = chunk.size();
  if (PyTuple_Check(chunk_selection) == 0 || static_cast<std::size_t>(PyTuple_Size(chunk_selection)) != rank) {
    return false;
  }
  const bool is_tuple = PyTuple_Check(memory_selection) != 0;
  const std::size_t ranges = is_tuple ? static_cast<std::size_t>(PyTuple_Size(memory_selection)) : 1;
  const bool broadcasts = memory.extents.empty();
  if (!broadcasts && ranges != memory.extents.size()) return false;

  out.part.resize(rank);
  out.strides.resize(rank);
  out.at = memory.data;
  std::size_t axis = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    bool drops = false;
    if (!parse_range(PyTuple_GetItem(chunk_selection, static_cast<Py_ssize_t>(d)), chunk[d], out.part[d], drops)) {
      return false;
    }
    out.strides[d] = 0;
    if (drops || broadcasts) continue;
    axis_range place;
    bool is_int = true;
    for (; is_int; ++axis) {  // an int in memory does not have a dimension of the chunk
      if (axis == ranges) return false;
      PyObject* const wanted =
          is_tuple ? PyTuple_GetItem(memory_selection, static_cast<Py_ssize_t>(axis)) : memory_selection;
      if (!parse_range(wanted, memory.extents[axis], place, is_int)) return false;
      out.at += place.start * memory.strides[axis];
    }
    if (place.count != out.part[d].count) return false;
    out.strides[d] = place.step * memory.strides[axis - 1];
  }
  for (; !broadcasts && axis < ranges; ++axis) {
    axis_range place;
    bool is_int = false;
    PyObject* const wanted =
        is_tuple ? PyTuple_GetItem(memory_selection, static_cast<Py_ssize_t>(axis)) : memory_selection;
    if (!parse_range(wanted, memory.extents[axis], place, is_int) || !is_int) return false;
    out.at += place.start * memory.strides[axis];
  }
  return true;
}

bool chunk_batch::add(nb::handle item) {
  PyObject* const parts = item.ptr();
  if (PyTuple_Check(parts) == 0 || PyTuple_Size(parts) != 5) return false;
  chunk_item made;
  if (!add_selection(PyTuple_GetItem(parts, 2), PyTuple_GetItem(parts, 3), made)) return false;
  PyObject* const path = PyObject_GetAttr(PyTuple_GetItem(parts, 0), path_name());
  if (path == nullptr) throw_python_error();
  keys_.push_back(nb::steal(path));
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(path, &size);
  if (text == nullptr) throw_python_error();
  made.key = {text, static_cast<std::size_t>(size)};
  made.replaces = PyTuple_GetItem(parts, 4) == Py_True;
  if (!checked_add(bytes_, pipeline_->touched_bytes(made.part), bytes_)) bytes_ = byte_range::kAll;
  items_.push_back(std::move(made));
  return true;
}

nb::object chunk_batch::missing_flags() const {
  if (std::find(missing_.begin(), missing_.end(), 1) == missing_.end()) return nb::none();
  return nb::bytes(reinterpret_cast<const char*>(missing_.data()), missing_.size());
}

// Runs `work` with or without the interpreter's lock, and raises its errors.
template <class Work>
void call(bool keeps_gil, Work&& work) {
  result<> outcome;
  if (keeps_gil) {
    const gil_is_held held;
    outcome = work();
  } else {
    const without_gil released;
    outcome = work();
  }
  drop_left_references();
  if (restore_exception()) throw_python_error();
  unwrap(std::move(outcome));
}

bool never_waits(const store& one) {
  const store_traits traits = one.traits();
  return !traits.blocking && traits.inline_completion;
}

// Raises if the memory cannot be read into.
void chunk_batch::check_target() const {
  if (exported_.read_only()) {
    PyErr_SetString(PyExc_ValueError, "the memory to read into is read-only");
    throw_python_error();
  }
  if (memory_.space != memory_space::host)
    raise(error(errc::invalid_argument, "the memory of this batch is a device's: use read_to_device"));
}

nb::object chunk_batch::read(const context_handle& with, const store_handle& from, unsigned threads) {
  check_target();
  missing_.assign(items_.size(), 0);
  read_options options;
  options.threads = threads;
  const bool keeps_gil = bytes_ <= kMaxInlineBytes && never_waits(*from.store);
  if (keeps_gil) {
    options.threads = 1;  // another thread would wait for the lock
  } else {
    options.progress = looks_for_signals;
    options.poll_interval = kPoll;
  }
  call(keeps_gil, [&] { return pipeline_->read(*with.context, *from.store, items_, missing_, options); });
  return missing_flags();
}

nb::object chunk_batch::read_to_device(const context_handle& with, const store_handle& from, int device,
                                       std::optional<std::uintptr_t> stream, unsigned threads) {
  if (memory_.space == memory_space::host)
    raise(error(errc::invalid_argument, "the memory of this batch is the host's: use read"));
  missing_.assign(items_.size(), 0);
  read_options options;
  options.threads = threads;
  options.progress = looks_for_signals;
  options.poll_interval = kPoll;
  call(false,
       [&] { return pipeline_->read_to_device(with.context, *from.store, items_, missing_, device, stream, options); });
  return missing_flags();
}

// A new bytes object for each chunk, None if it must not exist; or None if `to` has received all of them.
nb::object chunk_batch::write(const context_handle& with, const store_handle& from, nb::object to,
                              bool write_empty_chunks, unsigned threads, std::optional<int> device,
                              std::optional<std::uintptr_t> stream) {
  if (device.has_value() != (memory_.space != memory_space::host))
    raise(error(errc::invalid_argument, "a device must be given if, and only if, the batch's memory is a device's"));
  chunk_pipeline::write_options options;
  options.threads = threads;
  options.write_empty_chunks = write_empty_chunks;
  if (device) options.values_on = chunk_pipeline::device_place{*device, stream};
  std::shared_ptr<store> target;
  if (!to.is_none()) target = std::const_pointer_cast<store>(nb::cast<store_handle&>(to).store);
  const bool keeps_gil = bytes_ <= kMaxInlineBytes && !device && target == nullptr && never_waits(*from.store);
  if (keeps_gil) {
    options.threads = 1;
  } else {
    options.progress = looks_for_signals;
    options.poll_interval = kPoll;
  }
  std::vector<chunk_written> written;
  call(keeps_gil, [&] { return pipeline_->write(*with.context, *from.store, target.get(), items_, options, written); });
  if (target != nullptr) return nb::none();
  nb::list objects;
  for (chunk_written& one : written) {
    if (one.erased) {
      objects.append(nb::none());
    } else {
      objects.append(nb::bytes(reinterpret_cast<const char*>(one.object.data()), one.object.size()));
      std::vector<std::byte>().swap(one.object);
    }
  }
  return objects;
}

/// One chunk's read that continues while an event loop does other work.
class chunk_ticket {
 public:
  chunk_ticket(nb::object batch, nb::object store, std::size_t which, const context_handle& with)
      : batch_(std::move(batch)), store_(std::move(store)) {
    auto& from = nb::cast<chunk_batch&>(batch_);
    from.check_target();
    if (from.missing().size() != from.size()) from.missing().assign(from.size(), 0);
    if (which >= from.size()) throw nb::index_error();
    const auto& where = *nb::cast<store_handle&>(store_).store;
    auto started = [&] {
      const without_gil released;
      return from.pipeline().start(with.context, where, from.items()[which],
                                   std::span(from.missing()).subspan(which, 1));
    }();
    ticket_ = unwrap(std::move(started));
  }
  chunk_ticket(chunk_ticket&&) noexcept = default;
  ~chunk_ticket() {
    if (is_engine_thread()) {  // the read might wait for this thread
      leave_to_python(std::make_shared<chunk_ticket>(std::move(*this)));
      return;
    }
    const without_gil released;  // the rest of the read may need the GIL
    ticket_ = ticket();
  }

  void on_done(nb::object then) {
    // The engine may drop its copy on a thread without the GIL.
    const std::shared_ptr<PyObject> kept(then.release().ptr(), [](PyObject* object) { drop_reference(object); });
    const without_gil released;
    ticket_.on_done([kept] {
      if (!may_enter_python()) return;
      const with_gil gil;
      PyObject* const returned = PyObject_CallObject(kept.get(), nullptr);
      if (returned == nullptr) PyErr_WriteUnraisable(kept.get());
      Py_XDECREF(returned);
    });
  }

  void finish() {
    result<> outcome;
    {
      const without_gil released;
      outcome = ticket_.wait();
    }
    drop_left_references();
    unwrap(std::move(outcome));
  }

 private:
  nb::object batch_, store_;
  ticket ticket_;
};

bool is_plain(PyObject* item) {
  if (Py_TYPE(item) == &PyLong_Type || item == Py_Ellipsis) return true;
  if (PySlice_Check(item) == 0) return false;
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(item, &start, &stop, &step) == 0) return step > 0;
  PyErr_Clear();
  return false;
}

// Whether zarr-python accepts `key` as a plain key: keys that it refuses, or interprets differently, are left to it.
bool is_plain_key(PyObject* key) {
  if (PyTuple_Check(key) == 0) return is_plain(key);
  const Py_ssize_t count = PyTuple_Size(key);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_plain(PyTuple_GetItem(key, i))) return false;
  return true;
}

nb::object read_plain(const array_handle& from, nb::handle key, bool scalar, unsigned threads) {
  const nb::object refused = nb::borrow(Py_NotImplemented);
  if (!is_plain_key(key.ptr())) return refused;
  basic_selection which;
  bool has_ellipsis = false;
  if (parse_key(key.ptr(), which.items, has_ellipsis) != parsed_key::basic) {
    PyErr_Clear();
    return refused;
  }
  const array a = from.array();  // another thread may resize the Array meanwhile
  const auto where = resolve(which, a.shape());
  if (!where.ok()) return refused;
  std::byte* data = nullptr;
  const nb::object out =
      nb::steal(new_ndarray(a.context(), from.dtype.ptr(), a.type().item_bytes(), where->shape, data));
  if (!out.is_valid()) throw_python_error();
  const tensor_view target = tensor_view::contiguous(data, a.type(), where->shape);
  if (a.runs_inline(*where)) {
    call(true, [&] { return a.read(*where, target); });
  } else if (!read_without_gil(a, *where, target, threads, nb::none())) {
    throw_python_error();
  }
  if (where->shape.empty() && (scalar || has_ellipsis || a.shape().empty())) return out[nb::make_tuple()];
  return out;
}

// Returns false if the key has more than ints, slices with positive steps and an Ellipsis, or if the value has another
// shape; nothing was written then.
bool write_plain(const array_handle& to, nb::handle key, nb::handle value, bool write_empty_chunks) {
  if (!is_plain_key(key.ptr())) return false;
  basic_selection which;
  bool has_ellipsis = false;
  if (parse_key(key.ptr(), which.items, has_ellipsis) != parsed_key::basic) {
    PyErr_Clear();
    return false;
  }
  const array a = to.array();  // another thread, or code of `value`, may resize the Array meanwhile
  const auto where = resolve(which, a.shape());
  if (!where.ok()) return false;
  const exported_buffer memory(value, a.type(), buffer_use::read);
  tensor_view view = memory.view();
  if (view.extents.empty()) {
    view.extents = where->shape;
    view.strides = strides(where->shape.size());
  } else if (!(view.extents == where->shape)) {
    return false;
  }
  write_options options;
  options.write_empty_chunks = write_empty_chunks;
  const bool keeps_gil = a.runs_inline(*where);
  if (keeps_gil) {
    options.threads = 1;
  } else {
    options.progress = looks_for_signals;
    options.poll_interval = kPoll;
  }
  call(keeps_gil, [&] { return a.write(*where, view, options); });
  return true;
}

// Returns None if an item's selections have more than ints and slices: the caller must use another path.
nb::object make_batch(const pipeline_handle& self, nb::handle items, nb::handle memory) {
  chunk_batch batch(self.pipeline, exported_buffer(memory, self.pipeline->type(), buffer_use::read));
  for (const nb::handle item : items)
    if (!batch.add(item)) return nb::none();
  return nb::cast(std::move(batch));
}

// The same for values in device memory.
nb::object make_device_batch(const pipeline_handle& self, nb::handle items, std::uintptr_t address, nb::tuple shape,
                             nb::tuple strides) {
  if (shape.size() > kMaxRank || strides.size() != shape.size())
    raise(error(errc::invalid_argument, "device memory has too many dimensions"));
  tensor_view memory;
  memory.data = reinterpret_cast<std::byte*>(address);
  memory.type = self.pipeline->type();
  memory.space = memory_space::cuda;
  for (const nb::handle each : shape) memory.extents.push_back(nb::cast<std::uint64_t>(each));
  for (const nb::handle each : strides) memory.strides.push_back(nb::cast<std::int64_t>(each));
  chunk_batch batch(self.pipeline, std::move(memory));
  for (const nb::handle item : items)
    if (!batch.add(item)) return nb::none();
  return nb::cast(std::move(batch));
}

}  // namespace

void bind_pipeline(nb::module_& m) {
  m.def(
      "open_described",
      [](const store_handle& from, const context_handle& with, nb::bytes path, nb::dict documents,
         std::optional<bool> keeps_edges) {
        open_options options;
        options.context = with.context;
        options.path = std::string(path.c_str(), path.size());
        std::vector<std::pair<std::string, std::string>> texts;
        for (const auto& [name, text] : documents) texts.emplace_back(utf8_of(name), utf8_of(text));
        beyond_edge after_writes = beyond_edge::filled;
        if (keeps_edges) after_writes = *keeps_edges ? beyond_edge::kept : beyond_edge::kept_by_lists;
        return array_handle(call_engine([&] { return open_described(from.store, options, texts, after_writes); }));
      },
      nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("documents"),
      nb::arg("keeps_edges").none() = nb::none(),
      "Open an array from its metadata documents, given by name and text; nothing is read. `keeps_edges`, for arrays "
      "of zarr-python: True: writes change no element that chunks have beyond the array's edge; False: those of "
      "lists, points and masks change none.");
  m.def("read_plain", read_plain, nb::arg("array"), nb::arg("key").none(), nb::arg("scalar"), nb::arg("threads"),
        "array[key] for ints, slices that go forward and an Ellipsis, as zarr-python's selections; NotImplemented for "
        "every other key and if the selection is refused. Without dimensions: a scalar, or an ndarray.");
  m.def("write_plain", write_plain, nb::arg("array"), nb::arg("key").none(), nb::arg("value"),
        nb::arg("write_empty_chunks"),
        "array[key] = value for the keys of read_plain; False if zarr-python must do it, or refuse it.");
  locked_class<chunk_batch>(m, "_ChunkBatch", "Chunks to be read or written together.")
      .def_prop_ro("bytes", &chunk_batch::bytes, "Bytes that the chunks decode to.")
      .def("__len__", &chunk_batch::size)
      .def("read", &chunk_batch::read, nb::arg("context"), nb::arg("store"), nb::arg("threads"),
           "Read all; a byte for each chunk, 1 if it is missing, or None if none is.")
      .def("read_to_device", &chunk_batch::read_to_device, nb::arg("context"), nb::arg("store"), nb::arg("device"),
           nb::arg("stream").none(), nb::arg("threads"),
           "The same into memory of a device, in the order of `stream`; None: the call waits for the device.")
      .def("write", &chunk_batch::write, nb::arg("context"), nb::arg("old"), nb::arg("to").none(),
           nb::arg("write_empty_chunks"), nb::arg("threads"), nb::arg("device").none() = nb::none(),
           nb::arg("stream").none() = nb::none(),
           "Merge and encode all, and put them into `to`; without it, return them (None: empty). Values in memory of "
           "a device are taken in the order of `stream`; None: after all that the device was given.")
      .def("missing", &chunk_batch::missing_flags);
  locked_class<chunk_ticket>(m, "_ChunkTicket", "One chunk's read under way.")
      .def(nb::init<nb::object, nb::object, std::size_t, const context_handle&>(), nb::arg("batch"), nb::arg("store"),
           nb::arg("which"), nb::arg("context"))
      .def("on_done", &chunk_ticket::on_done, nb::arg("then"))
      .def("finish", &chunk_ticket::finish);
  nb::class_<pipeline_handle>(m, "ChunkPipeline", "A chain of codecs, compiled for chunks of one type and shape.")
      .def(
          "__init__",
          [](pipeline_handle* self, nb::str document) {
            new (self) pipeline_handle{unwrap(chunk_pipeline::compile(utf8_of(document)))};
          },
          nb::arg("document"))
      .def("batch", make_batch, nb::arg("items"), nb::arg("memory"))
      .def("device_batch", make_device_batch, nb::arg("items"), nb::arg("address"), nb::arg("shape"),
           nb::arg("strides"))
      .def_prop_ro("device_path", [](const pipeline_handle& self) { return to_str(self.pipeline->device_path()); })
      .def_prop_ro("chunk_bytes", [](const pipeline_handle& self) { return self.pipeline->chunk_bytes(); })
      .def_prop_ro("item_bytes", [](const pipeline_handle& self) { return self.pipeline->type().item_bytes(); })
      .def_prop_ro("sharded", [](const pipeline_handle& self) { return self.pipeline->sharded(); })
      .def_prop_ro("codecs_text", [](const pipeline_handle& self) { return to_str(self.pipeline->codecs_text()); });
}

}  // namespace penstock::inline v0::python
