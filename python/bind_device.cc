#include <penstock/device.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/device_tensor_state.h"
#include "bind.h"
#include "bind_device.h"
#include "bind_read.h"
#include "bind_selection.h"
#include "cuda/driver.h"
#include "dlpack.h"

namespace penstock::inline v0::python {
namespace {

std::vector<std::string> device_names() {
  const cuda::driver& with = *unwrap(cuda::load_driver());
  std::vector<std::string> out(static_cast<std::size_t>(with.devices));
  for (int ordinal = 0; ordinal < with.devices && with.device_get_name != nullptr; ++ordinal) {
    cuda::device_number number = 0;
    char name[256] = {};
    if (with.device_get(&number, ordinal) != cuda::kSuccess) continue;
    if (with.device_get_name(name, sizeof name, number) == cuda::kSuccess)
      out[static_cast<std::size_t>(ordinal)] = name;
  }
  return out;
}

/// Memory of the caller that a read fills.
struct device_target {
  std::uintptr_t address = 0;
  nb::handle shape, strides;  // tuples; strides in bytes
};

/// A read into device memory, and that memory. Lives as long as a tensor or a capsule of it.
class device_handle {
 public:
  device_handle(device_tensor made, nb::object dtype, nb::object owner) noexcept
      : dtype_(std::move(dtype)), owner_(std::move(owner)), tensor_(std::move(made)) {}
  device_handle(device_handle&&) noexcept = default;
  // Waits for the host's part of the read, which may need the GIL: a store may be a Python object.
  ~device_handle() {
    if (is_engine_thread()) {  // the read might wait for this thread
      leave_to_python(std::make_shared<device_handle>(std::move(*this)));
      return;
    }
    const without_gil released;
    tensor_.reset();
  }

  nb::tuple shape() const { return to_tuple(view().extents); }
  nb::tuple strides() const {
    nb::list out;
    for (const std::int64_t each : view().strides) out.append(each);
    return nb::tuple(out);
  }
  std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(view().data); }
  int device() const noexcept { return tensor_->device(); }
  nb::object dtype() const { return dtype_; }
  bool queued() const noexcept { return tensor_->queued(); }
  bool done() const {
    const without_gil released;
    return tensor_->done();
  }
  void cancel() {
    const without_gil released;
    tensor_->cancel();
  }
  nb::tuple progress() const {
    const read_progress now = tensor_->progress();
    return nb::make_tuple(now.done_bytes, now.total_bytes);
  }

  /// Waits until all is queued on the device, and checks for Ctrl-C while it waits; false: not within that many seconds
  /// (< 0: for ever).
  bool wait_for(double seconds) {
    using clock = std::chrono::steady_clock;
    constexpr double kForEver = 1e9;
    const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(
                                        seconds < 0 ? kForEver : std::min(seconds, kForEver)));
    while (true) {
      const auto left = std::max<std::chrono::nanoseconds>(end - clock::now(), std::chrono::nanoseconds(0));
      bool ended = false;
      {
        const without_gil released;
        ended = tensor_->wait_for(std::min(left, kPoll));
      }
      if (PyErr_CheckSignals() < 0) throw_python_error();
      if (ended || left.count() == 0) return ended;
    }
  }
  void wait() {
    wait_for(-1);
    finish([&] { return tensor_->wait(); });
  }
  void order(std::uintptr_t stream) {
    wait_for(-1);
    finish([&] { return tensor_->order(stream); });
  }
  void mark_exported() {
    wait_for(-1);
    finish([&] { return tensor_->state()->mark_exported(); });
  }
  void release(std::uintptr_t stream) {
    wait_for(-1);
    finish([&] { return tensor_->release(stream); });
  }
  void synchronize() {
    wait_for(-1);
    finish([&] { return tensor_->synchronize(); });
  }
  void outcome() {
    wait_for(-1);
    finish([&] { return tensor_->outcome(); });
  }
  void copy_to_host(std::uintptr_t to) {
    wait_for(-1);
    finish([&] { return tensor_->copy_to_host(reinterpret_cast<std::byte*>(to)); });
  }
  device_handle copy(std::optional<std::uintptr_t> stream) {
    wait_for(-1);
    return {call_engine([&] { return copy_on_device(*tensor_, stream); }), dtype_, nb::none()};
  }
  void on_queued(nb::object then) {
    const std::shared_ptr<PyObject> kept(then.release().ptr(), [](PyObject* object) { drop_reference(object); });
    const without_gil released;
    tensor_->on_queued([kept] {
      if (!may_enter_python()) return;
      const with_gil gil;
      PyObject* const returned = PyObject_CallObject(kept.get(), nullptr);
      if (returned == nullptr) PyErr_WriteUnraisable(kept.get());
      Py_XDECREF(returned);
    });
  }

