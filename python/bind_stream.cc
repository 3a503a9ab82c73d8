#include <penstock/batches.h>
#include <penstock/device_tiles.h>
#include <penstock/stream.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_device.h"
#include "bind_items.h"
#include "bind_selection.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

/// An ndarray with the memory of `values`.
nb::object ndarray_of_values(owned_tensor values, nb::handle dtype) {
  const tensor_view& view = values.view;
  if (!view.type.variable_length()) return ndarray_of(std::move(values), dtype);
  const auto* const first = reinterpret_cast<const variable_item*>(view.data);
  const std::span items(first, static_cast<std::size_t>(unwrap(element_count(view.extents))));
  PyObject* const made = ndarray_of_items(items, view.type, view.extents, dtype.ptr());
  if (made == nullptr) throw_python_error();
  return nb::steal(made);
}

nb::tuple slices_of(const box& where) {
  nb::list slices;
  for (std::size_t d = 0; d < where.size.size(); ++d) {
    const nb::object begin = nb::int_(where.origin[d]), end = nb::int_(where.origin[d] + where.size[d]);
    slices.append(nb::steal(PySlice_New(begin.ptr(), end.ptr(), nullptr)));
  }
  return nb::tuple(slices);
}

/// A stream, and the dtype of its tiles.
class stream_handle {
 public:
  stream_handle(const array_handle& from, nb::handle tile, std::size_t depth, std::size_t axis, nb::handle edges)
      : dtype_(from.dtype) {
    stream_options options;
    for (const std::uint64_t length : list_of<std::uint64_t>(tile)) options.tile.push_back(length);
    options.depth = depth;
    options.axis = axis;
    options.edges = list_of<std::uint64_t>(edges);
    made_.emplace(unwrap(array_stream::make(from.array(), std::move(options))));
  }
  stream_handle(const stream_handle&) = delete;
  stream_handle& operator=(const stream_handle&) = delete;
  ~stream_handle() { destroy_without_gil(made_); }

  /// (index, slices, values), or None at the end.
  nb::object next() {
    std::optional<stream_tile> tile = call_engine([&] { return made_->next(); });
    if (!tile) return nb::none();
    return nb::make_tuple(to_tuple(tile->index), slices_of(tile->where),
                          ndarray_of_values(std::move(tile->values), dtype_));
  }
  void cancel() {
    const without_gil released;
    made_->cancel();
  }

 private:
  std::optional<array_stream> made_;
  nb::object dtype_;
};

/// The same in the memory of a device.
class device_tiles_handle {
 public:
  device_tiles_handle(const array_handle& from, nb::handle tile, std::size_t depth, std::size_t axis, nb::handle edges,
                      int device, bool check)
      : dtype_(from.dtype) {
    device_tiles_options options;
    for (const std::uint64_t length : list_of<std::uint64_t>(tile)) options.tile.push_back(length);
    options.depth = depth;
    options.axis = axis;
    options.edges = list_of<std::uint64_t>(edges);
    options.device = device;
    options.check = check;
    made_.emplace(call_engine([&, a = from.array()] { return device_tiles::make(a, std::move(options)); }));
  }
  device_tiles_handle(const device_tiles_handle&) = delete;
  device_tiles_handle& operator=(const device_tiles_handle&) = delete;
  ~device_tiles_handle() { destroy_without_gil(made_); }

  /// (index, slices, read, stream), or None at the end.
  nb::object next() {
    const auto turn = lock_without_gil(turns_);
    std::optional<device_tile> tile = call_engine([&] { return made_->next(); });
    if (!tile) return nb::none();
    const nb::object memory = device_read_of(device_tensor(tile->memory->state()), dtype_);
    return nb::make_tuple(to_tuple(tile->index), slices_of(tile->where),
                          device_read_of(std::move(tile->values), dtype_, memory), tile->stream);
  }
  std::size_t complete() const {
    const without_gil released;
    return made_->complete();
  }
  void cancel() {
    const without_gil released;
    made_->cancel();
  }

 private:
  std::recursive_timed_mutex turns_;  // one thread at a time calls `next`
  std::optional<device_tiles> made_;
  nb::object dtype_;
};

