#include "support/fake_cuda/fake_cuda.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "cuda/host_kernels.h"
#include "support/fake_cuda/fake_memory.h"
#include "support/fake_cuda/fake_streams.h"

namespace penstock::test {
namespace {

using namespace penstock::cuda;

constexpr driver_status kCaptureUnsupported = 900;
constexpr std::uint64_t kHostAlignment = 4096;
constexpr std::size_t kLongHostMemory = std::size_t{1} << 20;
constexpr int kForeignContext = 1000;  // which is no device's primary one

struct fake_function {
  host_kernel kernel;
};

struct failure_plan {
  std::uint64_t after = 0;
  driver_status status = kSuccess;
};

struct told_attribute {
  int value = 0;
  driver_status status = kSuccess;
};

thread_local std::vector<context_ref> current;
thread_local int capture_mode = 0;  // global

// What is refused while another thread captures, and breaks its capture, unless the caller's thread says that it may.
constexpr std::string_view kUnsafeInCapture[] = {"cuMemAlloc",    "cuMemFree",          "cuMemHostAlloc",
                                                 "cuMemFreeHost", "cuModuleLoadData",   "cuStreamQuery",
                                                 "cuEventQuery",  "cuEventSynchronize", "cuStreamSynchronize"};

// All of the driver. Never destroyed: as the real one it serves whoever is left at the end of the process.
class fake_driver {
 public:
  fake_driver() {
    const char* const named = std::getenv("PENSTOCK_FAKE_CUDA_DEVICES");
    devices = named == nullptr ? 2 : std::atoi(named);
    if (const char* const older = std::getenv("PENSTOCK_FAKE_CUDA_VERSION")) version = std::atoi(older);
    for (int i = 0; i < devices; ++i) {
      legacy.push_back(make_default(i, true));
      per_thread.push_back(make_default(i, false));
    }
  }

  /// Counts a call; not kSuccess where it is to fail.
  driver_status called(const char* name) {
    if (is_pumped_at(name)) streams.pump(std::numeric_limits<int>::max());
    const std::lock_guard lock(mutex);
    ++counts[name];
    ++calls;
    if (fault != kSuccess && std::string_view(name).substr(0, 5) != "cuCtx") return fault;
    if (captured && capture_mode != kCaptureRelaxed &&
        std::find(std::begin(kUnsafeInCapture), std::end(kUnsafeInCapture), name) != std::end(kUnsafeInCapture)) {
      ++counts["broken capture"];
      return kCaptureUnsupported;
    }
    const auto planned = failures.find(name);
    if (planned == failures.end() || planned->second.after-- != 0) return kSuccess;
    const driver_status status = planned->second.status;
    failures.erase(planned);
    return status;
  }
  void count(const char* name) {
    const std::lock_guard lock(mutex);
    ++counts[name];
  }
  using after_kernel = void (*)(const void*);
  void after(const char* name, after_kernel then) {
    const std::lock_guard lock(mutex);
    followed = name;
    follows = then;
  }
  after_kernel then_of(const char* name) {
    const std::lock_guard lock(mutex);
    return followed == name ? follows : nullptr;
  }
  void pump_at(const char* name) {
    const std::lock_guard lock(mutex);
    pumped_at = name;
  }
  bool is_pumped_at(const char* name) {
    const std::lock_guard lock(mutex);
    return pumped_at == name;
  }

