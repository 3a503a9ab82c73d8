#pragma once

/// \file
/// The functions of the CUDA driver that Penstock uses. They are declared here and loaded at run time: building needs
/// no CUDA headers, and one library serves machines with and without a GPU.
/// Source: the CUDA Driver API reference (names, parameter order, constants of 12.0 and later).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <penstock/result.h>

namespace penstock::inline v0::cuda {

struct context_object;
struct stream_object;
struct event_object;
struct module_object;
struct function_object;
using context_ref = context_object*;
/// A driver stream; 1 and 2 are the legacy and the per-thread default stream, as the driver defines them.
using stream_ref = stream_object*;
using event_ref = event_object*;
using module_ref = module_object*;
using function_ref = function_object*;
using device_address = std::uint64_t;
using device_number = int;
/// CUresult: 0 is success.
using driver_status = int;

inline constexpr driver_status kSuccess = 0;
inline constexpr driver_status kInvalidValue = 1;
inline constexpr driver_status kOutOfMemory = 2;
inline constexpr driver_status kNotInitialized = 3;
inline constexpr driver_status kNoDevice = 100;
inline constexpr driver_status kInvalidDevice = 101;
inline constexpr driver_status kInvalidImage = 200;
inline constexpr driver_status kInvalidContext = 201;
inline constexpr driver_status kNoBinaryForDevice = 209;
inline constexpr driver_status kInvalidPtx = 218;
inline constexpr driver_status kNoPtxCompiler = 221;
inline constexpr driver_status kUnsupportedPtx = 222;
inline constexpr driver_status kInvalidHandle = 400;
inline constexpr driver_status kNotFound = 500;
inline constexpr driver_status kNotReady = 600;
inline constexpr driver_status kNotSupported = 801;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kCaptureRelaxed = 2;
/// CU_POINTER_ATTRIBUTE_*: the context in which memory was allocated (null: none), its kind, whether it moves between
/// host and device, and the device that it is on.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
/// CUmemcpyAttributes: how the copies of a batch treat their sources, and hints of where memory is (0: none).
struct copy_attributes {
  int source_order = 1;  ///< CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: sources are read in the order of the stream
  int source_location[2] = {}, target_location[2] = {};
  unsigned flags = 0;
};
/// CU_DEVICE_ATTRIBUTE_*.
inline constexpr int kAttributeClockKilohertz = 13;
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
/// Whether the device and the host have the same memory; whether the device reads registered memory by its host
/// address; whether it reads all memory of a process by the host's own page tables.
inline constexpr int kAttributeIntegrated = 18;
inline constexpr int kAttributeUsesRegisteredAddress = 91;
/// Whether the device reads ordinary memory: then a copy from it may be queued without being staged first.
inline constexpr int kAttributePageableAccess = 88;
inline constexpr int kAttributeUsesHostPageTables = 100;
/// The device's place on the PCI bus, and the NUMA node of the host next to it (12.2; -1: none).
inline constexpr int kAttributePciBus = 33;
inline constexpr int kAttributePciDevice = 34;
inline constexpr int kAttributePciDomain = 50;
inline constexpr int kAttributeHostNode = 134;
/// The formats that the device's decompression engine supports, and its longest stream in bytes. Drivers before 12.8 do
/// not have these attributes.
inline constexpr int kAttributeDecompressFormats = 136;
inline constexpr int kAttributeDecompressMostBytes = 137;
inline constexpr int kDecompressDeflate = 1;
inline constexpr int kDecompressSnappy = 2;
inline constexpr int kDecompressLz4 = 4;

/// The streams that the driver names by number.
inline const stream_ref kLegacyStream = reinterpret_cast<stream_ref>(std::uintptr_t{1});
inline const stream_ref kPerThreadStream = reinterpret_cast<stream_ref>(std::uintptr_t{2});

// One line for each function: the member, its name in the driver, the version of its ABI, its type.
// clang-format off
#define PENSTOCK_CUDA_DRIVER(X)                                                                                      \
  X(init, cuInit, 2000, driver_status(unsigned))                                                                     \
  X(driver_get_version, cuDriverGetVersion, 2020, driver_status(int*))                                               \
  X(get_error_name, cuGetErrorName, 6000, driver_status(driver_status, const char**))                                \
  X(get_error_string, cuGetErrorString, 6000, driver_status(driver_status, const char**))                            \
  X(device_get_count, cuDeviceGetCount, 2000, driver_status(int*))                                                   \
  X(device_get, cuDeviceGet, 2000, driver_status(device_number*, int))                                               \
  X(device_get_attribute, cuDeviceGetAttribute, 2000, driver_status(int*, int, device_number))                       \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, 7000, driver_status(context_ref*, device_number))              \
  X(primary_context_release, cuDevicePrimaryCtxRelease, 11000, driver_status(device_number))                         \
  X(context_get_current, cuCtxGetCurrent, 4000, driver_status(context_ref*))                                         \
  X(context_get_device, cuCtxGetDevice, 2000, driver_status(device_number*))                                         \
  X(context_synchronize, cuCtxSynchronize, 2000, driver_status())                                                    \
  X(context_push, cuCtxPushCurrent, 4000, driver_status(context_ref))                                                \
  X(context_pop, cuCtxPopCurrent, 4000, driver_status(context_ref*))                                                 \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, driver_status(int*))                            \
  X(stream_create, cuStreamCreate, 2000, driver_status(stream_ref*, unsigned))                                       \
  X(stream_destroy, cuStreamDestroy, 4000, driver_status(stream_ref))                                                \
  X(stream_query, cuStreamQuery, 2000, driver_status(stream_ref))                                                    \
  X(stream_synchronize, cuStreamSynchronize, 2000, driver_status(stream_ref))                                        \
  X(stream_is_capturing, cuStreamIsCapturing, 10000, driver_status(stream_ref, int*))                                \
  X(stream_wait_event, cuStreamWaitEvent, 3020, driver_status(stream_ref, event_ref, unsigned))                      \
  X(event_create, cuEventCreate, 2000, driver_status(event_ref*, unsigned))                                          \
  X(event_destroy, cuEventDestroy, 4000, driver_status(event_ref))                                                   \
  X(event_record, cuEventRecord, 2000, driver_status(event_ref, stream_ref))                                         \
  X(event_query, cuEventQuery, 2000, driver_status(event_ref))                                                       \
  X(event_synchronize, cuEventSynchronize, 2000, driver_status(event_ref))                                           \
  X(event_elapsed_ms, cuEventElapsedTime, 2000, driver_status(float*, event_ref, event_ref))                         \
  X(mem_alloc, cuMemAlloc, 3020, driver_status(device_address*, std::size_t))                                        \
  X(mem_free, cuMemFree, 3020, driver_status(device_address))                                                        \
  X(mem_get_info, cuMemGetInfo, 3020, driver_status(std::size_t*, std::size_t*))                                     \
  X(mem_host_alloc, cuMemHostAlloc, 2020, driver_status(void**, std::size_t, unsigned))                              \
  X(mem_free_host, cuMemFreeHost, 2000, driver_status(void*))                                                        \
  X(mem_host_register, cuMemHostRegister, 6050, driver_status(void*, std::size_t, unsigned))                         \
  X(mem_host_unregister, cuMemHostUnregister, 4000, driver_status(void*))                                            \
  X(copy_to_device, cuMemcpyHtoDAsync, 3020, driver_status(device_address, const void*, std::size_t, stream_ref))    \
  X(copy_to_host, cuMemcpyDtoHAsync, 3020, driver_status(void*, device_address, std::size_t, stream_ref))            \
  X(copy_on_device, cuMemcpyDtoDAsync, 3020,                                                                         \
    driver_status(device_address, device_address, std::size_t, stream_ref))                                          \
  X(set_bytes, cuMemsetD8Async, 3020, driver_status(device_address, unsigned char, std::size_t, stream_ref))       \
  X(pointer_get_attribute, cuPointerGetAttribute, 4000, driver_status(void*, int, device_address))                   \
  X(module_load, cuModuleLoadData, 2000, driver_status(module_ref*, const void*))                                    \
  X(module_unload, cuModuleUnload, 2000, driver_status(module_ref))                                                  \
  X(module_get_function, cuModuleGetFunction, 2000, driver_status(function_ref*, module_ref, const char*))           \
  X(launch_kernel, cuLaunchKernel, 4000,                                                                             \
    driver_status(function_ref, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream_ref,    \
                  void**, void**))
