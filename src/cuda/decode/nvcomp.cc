#include "cuda/decode/nvcomp.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <type_traits>

#include <fmt/format.h>

// clang's UBSan identifies a function by its C++ type, but these are declared by name only.
#if defined(__clang__)
#define PENSTOCK_CALLS_BY_NAME __attribute__((no_sanitize("function")))
#else
#define PENSTOCK_CALLS_BY_NAME
#endif

namespace penstock::inline v0::device {
namespace {

constexpr unsigned kOldest = 5, kNewest = 6;
constexpr const char* kNames[kNvcompCodecs] = {"Zstd", "LZ4", "Snappy", "Deflate", "Gzip"};
constexpr const char* kInstall = "pip install nvidia-libnvcomp-cu13 (or -cu12)";

// The options of every codec are 64 bytes, passed by value. Zeros are the defaults.
struct decode_options {
  std::uint32_t backend;
  std::uint32_t zeros[15];
};
constexpr std::uint32_t kEngineOnly = 1;

decode_options options_for(nvcomp_backend backend) { return {static_cast<std::uint32_t>(backend), {}}; }

struct properties {
  std::uint32_t version, cuda_version;
};
using get_properties = int(properties*);
using get_alignments = int(decode_options, nvcomp_alignment*);
using get_workspace_5 = int(std::size_t, std::size_t, decode_options, std::size_t*, std::size_t);
using get_workspace_6 = int(std::size_t, std::size_t, decode_options, std::size_t*, std::size_t, void*);
using decode_batch = int(const void* const*, const std::size_t*, const std::size_t*, std::size_t*, std::size_t, void*,
                         std::size_t, void* const*, decode_options, int*, void*);

template <class Function>
Function* as(void* address) {
  return reinterpret_cast<Function*>(address);
}

template <class T>
T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

std::string function_name(int codec, const char* what) {
  return fmt::format("nvcompBatched{}Decompress{}", kNames[codec], what);
}

std::string version_text(unsigned version) {
  return fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100);
}

// Never closed: it may still have work on a device when its last user ends.
result<void*> open_library(const std::string& file) {
  const char* const named = std::getenv("PENSTOCK_NVCOMP");
  const std::string wanted = named != nullptr && *named != '\0' ? named : file;
  if (!wanted.empty()) {
    if (void* const library = dlopen(wanted.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const why = dlerror();
    return error(errc::unsupported,
                 fmt::format("nvCOMP does not load: {}", why == nullptr ? wanted : std::string(why)));
  }
  for (const char* const name : {"libnvcomp.so.6", "libnvcomp.so.5"})
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return error(errc::unsupported,
               fmt::format("nvCOMP is not installed: no libnvcomp.so.6 and no libnvcomp.so.5; {}", kInstall));
}

result<void*> find(void* library, const std::string& name) {
  if (void* const found = dlsym(library, name.c_str())) return found;
  return error(errc::unsupported, fmt::format("the library that was loaded as nvCOMP has no {}", name));
}

}  // namespace

std::string nvcomp::version() const { return version_text(version_); }

PENSTOCK_CALLS_BY_NAME result<std::unique_ptr<const nvcomp>> nvcomp::open(const std::string& file) {
  PENSTOCK_ASSIGN(void* const library, open_library(file));
  PENSTOCK_ASSIGN(void* const about, find(library, "nvcompGetProperties"));
  properties known{};
  if (const int status = as<get_properties>(about)(&known); status != 0)
    return error(errc::unsupported, fmt::format("nvCOMP does not report its version: status {}", status));
  std::unique_ptr<nvcomp> made(new nvcomp);
  made->version_ = known.version;
  made->cuda_version_ = known.cuda_version;
  if (made->major_version() < kOldest)
    return error(errc::unsupported, fmt::format("nvCOMP {} is too old: Penstock supports versions {} and {}; {}",
                                                made->version(), kOldest, kNewest, kInstall));
  if (made->major_version() > kNewest)
    return error(errc::unsupported,
                 fmt::format("nvCOMP {} is newer than this release supports: it supports versions {} and {}",
                             made->version(), kOldest, kNewest));
  for (int codec = 0; codec < kNvcompCodecs; ++codec) {
    codec_entry& entry = made->codecs_[codec];
    PENSTOCK_ASSIGN(entry.decode, find(library, function_name(codec, "Async")));
    // The name alone does not determine the parameters: versions 2 to 4 had a function of the same name with others.
    PENSTOCK_ASSIGN(entry.workspace, find(library, function_name(codec, made->major_version() == 5 ? "GetTempSizeAsync"
                                                                                                   : "GetTempSize")));
    PENSTOCK_ASSIGN(void* const alignments, find(library, function_name(codec, "GetRequiredAlignments")));
    const auto ask = as<get_alignments>(alignments);
    if (const int status = ask(decode_options{}, &entry.alignment); status != 0)
      return error(errc::unsupported,
                   fmt::format("{}: status {}", function_name(codec, "GetRequiredAlignments"), status));
    nvcomp_alignment engine;
    entry.uses_engine = ask(decode_options{kEngineOnly, {}}, &engine) == 0;
    if (entry.uses_engine) {
      entry.alignment.source = std::max(entry.alignment.source, engine.source);
      entry.alignment.target = std::max(entry.alignment.target, engine.target);
      entry.alignment.workspace = std::max(entry.alignment.workspace, engine.workspace);
    }
  }
  return std::unique_ptr<const nvcomp>(std::move(made));
}

result<const nvcomp*> nvcomp::load(const std::string& file) {
  static std::mutex mutex;
  static const nvcomp* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  PENSTOCK_ASSIGN(auto made, open(file));
  loaded = made.release();
  return loaded;
}

PENSTOCK_CALLS_BY_NAME result<std::uint64_t> nvcomp::workspace_bytes(nvcomp_codec codec, nvcomp_backend backend,
                                                                     std::uint64_t count, std::uint64_t most_bytes,
                                                                     std::uint64_t total_bytes) const {
  std::size_t bytes = 0;
  void* const function = entry(codec).workspace;
  const int status =
      major_version() == 5
          ? as<get_workspace_5>(function)(count, most_bytes, options_for(backend), &bytes, total_bytes)
          : as<get_workspace_6>(function)(count, most_bytes, options_for(backend), &bytes, total_bytes, nullptr);
  if (status == 0) return bytes;
  return error(errc::unsupported, fmt::format("nvCOMP does not accept {} {} streams of up to {} bytes: status {}",
                                              count, kNames[static_cast<int>(codec)], most_bytes, status));
}

PENSTOCK_CALLS_BY_NAME result<> nvcomp::decode(const nvcomp_call& call, void* stream) const {
  const int status = as<decode_batch>(entry(call.codec).decode)(
      at<const void* const>(call.sources), at<const std::size_t>(call.source_bytes),
      at<const std::size_t>(call.target_bytes), at<std::size_t>(call.actual_bytes), call.count,
      at<void>(call.workspace), call.workspace_bytes, at<void* const>(call.targets), options_for(call.backend),
      at<int>(call.outcomes), stream);
  if (status == 0) return {};
  return error(errc::io_error,
               fmt::format("{}: status {}", function_name(static_cast<int>(call.codec), "Async"), status));
}

}  // namespace penstock::inline v0::device