/// Batches of crops that a Python function returns, with the dtypes of the crops' arrays or, on a device, another one.
class batches_handle {
 public:
  /// \param crops  Returns (array, key), or None after the last one. It is called by `next` alone.
  batches_handle(nb::callable crops, std::size_t size, std::size_t depth, bool drop_last, std::optional<int> device,
                 nb::object type, bool check)
      : source_(std::move(crops)), size_(size), on_device_(device), device_type_(std::move(type)) {
    batch_options options;
    options.size = size;
    options.depth = depth;
    options.drop_last = drop_last;
    options.device = device;
    options.check = check;
    if (device) options.type = dtype_of(device_type_);
    made_.emplace(unwrap(crop_batches::make([this] { return next_crop(); }, std::move(options))));
  }
  batches_handle(const batches_handle&) = delete;
  batches_handle& operator=(const batches_handle&) = delete;
  ~batches_handle() { destroy_without_gil(made_); }

  /// An ndarray of shape (crops, *shape of a crop), or a read to a device; None at the end.
  nb::object next() {
    if (!made_) return nb::none();
    if (on_device_) {
      std::optional<device_tensor> read = call_engine([&] { return made_->next_on_device(); });
      return read ? device_read_of(std::move(*read), device_type_) : nb::none();
    }
    std::optional<owned_tensor> batch = call_engine([&] { return made_->next(); });
    if (!batch) return nb::none();
    const nb::object dtype = std::move(dtypes_.front());
    dtypes_.pop_front();
    return ndarray_of_values(std::move(*batch), dtype);
  }
  void cancel() { destroy_without_gil(made_); }

 private:
  /// Called by the engine without the GIL, in the thread of `next`.
  result<std::optional<array_crop>> next_crop() {
    const with_gil gil;
    try {
      const nb::object made = source_();
      if (made.is_none()) return std::optional<array_crop>();
      const nb::tuple pair = tuple_of(made, 2, "a crop");
      const auto& from = nb::cast<const array_handle&>(pair[0]);
      std::optional<array_crop> out({from.array(), resolve_key(from, pair[1])});
      if (crops_++ % size_ == 0 && !on_device_) dtypes_.push_back(from.dtype);
      return out;
    } catch (nb::python_error& failed) {
      failed.restore();
      stash_exception();  // `next` raises it
      return error(errc::cancelled, "the samples failed");
    } catch (const std::exception& failed) {
      return error(errc::internal, failed.what());
    }
  }

  const nb::callable source_;
  const std::size_t size_;
  const std::optional<int> on_device_;
  const nb::object device_type_;
  std::size_t crops_ = 0;          // so far
  std::deque<nb::object> dtypes_;  // keys of the first crop of each batch that is being read
  std::optional<crop_batches> made_;
};

}  // namespace

void bind_stream(nb::module_& m) {
  locked_class<stream_handle>(m, "_Stream", nb::is_weak_referenceable(),
                              "Tiles of an array, read ahead: see penstock.stream.")
      .def(nb::init<const array_handle&, nb::handle, std::size_t, std::size_t, nb::handle>(), nb::arg("array"),
           nb::arg("tile"), nb::arg("depth"), nb::arg("axis"), nb::arg("edges"))
      .def("next", &stream_handle::next)
      .def("cancel", &stream_handle::cancel);
  locked_class<device_tiles_handle>(m, "_DeviceTiles", nb::is_weak_referenceable(),
                                    "Tiles of an array, read ahead into device memory: see penstock.stream.")
      .def(nb::init<const array_handle&, nb::handle, std::size_t, std::size_t, nb::handle, int, bool>(),
           nb::arg("array"), nb::arg("tile"), nb::arg("depth"), nb::arg("axis"), nb::arg("edges"), nb::arg("device"),
           nb::arg("check"))
      .def("next", &device_tiles_handle::next)
      .def_prop_ro("complete", &device_tiles_handle::complete)
      .def("cancel", &device_tiles_handle::cancel);
  locked_class<batches_handle>(m, "_Batches", "Batches of crops of arrays, read ahead: see penstock.batches.")
      .def(nb::init<nb::callable, std::size_t, std::size_t, bool, std::optional<int>, nb::object, bool>(),
           nb::arg("next_crop"), nb::arg("size"), nb::arg("depth"), nb::arg("drop_last"),
           nb::arg("device").none() = nb::none(), nb::arg("dtype").none() = nb::none(), nb::arg("check") = false)
      .def("next", &batches_handle::next)
      .def("cancel", &batches_handle::cancel);
}

}  // namespace penstock::inline v0::python