// Absent from older drivers, or not needed to work; null if absent.
#define PENSTOCK_CUDA_DRIVER_OPTIONAL(X)                                                                             \
  X(device_get_name, cuDeviceGetName, 2000, driver_status(char*, int, device_number))                                \
  X(function_load, cuFuncLoad, 12040, driver_status(function_ref))                                                   \
  X(copy_batch, cuMemcpyBatchAsync, 12080,                                                                           \
    driver_status(device_address*, device_address*, std::size_t*, std::size_t, copy_attributes*, std::size_t*,       \
                  std::size_t, std::size_t*, stream_ref))                                                            \
  X(context_record_event, cuCtxRecordEvent, 12050, driver_status(context_ref, event_ref))
// clang-format on

/// The loaded driver: a table of its functions. Immutable; lives until the process ends, as the driver itself does.
struct driver {
#define PENSTOCK_CUDA_MEMBER(member, name, version, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  PENSTOCK_CUDA_DRIVER(PENSTOCK_CUDA_MEMBER)
  PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_CUDA_MEMBER)
#undef PENSTOCK_CUDA_MEMBER

  int version = 0;         ///< as the driver reports it: 13000 for 13.0
  int devices = 0;         ///< at least 1
  bool simulated = false;  ///< the fake driver of the tests: kernels run as host code, and no device code is needed

  /// Turns a status into an error that names the call: `cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)`.
  error failure(driver_status status, std::string_view call) const;
  result<> check(driver_status status, std::string_view call) const {
    if (status == kSuccess) [[likely]]
      return {};
    return failure(status, call);
  }
};