  /// The stream that a handle stands for, if it may be used with the current context; null otherwise.
  std::shared_ptr<fake_stream> stream_of(stream_ref handle) {
    const int device = current_device_number();
    if (device < 0) return nullptr;
    if (handle == nullptr || handle == kLegacyStream) {
      count("legacy stream");
      return legacy[static_cast<std::size_t>(device)];
    }
    if (handle == kPerThreadStream) return per_thread[static_cast<std::size_t>(device)];
    const std::lock_guard lock(mutex);
    const auto found = stream_handles.find(handle);
    return found == stream_handles.end() ? nullptr : found->second;
  }
  std::shared_ptr<fake_event> event_of(event_ref handle) {
    const std::lock_guard lock(mutex);
    const auto found = events.find(handle);
    return found == events.end() ? nullptr : found->second;
  }
  bool is_page_locked(const void* from, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(from);
    const std::lock_guard lock(mutex);
    auto after = page_locked.upper_bound(begin);
    if (after == page_locked.begin()) return false;
    --after;
    return begin - after->first <= after->second && bytes <= after->second - (begin - after->first);
  }
  static int current_device_number() {
    return current.empty() || current.back() == nullptr ? -1 : number_of(current.back());
  }
  // Contexts are numbers: that of their device, and 1 more.
  static context_ref context_of(int device) {
    return reinterpret_cast<context_ref>(static_cast<std::uintptr_t>(device) + 1);
  }
  static int number_of(context_ref context) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1; }

  std::mutex mutex;  // of what follows
  std::map<std::string, std::uint64_t, std::less<>> counts;
  std::uint64_t calls = 0;
  driver_status fault = kSuccess;
  bool captured = false;
  std::string pumped_at, followed;
  after_kernel follows = nullptr;
  std::map<std::string, failure_plan, std::less<>> failures;
  std::map<int, told_attribute> attributes;
  std::map<stream_ref, std::shared_ptr<fake_stream>> stream_handles;
  std::map<event_ref, std::shared_ptr<fake_event>> events;
  std::map<std::uintptr_t, std::size_t> page_locked;
  std::map<void*, std::size_t> mapped;  // page-locked memory that the system does not write to
  std::atomic<bool> refuses_system_calls{false};
  std::vector<std::unique_ptr<fake_function>> functions;

  int devices = 0;
  int version = 13000;
  std::atomic<int> engine_formats{0}, engine_most_bytes{0};
  std::atomic<int> retained{0};
  std::atomic<std::uint64_t> foreign{0}, foreign_bytes{0};
  std::vector<std::shared_ptr<fake_stream>> legacy, per_thread;
  fake_memory memory;
  fake_streams streams;

