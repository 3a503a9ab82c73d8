#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/copy_rate.h"
#include "base/process_limits.h"
#include "bind.h"
#include "bind_codec.h"
#include "codec/library_versions.h"
#include "engine/context_state.h"
#include "store/http_transport.h"

namespace penstock::inline v0::python {
namespace {

// An allocator in Python: an object with `allocate(bytes, device, stream) -> address` and
// `release(address, bytes, device, stream)`.
class python_allocator final : public device_allocator {
 public:
  explicit python_allocator(nb::object from)
      : from_(from.release().ptr(), [](PyObject* object) { drop_reference(object); }) {}

  result<std::uintptr_t> allocate(std::uint64_t bytes, int device, std::uintptr_t stream) override {
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    const with_gil gil;
    try {
      return nb::cast<std::uintptr_t>(nb::handle(from_.get()).attr("allocate")(bytes, device, stream));
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception&) {
      return error(errc::invalid_argument, "the device allocator's allocate should return an address");
    }
  }
  void release(std::uintptr_t address, std::uint64_t bytes, int device, std::uintptr_t stream) noexcept override {
    if (!may_enter_python()) return;
    const with_gil gil;
    try {
      nb::handle(from_.get()).attr("release")(address, bytes, device, stream);
    } catch (nb::python_error& failed) {
      failed.restore();
      PyErr_WriteUnraisable(from_.get());
    } catch (const std::exception& failed) {
      set_error(failed);
      PyErr_WriteUnraisable(from_.get());
    }
  }