/// The file that is loaded: `libcuda.so.1`, or the file that the environment variable PENSTOCK_CUDA_DRIVER names. The
/// variable exists for tests, which put a simulated driver there.
std::string driver_file();

/// Loads and initialises the driver, once per process; a failure is tried again at the next call.
/// \error unsupported  The machine has no driver or no device, the driver is too old, or this process was forked from
/// one that had initialised it. The message names the reason.
result<const driver*> load_driver();

/// The kind of calls within a `current_context`.
enum class driver_calls : std::uint8_t {
  any,
  queues_only,  ///< launches, copies, records and waits of events: a stream capture of another thread allows them
};

/// Makes a device's primary context current for a scope, on the calling thread. Calls within the scope do not belong to
/// a stream capture: otherwise, allocating memory while another thread captures a graph would fail and break that
/// capture. A scope nested in one of the same context calls nothing.
class current_context {
 public:
  current_context(const driver& with, context_ref context, driver_calls what = driver_calls::any) noexcept
      : driver_(with), outer_(entered_) {
    if (outer_ != context) {
      if (driver_.context_push(context) != kSuccess) return;
      pushed_ = true;
      entered_ = context;
    }
    if (what == driver_calls::queues_only || leaves_captures_) return;
    exchanged_ = leaves_captures_ = true;
    driver_.exchange_capture_mode(&capture_mode_);
  }
  ~current_context() {
    if (exchanged_) {
      driver_.exchange_capture_mode(&capture_mode_);
      leaves_captures_ = false;
    }
    if (!pushed_) return;
    entered_ = outer_;
    context_ref popped = nullptr;
    driver_.context_pop(&popped);
  }
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;

  /// Declares, once for a thread of this library, that its calls do not belong to a stream capture.
  static void leave_captures(const driver& with) noexcept {
    if (leaves_captures_) return;
    int mode = kCaptureRelaxed;
    with.exchange_capture_mode(&mode);
    leaves_captures_ = true;
  }

 private:
  inline static thread_local context_ref entered_ = nullptr;  // context of the innermost scope
  inline static thread_local bool leaves_captures_ = false;
  const driver& driver_;
  const context_ref outer_;
  bool pushed_ = false, exchanged_ = false;
  int capture_mode_ = kCaptureRelaxed;  // afterwards the one before is restored
};

/// The number of the caller's current device: that of the context that is current on this thread, or 0 if none is (as
/// in the CUDA runtime).
result<int> current_device(const driver& with);

}  // namespace penstock::inline v0::cuda