 private:
  std::shared_ptr<fake_stream> make_default(int device, bool is_legacy) {
    auto made = std::make_shared<fake_stream>();
    made->device = device;
    made->legacy = is_legacy;
    streams.add(made);
    return made;
  }
};

fake_driver& self() {
  static fake_driver* const made = new fake_driver;
  return *made;
}

#define PENSTOCK_CALLED(name) \
  if (const driver_status failed = self().called(name); failed != kSuccess) return failed

// ---- start, devices, contexts ----

driver_status init(unsigned) {
  PENSTOCK_CALLED("cuInit");
  return self().devices == 0 ? kNoDevice : kSuccess;
}

driver_status driver_get_version(int* out) {
  PENSTOCK_CALLED("cuDriverGetVersion");
  *out = self().version;
  return kSuccess;
}

driver_status get_error_name(driver_status status, const char** out) {
  *out = status == kInvalidValue     ? "CUDA_ERROR_INVALID_VALUE"
         : status == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
         : status == kInvalidDevice  ? "CUDA_ERROR_INVALID_DEVICE"
         : status == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
         : status == kInvalidHandle  ? "CUDA_ERROR_INVALID_HANDLE"
         : status == kNotFound       ? "CUDA_ERROR_NOT_FOUND"
                                     : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}

driver_status get_error_string(driver_status, const char** out) {
  *out = "as the fake driver has it";
  return kSuccess;
}

driver_status device_get_count(int* out) {
  PENSTOCK_CALLED("cuDeviceGetCount");
  *out = self().devices;
  return kSuccess;
}

driver_status device_get(device_number* out, int ordinal) {
  PENSTOCK_CALLED("cuDeviceGet");
  if (ordinal < 0 || ordinal >= self().devices) return kInvalidDevice;
  *out = ordinal;
  return kSuccess;
}

driver_status device_get_attribute(int* out, int which, device_number) {
  PENSTOCK_CALLED("cuDeviceGetAttribute");
  {
    const std::lock_guard lock(self().mutex);
    if (const auto told = self().attributes.find(which); told != self().attributes.end()) {
      *out = told->second.value;
      return told->second.status;
    }
  }
  switch (which) {
    case kAttributeMultiprocessors:
      *out = 4;
      break;
    case kAttributeMajor:
      *out = 9;
      break;
    case kAttributeHostNode:
      *out = -1;
      break;
    case kAttributeDecompressFormats:
      *out = self().engine_formats;
      break;
    case kAttributeDecompressMostBytes:
      *out = self().engine_most_bytes;
      break;
    default:
      *out = 0;
  }
  return kSuccess;
}

driver_status primary_context_retain(context_ref* out, device_number device) {
  PENSTOCK_CALLED("cuDevicePrimaryCtxRetain");
  if (device < 0 || device >= self().devices) return kInvalidDevice;
  *out = fake_driver::context_of(device);
  ++self().retained;
  return kSuccess;
}

driver_status primary_context_release(device_number) {
  --self().retained;  // whatever is wrong with the device
  PENSTOCK_CALLED("cuDevicePrimaryCtxRelease");
  return kSuccess;
}

driver_status context_get_current(context_ref* out) {
  PENSTOCK_CALLED("cuCtxGetCurrent");
  *out = current.empty() ? nullptr : current.back();
  return kSuccess;
}

driver_status context_get_device(device_number* out) {
  PENSTOCK_CALLED("cuCtxGetDevice");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  *out = fake_driver::current_device_number();
  return kSuccess;
}

driver_status context_push(context_ref context) {
  PENSTOCK_CALLED("cuCtxPushCurrent");
  current.push_back(context);
  return kSuccess;
}

driver_status context_pop(context_ref* out) {
  PENSTOCK_CALLED("cuCtxPopCurrent");
  if (current.empty()) return kInvalidContext;
  *out = current.back();
  current.pop_back();
  return kSuccess;
}

driver_status exchange_capture_mode(int* mode) {
  PENSTOCK_CALLED("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return kSuccess;
}

// ---- streams and events ----

driver_status stream_create(stream_ref* out, unsigned flags) {
  PENSTOCK_CALLED("cuStreamCreate");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  auto made = std::make_shared<fake_stream>();
  made->device = device;
  made->blocking = (flags & kStreamNonBlocking) == 0;
  *out = reinterpret_cast<stream_ref>(made.get());
  self().streams.add(made);
  const std::lock_guard lock(self().mutex);
  self().stream_handles[*out] = std::move(made);
  return kSuccess;
}

driver_status stream_destroy(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamDestroy");
  std::shared_ptr<fake_stream> found;
  {
    const std::lock_guard lock(self().mutex);
    const auto at = self().stream_handles.find(handle);
    if (at == self().stream_handles.end()) return kInvalidHandle;
    found = std::move(at->second);
    self().stream_handles.erase(at);
  }
  self().streams.remove(found);
  return kSuccess;
}

driver_status stream_query(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamQuery");
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  return self().streams.done(*stream) ? kSuccess : kNotReady;
}

driver_status stream_synchronize(stream_ref handle) {
  PENSTOCK_CALLED("cuStreamSynchronize");
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  self().streams.synchronize(*stream);
  return kSuccess;
}

driver_status context_synchronize() {
  PENSTOCK_CALLED("cuCtxSynchronize");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  return kSuccess;
}

driver_status stream_wait_event(stream_ref handle, event_ref event, unsigned) {
  PENSTOCK_CALLED("cuStreamWaitEvent");
  const auto stream = self().stream_of(handle);
  auto found = self().event_of(event);
  if (!stream || !found) return kInvalidHandle;
  self().streams.wait(*stream, std::move(found));
  return kSuccess;
}

driver_status event_create(event_ref* out, unsigned) {
  PENSTOCK_CALLED("cuEventCreate");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  auto made = std::make_shared<fake_event>();
  made->device = device;
  *out = reinterpret_cast<event_ref>(made.get());
  const std::lock_guard lock(self().mutex);
  self().events[*out] = std::move(made);
  return kSuccess;
}

driver_status event_destroy(event_ref event) {
  PENSTOCK_CALLED("cuEventDestroy");
  const std::lock_guard lock(self().mutex);
  return self().events.erase(event) == 0 ? kInvalidHandle : kSuccess;
}

driver_status event_record(event_ref event, stream_ref handle) {
  PENSTOCK_CALLED("cuEventRecord");
  const auto stream = self().stream_of(handle);
  auto found = self().event_of(event);
  if (!stream || !found) return kInvalidHandle;
  if (stream->device != found->device) return kInvalidHandle;
  self().streams.record(*stream, std::move(found));
  return kSuccess;
}

driver_status context_record_event(context_ref context, event_ref event) {
  PENSTOCK_CALLED("cuCtxRecordEvent");
  auto found = self().event_of(event);
  if (!found || found->device != fake_driver::number_of(context)) return kInvalidHandle;
  self().streams.record_all(found->device, found);
  return kSuccess;
}

driver_status event_query(event_ref event) {
  PENSTOCK_CALLED("cuEventQuery");
  const auto found = self().event_of(event);
  if (!found) return kInvalidHandle;
  return self().streams.done(*found) ? kSuccess : kNotReady;
}

driver_status event_synchronize(event_ref event) {
  PENSTOCK_CALLED("cuEventSynchronize");
  const auto found = self().event_of(event);
  if (!found) return kInvalidHandle;
  self().streams.synchronize(*found);
  return kSuccess;
}

driver_status event_elapsed_ms(float* out, event_ref from, event_ref to) {
  PENSTOCK_CALLED("cuEventElapsedTime");
  const auto begin = self().event_of(from), end = self().event_of(to);
  if (!begin || !end) return kInvalidHandle;
  const auto first = self().streams.last_of(*begin), last = self().streams.last_of(*end);
  if (!first || !last) return kInvalidHandle;
  if (!self().streams.done(*begin) || !self().streams.done(*end)) return kNotReady;
  *out = std::chrono::duration<float, std::milli>(last->when - first->when).count();
  return kSuccess;
}

// ---- memory ----

driver_status mem_alloc(device_address* out, std::size_t bytes) {
  PENSTOCK_CALLED("cuMemAlloc");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *out = self().memory.allocate(bytes, device);
  return *out == 0 ? kOutOfMemory : kSuccess;
}

driver_status mem_free(device_address address) {
  PENSTOCK_CALLED("cuMemFree");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();  // as the driver does
  return self().memory.free(address) ? kSuccess : kInvalidValue;
}

driver_status mem_get_info(std::size_t* free, std::size_t* total) {
  PENSTOCK_CALLED("cuMemGetInfo");
  *total = std::size_t{1} << 32;
  *free = *total - std::min<std::size_t>(*total, self().memory.live_bytes());
  return kSuccess;
}

driver_status mem_host_alloc(void** out, std::size_t bytes, unsigned) {
  PENSTOCK_CALLED("cuMemHostAlloc");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  const std::size_t whole = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  if (self().refuses_system_calls && bytes >= kLongHostMemory) {
    *out = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::lock_guard lock(self().mutex);
    self().page_locked[reinterpret_cast<std::uintptr_t>(*out)] = bytes;
    self().mapped[*out] = whole;
    return kSuccess;
  }
  *out = std::aligned_alloc(kHostAlignment, whole);
  if (*out == nullptr) return kOutOfMemory;
  const std::lock_guard lock(self().mutex);
  self().page_locked[reinterpret_cast<std::uintptr_t>(*out)] = bytes;
  return kSuccess;
}

driver_status mem_free_host(void* memory) {
  PENSTOCK_CALLED("cuMemFreeHost");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  {
    const std::lock_guard lock(self().mutex);
    if (self().page_locked.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return kInvalidValue;
    if (const auto mapped = self().mapped.find(memory); mapped != self().mapped.end()) {
      munmap(memory, mapped->second);
      self().mapped.erase(mapped);
      return kSuccess;
    }
  }
  std::free(memory);
  return kSuccess;
}

driver_status mem_host_register(void* memory, std::size_t bytes, unsigned) {
  PENSTOCK_CALLED("cuMemHostRegister");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  const std::lock_guard lock(self().mutex);
  self().page_locked[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return kSuccess;
}

driver_status mem_host_unregister(void* memory) {
  PENSTOCK_CALLED("cuMemHostUnregister");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  const std::lock_guard lock(self().mutex);
  return self().page_locked.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0 ? kInvalidValue : kSuccess;
}

driver_status enqueue(stream_ref handle, std::function<void()> what, const char* kernel = nullptr) {
  const auto stream = self().stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->device != fake_driver::current_device_number()) return kInvalidContext;
  fake_operation operation;
  operation.run = std::move(what);
  operation.kernel = kernel;
  self().streams.enqueue(*stream, std::move(operation));
  self().streams.maybe_block(*stream);
  return kSuccess;
}

// Copies while just that memory is accessible; after a free meanwhile it faults, as it should.
std::function<void()> copying(void* to, const void* from, std::size_t bytes) {
  return [to, from, bytes] {
    const fake_memory::access open(self().memory, {to, from}, bytes);
    std::memmove(to, from, bytes);
  };
}

void* pointer_to(device_address address) { return reinterpret_cast<void*>(address); }

driver_status copy_to_device(device_address to, const void* from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyHtoDAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr) return kInvalidValue;
  if (self().is_page_locked(from, bytes)) return enqueue(stream, copying(pointer_to(to), from, bytes));
  // The driver stages memory that is not page-locked before it returns.
  self().count("pageable copy");
  const auto* const bytes_of = static_cast<const std::byte*>(from);
  auto staged = std::make_shared<std::vector<std::byte>>(bytes_of, bytes_of + bytes);
  return enqueue(stream, [to, staged] { copying(pointer_to(to), staged->data(), staged->size())(); });
}

// In any order, as the driver may.
driver_status copy_batch(device_address* to, device_address* from, std::size_t* bytes, std::size_t count,
                         copy_attributes* attributes, std::size_t* first, std::size_t attribute_count,
                         std::size_t* failed_at, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyBatchAsync");
  *failed_at = std::numeric_limits<std::size_t>::max();
  if (count == 0 || attribute_count != 1 || first[0] != 0 || attributes[0].source_order != 1) return kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    *failed_at = i;
    if (bytes[i] == 0 || self().memory.find(to[i], bytes[i]) == nullptr ||
        !self().is_page_locked(pointer_to(from[i]), bytes[i]))
      return kInvalidValue;
  }
  for (std::size_t i = count; i-- > 0;) {
    const driver_status queued = enqueue(stream, copying(pointer_to(to[i]), pointer_to(from[i]), bytes[i]));
    if (queued != kSuccess) return queued;
  }
  return kSuccess;
}

driver_status copy_to_host(void* to, device_address from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyDtoHAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(from, bytes) == nullptr) return kInvalidValue;
  const bool page_locked = self().is_page_locked(to, bytes);
  if (!page_locked) self().count("pageable copy");
  const driver_status queued = enqueue(stream, copying(to, pointer_to(from), bytes));
  if (queued == kSuccess && !page_locked) self().streams.synchronize(*self().stream_of(stream));  // as the driver does
  return queued;
}

