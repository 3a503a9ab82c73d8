#include <nanobind/stl/optional.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_device.h"

namespace penstock::inline v0::python {
namespace {

// The values of a batch; the ndarray that shows them has it as its base.
struct batch_memory {
  owned_tensor values;
};

int get_batch_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(self)) {  // `_BatchMemory.__new__` alone
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "this memory was never allocated");
    return -1;
  }
  const tensor_view& of = nb::inst_ptr<batch_memory>(self)->values.view;
  std::uint64_t bytes = of.type.item_bytes();
  for (const std::uint64_t length : of.extents) bytes *= length;
  return PyBuffer_FillInfo(view, self, of.data, static_cast<Py_ssize_t>(bytes), 0, flags);
}

const PyType_Slot kBatchMemorySlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_batch_buffer)}, {0, nullptr}};

std::vector<std::byte> copied_bytes(const nb::bytes& from) {
  std::vector<std::byte> out(from.size());
  if (!out.empty()) std::memcpy(out.data(), from.data(), out.size());
  return out;
}

loader_array array_of(const nb::tuple& from) {
  loader_array out{nb::cast<const array_handle&>(from[0]).array(), {}, {}, {}, {}, 0, {}};
  for (const nb::handle dim : nb::cast<nb::tuple>(from[1]))
    out.dims.push_back(dim.is_none() ? std::nullopt : std::optional(nb::cast<std::size_t>(dim)));
  out.type = dtype_of(from[2]);
  for (const nb::handle each : nb::cast<nb::tuple>(from[3])) out.scale.push_back(nb::cast<double>(each));
  for (const nb::handle each : nb::cast<nb::tuple>(from[4])) out.offset.push_back(nb::cast<double>(each));
  out.along = nb::cast<std::size_t>(from[5]);
  out.padding = copied_bytes(nb::cast<nb::bytes>(from[6]));
  return out;
}

loader_axis axis_of(const nb::tuple& from) {
  loader_axis out;
  out.crop = length_of(from[0]);
  out.keeps = nb::cast<bool>(from[1]);
  out.stride = length_of(from[2]);
  out.before = length_of(from[3]);
  out.after = length_of(from[4]);
  return out;
}

/// A loader, and the dtypes of its batches.
class loader_handle {
 public:
  loader_handle(const nb::list& arrays, const nb::list& axes, std::optional<std::uint64_t> random_samples,
                std::optional<nb::bytes> origins, std::uint64_t batch, bool drop_last, bool shuffle, std::uint64_t seed,
                std::uint64_t window_bytes, std::uint64_t depth, bool mask, std::optional<int> device)
      : mask_(mask) {
    std::vector<loader_array> from;
    for (const nb::handle each : arrays) {
      const auto parts = nb::cast<nb::tuple>(each);
      from.push_back(array_of(parts));
      dtypes_.append(parts[2]);
    }
    std::vector<loader_axis> along;
    for (const nb::handle each : axes) along.push_back(axis_of(nb::cast<nb::tuple>(each)));
    loader_options options;
    options.random_samples = random_samples;
    if (origins) {
      options.origins.resize(origins->size() / sizeof(std::int64_t));
      if (!options.origins.empty())
        std::memcpy(options.origins.data(), origins->data(), options.origins.size() * sizeof(std::int64_t));
    }
    options.batch = batch;
    options.drop_last = drop_last;
    options.shuffle = shuffle;
    options.seed = seed;
    options.window_bytes = window_bytes;
    options.depth = depth;
    options.mask = mask;
    options.device = device;
    made_.emplace(unwrap(loader::make(std::move(from), std::move(along), std::move(options))));
  }
  loader_handle(const loader_handle&) = delete;
  loader_handle& operator=(const loader_handle&) = delete;
  ~loader_handle() { destroy_without_gil(made_); }

  std::uint64_t samples() const { return made_->samples(); }
  std::uint64_t batches_of(std::uint64_t first, std::uint64_t rank, std::uint64_t ranks) const {
    return made_->batches_of({0, first, rank, ranks});
  }
  void start(std::uint64_t epoch, std::uint64_t first, std::uint64_t rank, std::uint64_t ranks) {
    call_engine([&] { return made_->start({epoch, first, rank, ranks}); });
  }

  /// (number, samples, one ndarray or _DeviceRead for each array, the mask or None), or None at the end.
  nb::object next() {
    std::optional<loader_batch> batch = call_engine([&] { return made_->next(); });
    if (!batch) return nb::none();
    nb::list values;
    for (std::size_t i = 0; i < nb::len(dtypes_); ++i) values.append(take(*batch, i, dtypes_[i]));
    const nb::object mask =
        mask_ ? take(*batch, nb::len(dtypes_), nb::module_::import_("numpy").attr("dtype")("?")) : nb::none();
    return nb::make_tuple(batch->number, batch->samples, values, mask);
  }

  nb::dict counts() const {
    const loader_counts now = made_->counts();
    nb::dict out;
    out["chunks_read"] = now.chunks_read;
    out["bytes_read"] = now.bytes_read;
    out["chunks_again"] = now.chunks_again;
    out["window_bytes"] = now.window_bytes;
    out["peak_window_bytes"] = now.peak_window_bytes;
    out["blocks_open"] = now.blocks_open;
    out["lanes"] = now.lanes;
    return out;
  }

 private:
  static nb::object take(loader_batch& from, std::size_t which, nb::object dtype) {
    if (from.device_values.empty()) return ndarray_of(std::move(from.values[which]), dtype);
    return device_read_of(std::move(from.device_values[which]), std::move(dtype));
  }

  std::optional<loader> made_;
  nb::list dtypes_;
  bool mask_;
};

}  // namespace

nb::object ndarray_of(owned_tensor values, nb::handle dtype) {
  const nb::tuple shape = to_tuple(values.view.extents);
  const nb::object memory = nb::cast(batch_memory{std::move(values)});
  return nb::module_::import_("numpy").attr("ndarray")(shape, dtype, memory);
}

void bind_loader(nb::module_& m) {
  nb::class_<batch_memory>(m, "_BatchMemory", nb::type_slots(kBatchMemorySlots),
                           "Memory of a batch, from a context's pool; returned to it when dropped.");
  locked_class<loader_handle>(m, "_Loader", "Batches of crops of arrays: see penstock.loader.")
      .def(nb::init<const nb::list&, const nb::list&, std::optional<std::uint64_t>, std::optional<nb::bytes>,
                    std::uint64_t, bool, bool, std::uint64_t, std::uint64_t, std::uint64_t, bool, std::optional<int>>(),
           nb::arg("arrays"), nb::arg("axes"), nb::arg("random_samples").none(), nb::arg("origins").none(),
           nb::arg("batch"), nb::arg("drop_last"), nb::arg("shuffle"), nb::arg("seed"), nb::arg("window_bytes"),
           nb::arg("depth"), nb::arg("mask"), nb::arg("device").none() = nb::none())
      .def_prop_ro("samples", &loader_handle::samples)
      .def("batches_of", &loader_handle::batches_of, nb::arg("first"), nb::arg("rank"), nb::arg("ranks"))
      .def("start", &loader_handle::start, nb::arg("epoch"), nb::arg("first"), nb::arg("rank"), nb::arg("ranks"))
      .def("next", &loader_handle::next)
      .def("counts", &loader_handle::counts);
}

}  // namespace penstock::inline v0::python