 private:
  std::shared_ptr<PyObject> from_;
};

}  // namespace

write_sync sync_of(std::string_view name) {
  if (name == "none") return write_sync::none;
  if (name == "objects") return write_sync::objects;
  if (name == "durable") return write_sync::durable;
  raise(error(errc::invalid_argument, "sync must be 'none', 'objects' or 'durable', got '" + std::string(name) + "'"));
}

chunk_encoder encoder_of(std::string_view name) {
  if (name == "auto") return chunk_encoder::automatic;
  if (name == "host") return chunk_encoder::host;
  if (name == "device") return chunk_encoder::device;
  raise(error(errc::invalid_argument, "encoder must be 'auto', 'host' or 'device', got '" + std::string(name) + "'"));
}

namespace {

// Makes the main thread issue a warning soon: the caller may be any thread, and does not hold the GIL.
void warn_later(const std::string& text) {
  if (!may_enter_python()) return;
  auto* const copy = new std::string(text);
  const auto issue = [](void* given) -> int {
    const std::unique_ptr<std::string> mine(static_cast<std::string*>(given));
    return PyErr_WarnEx(PyExc_RuntimeWarning, mine->c_str(), 1);
  };
  if (Py_AddPendingCall(issue, copy) != 0) delete copy;
}

context_handle make_context(unsigned threads, unsigned io_concurrency, std::uint64_t memory_limit,
                            std::uint64_t output_pool, std::uint64_t chunk_cache, nb::object codecs,
                            std::uint64_t page_locked, std::uint64_t device_memory, std::string decoder,
                            std::string nvcomp_library, nb::object allocator, const std::string& sync,
                            const std::string& encoder, std::uint64_t write_queue, std::string disk_cache,
                            std::uint64_t disk_cache_limit, double disk_cache_trust) {
  context_options options;
  options.disk_cache = std::move(disk_cache);
  options.disk_cache_limit_bytes = disk_cache_limit;
  options.disk_cache_trust_s = disk_cache_trust;
  options.on_warning = warn_later;
  options.sync = sync_of(sync);
  options.device_decoder = std::move(decoder);
  options.nvcomp_library = std::move(nvcomp_library);
  if (!allocator.is_none()) options.device_allocator = std::make_shared<python_allocator>(std::move(allocator));
  if (!codecs.is_none()) options.codecs.push_back(python_codecs(std::move(codecs)));
  options.encoder = encoder_of(encoder);
  options.threads = threads;
  options.io_concurrency = io_concurrency;
  options.memory_limit_bytes = memory_limit;
  options.output_pool_bytes = output_pool;
  options.chunk_cache_bytes = chunk_cache;
  options.page_locked_bytes = page_locked;
  options.device_memory_bytes = device_memory;
  options.write_queue_bytes = write_queue;
  return {unwrap(context::make(unwrap(options_of_environment(std::move(options)))))};
}

nb::dict usage(const context_handle& self) {
  const context_usage now = self.context->usage();
  nb::dict all;
  all["scratch_bytes"] = now.scratch_bytes;
  all["encoded_bytes"] = now.encoded_bytes;
  all["index_bytes"] = now.index_bytes;
  all["output_pool_bytes"] = now.output_pool_bytes;
  all["peak_scratch_bytes"] = now.peak_scratch_bytes;
  all["peak_encoded_bytes"] = now.peak_encoded_bytes;
  all["peak_index_bytes"] = now.peak_index_bytes;
  all["page_locked_bytes"] = now.page_locked_bytes;
  all["device_wave_bytes"] = now.device_wave_bytes;
  all["device_result_bytes"] = now.device_result_bytes;
  all["index_hits"] = now.index_hits;
  all["index_misses"] = now.index_misses;
  all["chunk_cache_bytes"] = now.chunk_cache_bytes;
  all["chunk_hits"] = now.chunk_hits;
  all["disk_cache_bytes"] = now.disk_cache_bytes;
  all["disk_cache_hits"] = now.disk_cache_hits;
  all["disk_cache_misses"] = now.disk_cache_misses;
  all["disk_cache_damaged"] = now.disk_cache_damaged;
  return all;
}

nb::dict to_dict(const profile_report& report) {
  nb::list stages;
  for (const profile_stage& stage : report.stages) {
    nb::dict one;
    one["what"] = to_str(to_string(stage.what));
    one["busy_ns"] = stage.busy_ns;
    one["operations"] = stage.operations;
    one["bytes_in"] = stage.bytes_in;
    one["bytes_out"] = stage.bytes_out;
    stages.append(one);
  }
  nb::list events;
  for (const profile_event& event : report.events) {
    nb::dict one;
    one["what"] = to_str(to_string(event.what));
    one["worker"] = event.worker;
    one["read"] = event.read;
    one["operation"] = event.operation;
    one["begin_ns"] = event.begin_ns;
    one["end_ns"] = event.end_ns;
    one["bytes_in"] = event.bytes_in;
    one["bytes_out"] = event.bytes_out;
    events.append(one);
  }
  nb::dict all;
  all["wall_ns"] = report.wall_ns;
  all["workers"] = report.workers;
  all["reads"] = report.reads;
  all["writes"] = report.writes;
  all["store_requests"] = report.store_requests;
  all["store_bytes"] = report.store_bytes;
  all["stages"] = stages;
  all["events"] = events;
  all["dropped_events"] = report.dropped_events;
  nb::list kernels;
  for (const profile_kernel& kernel : report.kernels) {
    nb::dict one;
    one["name"] = to_str(kernel.name);
    one["busy_ns"] = kernel.busy_ns;
    one["launches"] = kernel.launches;
    kernels.append(one);
  }
  all["kernels"] = kernels;
  const auto shares = [](const profile_device& of) {
    nb::dict out;
    out["computing_ns"] = of.computing_ns;
    out["copying_ns"] = of.copying_ns;
    out["waiting_ns"] = of.waiting_ns;
    out["storage_ns"] = of.storage_ns;
    return out;
  };
  all["device"] = shares(report.device);
  nb::dict devices;
  for (const profile_device& each : report.devices) devices[nb::int_(each.ordinal)] = shares(each);
  all["devices"] = devices;
  return all;
}

nb::dict linked_libraries() {
  nb::dict out;
  const std::optional<std::string> curl = curl_version_text();
  out["libcurl"] = curl ? nb::object(to_str(*curl)) : nb::none();
  for (const library_version& each : codec_library_versions())
    out[to_str(each.name)] = each.version ? nb::object(to_str(*each.version)) : nb::none();
  return out;
}

nb::dict limits_of_process(const std::string& root) {
  const process_limits limits = find_process_limits(root);
  nb::dict out;
  out["processors"] = limits.machine_processors;
  out["processors_allowed"] = limits.allowed_processors;
  out["processors_of_cgroup"] =
      limits.cgroup_processors ? nb::object(nb::float_(*limits.cgroup_processors)) : nb::none();
  out["memory"] = limits.machine_memory;
  out["memory_of_cgroup"] = limits.cgroup_memory ? nb::object(nb::int_(*limits.cgroup_memory)) : nb::none();
  return out;
}

}  // namespace

void bind_context(nb::module_& m) {
  m.def(
      "checked_encoder",
      [](nb::handle name) {
        encoder_of(nb::isinstance<nb::str>(name) ? utf8_of(name) : utf8_of(nb::repr(name)));
        return nb::borrow(name);
      },
      nb::arg("encoder").none(), "The name of an encoder, unless it is another one: InvalidArgumentError.");
  m.def(
      "copy_rate",
      [](unsigned threads) {
        const without_gil released;
        return copy_rate(threads);
      },
      nb::arg("threads") = 0,
      "Bytes per second that threads (0: one for each processor of this process) copy in memory; measured once, in "
      "about "
      "20 ms.");
  m.def("_process_limits", limits_of_process, nb::arg("root") = "",
        "Processors, and bytes of memory: of the machine, and what this process may use of it.");
  m.def("linked_libraries", linked_libraries, "The version of each library that this build uses, or None, by name.");
  nb::class_<context_handle>(m, "Context", "Threads, caches, pools and limits; penstock.Context derives from it.")
      .def(
          "__init__",
          [](context_handle* self, unsigned threads, unsigned io_concurrency, std::uint64_t memory_limit,
             std::uint64_t output_pool, std::uint64_t chunk_cache, nb::object codecs, std::uint64_t page_locked,
             std::uint64_t device_memory, std::string decoder, std::string nvcomp_library, nb::object allocator,
             const std::string& sync, const std::string& encoder, std::uint64_t write_queue, std::string disk_cache,
             std::uint64_t disk_cache_limit, double disk_cache_trust) {
            new (self) context_handle(make_context(
                threads, io_concurrency, memory_limit, output_pool, chunk_cache, std::move(codecs), page_locked,
                device_memory, std::move(decoder), std::move(nvcomp_library), std::move(allocator), sync, encoder,
                write_queue, std::move(disk_cache), disk_cache_limit, disk_cache_trust));
          },
          nb::arg("threads"), nb::arg("io_concurrency"), nb::arg("memory_limit"), nb::arg("output_pool"),
          nb::arg("chunk_cache"), nb::arg("codecs").none() = nb::none(), nb::arg("page_locked") = 0,
          nb::arg("device_memory") = 0, nb::arg("decoder") = "", nb::arg("nvcomp_library") = "",
          nb::arg("device_allocator").none() = nb::none(), nb::arg("sync") = "objects", nb::arg("encoder") = "auto",
          nb::arg("write_queue") = 0, nb::arg("disk_cache") = "", nb::arg("disk_cache_limit") = 0,
          nb::arg("disk_cache_trust") = 0.0)
      .def_prop_ro("decoder", [](const context_handle& self) { return self.context->device_decoder(); })
      .def_prop_ro("threads", [](const context_handle& self) { return self.context->threads(); })
      .def_prop_ro("_memory_limit",
                   [](const context_handle& self) { return self.context->state().accounts().memory_limit(); })
      .def("usage", usage)
      .def("clear",
           [](const context_handle& self) {
             self.context->clear_caches();
             drop_left_references();
           })
      .def("synchronize", [](const context_handle& self) { call_engine([&] { return self.context->synchronize(); }); })
      .def(
          "_start_profile",
          [](const context_handle& self, std::uint64_t max_events) { unwrap(self.context->start_profile(max_events)); },
          nb::arg("max_events"))
      .def("_stop_profile", [](const context_handle& self) {
        const profile_report report = [&] {
          const without_gil released;  // it waits for devices
          return self.context->stop_profile();
        }();
        return to_dict(report);
      });
}

}  // namespace penstock::inline v0::python