driver_status copy_on_device(device_address to, device_address from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyDtoDAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr || self().memory.find(from, bytes) == nullptr) return kInvalidValue;
  return enqueue(stream, copying(pointer_to(to), pointer_to(from), bytes));
}

driver_status set_bytes(device_address to, unsigned char value, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemsetD8Async");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr) return kInvalidValue;
  return enqueue(stream, [to, value, bytes] {
    const fake_memory::access open(self().memory, {pointer_to(to)}, bytes);
    std::memset(pointer_to(to), value, bytes);
  });
}

driver_status pointer_get_attribute(void* out, int which, device_address address) {
  PENSTOCK_CALLED("cuPointerGetAttribute");
  const fake_memory::block* const found = self().memory.find(address, 1);
  const bool page_locked = found == nullptr && self().is_page_locked(pointer_to(address), 1);
  if (found == nullptr && !page_locked) return kInvalidValue;
  if (which == kPointerContext) {
    const bool is_foreign = address >= self().foreign && address - self().foreign < self().foreign_bytes;
    const context_ref owner = fake_driver::context_of(is_foreign         ? kForeignContext
                                                      : found == nullptr ? 0
                                                                         : found->device);
    std::memcpy(out, &owner, sizeof owner);
    return kSuccess;
  }
  if (which == kPointerIsManaged) {
    std::memset(out, 0, sizeof(unsigned));
    return kSuccess;
  }
  const unsigned value = which == kPointerMemoryType ? (found != nullptr ? kMemoryTypeDevice : kMemoryTypeHost)
                         : found != nullptr          ? static_cast<unsigned>(found->device)
                                                     : 0;
  std::memcpy(out, &value, sizeof value);
  return kSuccess;
}

