#include "cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

using find_function = driver_status (*)(const char*, void**, int, std::uint64_t, int*);

result<> find(find_function from, const char* name, int version, void*& out) {
  int found = 0;
  const driver_status status = from(name, &out, version, 0, &found);
  if (status == kSuccess && out != nullptr) return {};
  out = nullptr;
  return error(errc::unsupported, fmt::format("the CUDA driver is too old: it has no {} of version {}.{}", name,
                                              version / 1000, version % 1000 / 10));
}

result<std::unique_ptr<driver>> load(const std::string& file) {
  // Never closed: a driver that has been initialised cannot be unloaded.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return error(errc::unsupported,
                 fmt::format("no CUDA driver on this machine: {}", why == nullptr ? file.c_str() : why));
  }
  void* const found = dlsym(library, "cuGetProcAddress_v2");
  if (found == nullptr)
    return error(errc::unsupported,
                 fmt::format("the CUDA driver '{}' is older than 12.0: it has no cuGetProcAddress_v2", file));
  const auto lookup = reinterpret_cast<find_function>(found);
  auto made = std::make_unique<driver>();
  void* address = nullptr;
#define PENSTOCK_CUDA_LOAD(member, name, number, ...) \
  PENSTOCK_TRY(find(lookup, #name, number, address)); \
  made->member = reinterpret_cast<decltype(made->member)>(address);
  PENSTOCK_CUDA_DRIVER(PENSTOCK_CUDA_LOAD)
#undef PENSTOCK_CUDA_LOAD
#define PENSTOCK_CUDA_LOAD(member, name, number, ...) \
  if (find(lookup, #name, number, address).ok()) made->member = reinterpret_cast<decltype(made->member)>(address);
  PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_CUDA_LOAD)
#undef PENSTOCK_CUDA_LOAD
  made->simulated = dlsym(library, "penstock_fake_cuda_count") != nullptr;

  const driver_status started = made->init(0);
  if (started == kNoDevice) return error(errc::unsupported, "the CUDA driver finds no device on this machine");
  if (started != kSuccess)
    return error(errc::unsupported, "the CUDA driver does not start: " + made->failure(started, "cuInit").message());
  PENSTOCK_TRY(made->check(made->driver_get_version(&made->version), "cuDriverGetVersion"));
  PENSTOCK_TRY(made->check(made->device_get_count(&made->devices), "cuDeviceGetCount"));
  if (made->devices < 1) return error(errc::unsupported, "the CUDA driver finds no device on this machine");
  return made;
}

}  // namespace

error driver::failure(driver_status status, std::string_view call) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name == nullptr || get_error_name(status, &name) != kSuccess) name = nullptr;
  if (get_error_string == nullptr || get_error_string(status, &text) != kSuccess) text = nullptr;
  const errc code = status == kOutOfMemory     ? errc::resource_exhausted
                    : status == kInvalidDevice ? errc::invalid_argument
                                               : errc::io_error;
  return error(code, fmt::format("{}: {} ({})", call, name == nullptr ? fmt::format("error {}", status) : name,
                                 text == nullptr ? "no description" : text));
}

std::string driver_file() {
  const char* const named = std::getenv("PENSTOCK_CUDA_DRIVER");
  return named != nullptr && *named != '\0' ? named : "libcuda.so.1";
}

result<const driver*> load_driver() {
  static std::mutex mutex;
  // The driver is one per process, whatever loads it; not destroyed, because threads may use it until the end.
  static const driver* loaded = nullptr;
  static pid_t loaded_by = 0;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr && loaded_by != ::getpid())
    return error(errc::unsupported,
                 "this process was forked from one that had started the CUDA driver, which does not work in it: start "
                 "processes by 'spawn' or 'forkserver'");
  if (loaded != nullptr) return loaded;
  PENSTOCK_ASSIGN(std::unique_ptr<driver> made, load(driver_file()));
  loaded_by = ::getpid();
  loaded = made.release();
  return loaded;
}

result<int> current_device(const driver& with) {
  context_ref context = nullptr;
  PENSTOCK_TRY(with.check(with.context_get_current(&context), "cuCtxGetCurrent"));
  if (context == nullptr) return 0;
  device_number number = 0;
  PENSTOCK_TRY(with.check(with.context_get_device(&number), "cuCtxGetDevice"));
  return number;
}

}  // namespace penstock::inline v0::cuda