 private:
  const tensor_view& view() const noexcept { return tensor_->view(); }
  template <class Work>
  void finish(Work&& work) {
    result<> outcome;
    {
      const without_gil released;
      outcome = work();
    }
    drop_left_references();
    if (restore_exception()) throw_python_error();
    unwrap(std::move(outcome));
  }

  nb::object dtype_, owner_;
  std::optional<device_tensor> tensor_;
};

tensor_view view_of(const device_target& target, const dtype& type) {
  tensor_view out;
  out.data = reinterpret_cast<std::byte*>(target.address);
  out.type = type;
  out.space = memory_space::cuda;
  for (const nb::handle each : nb::borrow<nb::tuple>(target.shape))
    out.extents.push_back(nb::cast<std::uint64_t>(each));
  for (const nb::handle each : nb::borrow<nb::tuple>(target.strides))
    out.strides.push_back(nb::cast<std::int64_t>(each));
  return out;
}

// `owner` owns the memory of `address` (0: memory of the pool). `type`: the type for a conversion; None: no conversion.
device_handle read_to_device(const array_handle& self, nb::handle key, int device, std::optional<std::uintptr_t> stream,
                             std::uintptr_t address, nb::tuple shape, nb::tuple strides, nb::object owner,
                             unsigned threads, bool check, nb::object type) {
  const resolved_selection which = resolve_key(self, key);
  const array a = self.array();  // another thread may resize the Array meanwhile
  device_read_options options;
  options.device = device;
  options.stream = stream;
  options.threads = threads;
  options.check = check;
  if (!type.is_none()) options.type = dtype_of(type);
  std::optional<tensor_view> out;
  if (!owner.is_none()) {
    if (shape.size() > kMaxRank || strides.size() != shape.size())
      raise(error(errc::invalid_argument, "out has too many dimensions"));
    out = view_of({address, shape, strides}, options.type.value_or(a.type()));
  }
  device_tensor made = call_engine([&] { return read_to_device(a, which, out, options); });
  return {std::move(made), type.is_none() ? self.dtype : type, std::move(owner)};
}

// (address, shape, strides in bytes, (code, bits), (device type, device)) of a capsule, which is not consumed.
nb::tuple view_of_capsule(nb::handle capsule, bool writable) {
  const dlpack_tensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto* const managed =
        static_cast<const dlpack_managed_versioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != kDlpackMajor)
      raise(error(errc::unsupported, "the DLPack capsule is of version " + std::to_string(managed->major)));
    if (writable && (managed->flags & kDlpackReadOnly) != 0) raise(error(errc::invalid_argument, "out is read-only"));
    tensor = &managed->tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    tensor = &static_cast<const dlpack_managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
  } else {
    raise(error(errc::invalid_argument, "__dlpack__ returned no DLPack capsule"));
  }
  if (tensor->type.lanes != 1) raise(error(errc::unsupported, "vectors as DLPack's elements are not supported"));
  const std::int64_t item_bytes = (tensor->type.bits + 7) / 8;
  nb::list shape, strides;
  std::int64_t step = item_bytes;
  for (std::int32_t d = 0; d < tensor->rank; ++d) shape.append(tensor->shape[d]);
  if (tensor->strides != nullptr) {
    for (std::int32_t d = 0; d < tensor->rank; ++d) strides.append(tensor->strides[d] * item_bytes);
  } else {
    for (std::int32_t d = tensor->rank; d-- > 0;) {
      strides.insert(0, nb::int_(step));
      step *= tensor->shape[d];
    }
  }
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor->data) + tensor->byte_offset, nb::tuple(shape),
                        nb::tuple(strides), nb::make_tuple(tensor->type.code, tensor->type.bits),
                        nb::make_tuple(tensor->device.type, tensor->device.index));
}

}  // namespace

nb::object device_read_of(device_tensor made, nb::object dtype, nb::object owner) {
  return nb::cast(device_handle(std::move(made), std::move(dtype), std::move(owner)));
}