// ---- kernels ----

driver_status module_load(module_ref* out, const void*) {
  PENSTOCK_CALLED("cuModuleLoadData");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  *out = reinterpret_cast<module_ref>(fake_driver::context_of(fake_driver::current_device_number()));
  return kSuccess;
}

driver_status module_unload(module_ref) {
  PENSTOCK_CALLED("cuModuleUnload");
  return kSuccess;
}

driver_status module_get_function(function_ref* out, module_ref, const char* name) {
  PENSTOCK_CALLED("cuModuleGetFunction");
  for (const host_kernel& each : host_kernels()) {
    if (std::string_view(each.name) != name) continue;
    const std::lock_guard lock(self().mutex);
    self().functions.push_back(std::make_unique<fake_function>(fake_function{each}));
    *out = reinterpret_cast<function_ref>(self().functions.back().get());
    return kSuccess;
  }
  return kNotFound;
}

driver_status function_load(function_ref) {
  PENSTOCK_CALLED("cuFuncLoad");
  return kSuccess;
}

driver_status launch_kernel(function_ref function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned, stream_ref stream, void** parameters,
                            void**) {
  PENSTOCK_CALLED("cuLaunchKernel");
  self().count("kernel");
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1)
    return kInvalidValue;
  const host_kernel kernel = reinterpret_cast<fake_function*>(function)->kernel;
  const auto* const given = static_cast<const std::byte*>(parameters[0]);
  auto copied = std::make_shared<std::vector<std::byte>>(given, given + kernel.parameter_bytes);
  const auto run = [kernel, copied, grid_x, block_x] {
    const fake_memory::access open(self().memory);
    kernel.run(copied->data(), grid_x, block_x);
    if (const auto then = self().then_of(kernel.name)) then(copied->data());
    self().count((std::string("ran ") + kernel.name).c_str());
  };
  return enqueue(stream, run, kernel.name);
}

}  // namespace
}  // namespace penstock::test

