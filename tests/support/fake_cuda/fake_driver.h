#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/driver.h"
#include "cuda/host_kernels.h"
#include "support/fake_cuda/fake_memory.h"
#include "support/fake_cuda/fake_streams.h"

namespace penstock::test::fake {

using namespace penstock::cuda;

inline constexpr driver_status kCaptureUnsupported = 900;
inline constexpr int kForeignContext = 1000;  // not a device's primary context

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

inline thread_local std::vector<context_ref> current;
inline thread_local int capture_mode = 0;  // global memory

// Calls that are refused while another thread captures, and break its capture, unless the caller's thread allows it.
inline constexpr std::string_view kUnsafeInCapture[] = {"cuMemAlloc",    "cuMemFree",          "cuMemHostAlloc",
                                                        "cuMemFreeHost", "cuModuleLoadData",   "cuStreamQuery",
                                                        "cuEventQuery",  "cuEventSynchronize", "cuStreamSynchronize"};

// The whole driver. Never destroyed: like the real one it serves calls at the end of the process.
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

  /// Counts a call; returns another value than kSuccess if it is to fail.
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

  /// The stream of a handle, if it may be used with the current context; null otherwise.
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
  bool reads_ordinary_memory() {
    const std::lock_guard lock(mutex);
    const auto found = attributes.find(kAttributePageableAccess);
    return found != attributes.end() && found->second.value != 0;
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

  std::mutex mutex;  // protects the members below
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

fake_driver& self();

#define PENSTOCK_CALLED(name) \
  if (const driver_status failed = self().called(name); failed != kSuccess) return failed

inline void* pointer_to(device_address address) { return reinterpret_cast<void*>(address); }

/// Queues an operation on a stream of the current context. `kernel`: the name of the kernel that it is; null: none.
driver_status enqueue(stream_ref handle, std::function<void()> what, const char* kernel = nullptr);

// The driver's functions, by their names in the engine's table.
template <typename Function>
using declared = Function;
#define PENSTOCK_FAKE_DECLARE(member, text, number, ...) declared<__VA_ARGS__> member;
PENSTOCK_CUDA_DRIVER(PENSTOCK_FAKE_DECLARE)
PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_FAKE_DECLARE)
#undef PENSTOCK_FAKE_DECLARE

}  // namespace penstock::test::fake