void bind_device(nb::module_& m) {
  locked_class<device_handle>(m, "_DeviceRead", "A read into device memory, and that memory.")
      .def_prop_ro("shape", &device_handle::shape)
      .def_prop_ro("strides", &device_handle::strides, "In bytes.")
      .def_prop_ro("dtype", &device_handle::dtype)
      .def_prop_ro("address", &device_handle::address)
      .def_prop_ro("device", &device_handle::device)
      .def_prop_ro("queued", &device_handle::queued)
      .def_prop_ro("done", &device_handle::done)
      .def_prop_ro("progress", &device_handle::progress)
      .def("cancel", &device_handle::cancel)
      .def("wait_for", &device_handle::wait_for, nb::arg("seconds"))
      .def("wait", &device_handle::wait)
      .def("order", &device_handle::order, nb::arg("stream"))
      .def("mark_exported", &device_handle::mark_exported, "As `order`, for a consumer that orders its own work.")
      .def("release", &device_handle::release, nb::arg("stream"))
      .def("synchronize", &device_handle::synchronize)
      .def("outcome", &device_handle::outcome, "As `synchronize`, but for this read only.")
      .def("copy_to_host", &device_handle::copy_to_host, nb::arg("address"))
      .def("copy", &device_handle::copy, nb::arg("stream").none(),
           "A copy made on a stream; None: on one of ours, complete on return.")
      .def("on_queued", &device_handle::on_queued, nb::arg("then"));
  m.def("_read_to_device", read_to_device, nb::arg("array"), nb::arg("selection"), nb::arg("device"),
        nb::arg("stream").none(), nb::arg("address"), nb::arg("shape"), nb::arg("strides"), nb::arg("owner").none(),
        nb::arg("threads"), nb::arg("check"), nb::arg("dtype").none() = nb::none());
  locked_class<device_stream>(m, "_DeviceStream", "A stream of ours, for the caller's work.")
      .def(
          "__init__",
          [](device_stream* self, int device) { new (self) device_stream(unwrap(device_stream::make(device))); },
          nb::arg("device"))
      .def_prop_ro("handle", &device_stream::handle);
  m.def(
      "_dlpack_type",
      [](nb::handle type) -> nb::object {
        const auto found = dlpack_type_of(dtype_of(type));
        if (!found) return nb::none();
        return nb::make_tuple(found->code, found->bits);
      },
      nb::arg("dtype"));
  m.def("_dlpack_view", view_of_capsule, nb::arg("capsule"), nb::arg("writable") = true);
  m.def(
      "_context_of", [](const array_handle& self) { return context_handle{self.array().context()}; }, nb::arg("array"));
  m.def(
      "_write_stream",
      [](const context_handle& with, int device) {
        return call_engine([&] { return write_stream(*with.context, device); });
      },
      nb::arg("context"), nb::arg("device"), "The stream on which values to be written are ordered.");
  m.def(
      "_device_to_host",
      [](const context_handle& with, int device, std::uintptr_t address, nb::tuple shape, nb::tuple strides,
         nb::handle dtype, std::uintptr_t to, std::optional<std::uintptr_t> stream) {
        if (shape.size() > kMaxRank || strides.size() != shape.size())
          raise(error(errc::invalid_argument, "the value has too many dimensions"));
        const tensor_view from = view_of({address, shape, strides}, dtype_of(dtype));
        call_engine(
            [&] { return copy_to_host(*with.context, device, from, reinterpret_cast<std::byte*>(to), stream); });
      },
      nb::arg("context"), nb::arg("device"), nb::arg("address"), nb::arg("shape"), nb::arg("strides"), nb::arg("dtype"),
      nb::arg("to"), nb::arg("stream").none(), "Copies device memory to host memory in C order.");
  m.def("_device_count", [] { return unwrap(device_count()); });
  m.def(
      "_cuda_version", [] { return unwrap(cuda::load_driver())->version; },
      "The version of CUDA that the driver supports: 13000 for 13.0.");
  m.def("_device_names", device_names, "The names of the devices, in the driver's order.");
  m.def("_current_device", [] { return unwrap(current_device()); });
  m.def("_device_of", [](std::uintptr_t address) { return unwrap(device_of(address)); }, nb::arg("address"));
  m.def(
      "_encoder_choice",
      [](const array_handle& self, nb::handle key, int device) {
        const resolved_selection which = resolve_key(self, key);
        return device_encoder_choice(self.array(), which, device);
      },
      nb::arg("array"), nb::arg("key").none(), nb::arg("device"));
  m.def(
      "_device_path", [](const array_handle& self, int device) { return device_path(self.array(), device); },
      nb::arg("array"), nb::arg("device"));
}

}  // namespace penstock::inline v0::python