using namespace penstock::test;

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

PENSTOCK_EXPORT int cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t, int* found) {
  *out = nullptr;
#define PENSTOCK_FAKE_ENTRY(member, text, number, ...)                                    \
  if (std::string_view(name) == #text && std::min(version, self().version) >= (number)) { \
    const std::add_pointer_t<__VA_ARGS__> entry = member;                                 \
    *out = reinterpret_cast<void*>(entry);                                                \
  }
  PENSTOCK_CUDA_DRIVER(PENSTOCK_FAKE_ENTRY)
  PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_FAKE_ENTRY)
#undef PENSTOCK_FAKE_ENTRY
  if (found != nullptr) *found = *out == nullptr ? 1 : 0;
  return *out == nullptr ? kNotFound : kSuccess;
}

PENSTOCK_EXPORT void penstock_fake_cuda_configure(std::uint64_t seed, int lazy, unsigned max_delay_us) {
  self().pump_at("");
  self().after("", nullptr);
  self().refuses_system_calls = false;
  {
    const std::lock_guard lock(self().mutex);
    self().attributes.clear();
  }
  self().streams.configure(seed, lazy != 0, max_delay_us);
}
PENSTOCK_EXPORT void penstock_fake_cuda_hold_kernels(int hold) {
  self().streams.hold_kernels(hold != 0 ? "" : nullptr);
}
PENSTOCK_EXPORT void penstock_fake_cuda_hold_kernel(const char* name) { self().streams.hold_kernels(name); }
PENSTOCK_EXPORT void penstock_fake_cuda_block_at_random(unsigned one_in) { self().streams.block_at_random(one_in); }
PENSTOCK_EXPORT void penstock_fake_cuda_after_kernel(const char* name, void (*then)(const void* parameters)) {
  self().after(name, then);
}
PENSTOCK_EXPORT int penstock_fake_cuda_pump(int most) { return self().streams.pump(most); }
PENSTOCK_EXPORT bool penstock_fake_cuda_pending() { return self().streams.pending(); }
PENSTOCK_EXPORT void penstock_fake_cuda_pump_at(const char* name) { self().pump_at(name); }

PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_count(const char* name) {
  const std::lock_guard lock(self().mutex);
  const auto found = self().counts.find(name);
  return found == self().counts.end() ? 0 : found->second;
}
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_calls() {
  const std::lock_guard lock(self().mutex);
  return self().calls;
}
PENSTOCK_EXPORT void penstock_fake_cuda_reset_counts() {
  const std::lock_guard lock(self().mutex);
  self().counts.clear();
  self().calls = 0;
}
PENSTOCK_EXPORT void penstock_fake_cuda_fail(const char* name, std::uint64_t after, int status) {
  const std::lock_guard lock(self().mutex);
  self().failures[name] = {after, status};
}
PENSTOCK_EXPORT void penstock_fake_cuda_fault(int status) {
  {
    const std::lock_guard lock(self().mutex);
    self().fault = status;
  }
  self().streams.discard(status != kSuccess);
}
PENSTOCK_EXPORT void penstock_fake_cuda_capture(int begins) {
  const std::lock_guard lock(self().mutex);
  self().captured = begins != 0;
}
PENSTOCK_EXPORT void penstock_fake_cuda_refuse_system_calls(int refuse) { self().refuses_system_calls = refuse != 0; }
PENSTOCK_EXPORT void penstock_fake_cuda_foreign(std::uint64_t address, std::uint64_t bytes) {
  self().foreign = address;
  self().foreign_bytes = bytes;
}
PENSTOCK_EXPORT void penstock_fake_cuda_attribute(int which, int value, int status) {
  const std::lock_guard lock(self().mutex);
  self().attributes[which] = {value, status};
}
PENSTOCK_EXPORT void penstock_fake_cuda_engine(int formats, int most_bytes) {
  self().engine_formats = formats;
  self().engine_most_bytes = most_bytes;
}

PENSTOCK_EXPORT int penstock_fake_cuda_enqueue(void* stream, void (*run)(void*), void* argument) {
  return enqueue(
      static_cast<stream_ref>(stream),
      [run, argument] {
        const fake_memory::access open(self().memory);
        run(argument);
      },
      "of a library");
}
PENSTOCK_EXPORT int penstock_fake_cuda_retained() { return self().retained; }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_live_bytes() { return self().memory.live_bytes(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_peak_bytes() { return self().memory.take_peak_bytes(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_live_allocations() { return self().memory.live_allocations(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_page_locked_bytes() {
  const std::lock_guard lock(self().mutex);
  std::uint64_t bytes = 0;
  for (const auto& [address, each] : self().page_locked) bytes += each;
  return bytes;
}
PENSTOCK_EXPORT bool penstock_fake_cuda_peek(void* to, std::uint64_t from, std::uint64_t bytes) {
  if (self().memory.find(from, bytes) == nullptr) return false;
  const fake_memory::access open(self().memory, {pointer_to(from)}, bytes);
  std::memcpy(to, pointer_to(from), bytes);
  return true;
}
