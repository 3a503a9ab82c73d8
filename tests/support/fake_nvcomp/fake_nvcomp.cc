#include "support/fake_nvcomp/fake_nvcomp.h"

#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "cuda/decode/host_decode.h"
#include "support/fake_cuda/fake_cuda.h"

namespace {

constexpr int kOk = 0, kInvalidValue = 10, kCannotDecompress = 12, kTooSmall = 15, kCudaError = 1000;
constexpr int kKeepSilent = -1;

enum codec : std::uint32_t { zstd, lz4, snappy, deflate, gzip, codecs };
constexpr std::string_view kNames[codecs] = {"zstd", "lz4", "snappy", "deflate", "gzip"};

std::atomic<int> says{0}, fails{0};
std::atomic<std::uint64_t> calls{0}, engine_streams{0}, workspace_eighths{24};
std::array<std::atomic<std::uint64_t>, codecs> streams{};
std::atomic<void (*)()> on_workspace{nullptr};

unsigned version() {
  const char* const named = std::getenv("PENSTOCK_FAKE_NVCOMP_VERSION");
  return named == nullptr ? 6000U : static_cast<unsigned>(std::atoi(named));
}

struct options {
  char bytes[64];
};

enum backend { default_backend, engine_only, kernels_only, backends };

backend backend_of(const options& given) { return static_cast<backend>(given.bytes[0]); }

// As in the library: Zstandard has no engine, and only the backend can be chosen here.
bool known(codec which, const options& given) {
  for (std::size_t i = 1; i < sizeof given.bytes; ++i)
    if (given.bytes[i] != 0) return false;
  return given.bytes[0] >= 0 && given.bytes[0] < backends && (which != zstd || backend_of(given) != engine_only);
}

// Deflate's streams begin at multiples of four there too.
std::size_t stream_alignment(codec which) { return which == deflate ? 4 : 1; }

struct outcome {
  int status = kOk;
  std::size_t bytes = 0;
};

outcome decode(codec which, std::span<const std::byte> in, std::span<std::byte> out) {
  switch (which) {
    case zstd: {
      const std::size_t made = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
      if (ZSTD_isError(made) == 0) return {kOk, made};
      return {kCannotDecompress, 0};
    }
    case lz4: {
      const int made =
          LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                              static_cast<int>(in.size()), static_cast<int>(out.size()));
      if (made >= 0) return {kOk, static_cast<std::size_t>(made)};
      return {kCannotDecompress, 0};
    }
    case snappy: {  // it does not have a library of its own
      const penstock::device::device_step step{penstock::device::step_kind::snappy};
      const auto done = penstock::device::decode_on_host({&step, 1}, in, out);
      if (done.ok()) return {kOk, out.size()};
      return {kCannotDecompress, 0};
    }
    default: {
      libdeflate_decompressor* const with = libdeflate_alloc_decompressor();
      std::size_t made = 0;
      const auto run = which == gzip ? libdeflate_gzip_decompress : libdeflate_deflate_decompress;
      const auto result = run(with, in.data(), in.size(), out.data(), out.size(), &made);
      libdeflate_free_decompressor(with);
      if (result == LIBDEFLATE_SUCCESS) return {kOk, made};
      return {result == LIBDEFLATE_INSUFFICIENT_SPACE ? kTooSmall : kCannotDecompress, 0};
    }
  }
}

struct queued_call {
  codec which;
  backend with;
  const void* const* sources;
  const std::size_t* source_bytes;
  const std::size_t* room;
  std::size_t* actual;
  std::size_t count;
  void* workspace;
  std::size_t workspace_bytes;
  void* const* targets;
  int* statuses;
};

void run(void* argument) {
  const std::unique_ptr<queued_call> call(static_cast<queued_call*>(argument));
  // The library may write all of its workspace.
  if (call->workspace_bytes != 0) std::memset(call->workspace, 0x5a, call->workspace_bytes);
  for (std::size_t i = 0; i < call->count; ++i) {
    const outcome made = decode(call->which, {static_cast<const std::byte*>(call->sources[i]), call->source_bytes[i]},
                                {static_cast<std::byte*>(call->targets[i]), call->room[i]});
    const int said = says.load();
    if (said == kKeepSilent) continue;
    call->actual[i] = made.bytes;
    call->statuses[i] = said != 0 ? said : made.status;
    ++streams[call->which];
    if (call->with == default_backend) ++engine_streams;
  }
}

int workspace_of(codec which, std::size_t count, std::size_t most, const options& given, std::size_t* bytes,
                 std::size_t total) {
  if (bytes == nullptr || !known(which, given) || most > total || total > count * most) return kInvalidValue;
  if (void (*const call)() = on_workspace.load(); call != nullptr) call();
  *bytes = total * workspace_eighths / 8;
  return kOk;
}

int queue(const queued_call& call, const options& given, void* stream) {
  ++calls;
  if (const int planned = fails.load(); planned != 0) return planned;
  if (!known(call.which, given) || call.statuses == nullptr || call.actual == nullptr) return kInvalidValue;
  auto made = std::make_unique<queued_call>(call);
  made->with = backend_of(given);
  if (penstock_fake_cuda_enqueue(stream, run, made.get()) != 0) return kCudaError;
  made.release();
  return kOk;
}

}  // namespace

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

PENSTOCK_EXPORT int nvcompGetProperties(std::uint32_t* out) {
  if (out == nullptr) return kInvalidValue;
  out[0] = version();
  const char* const cuda = std::getenv("PENSTOCK_FAKE_NVCOMP_CUDA");
  out[1] = cuda == nullptr ? 13000U : static_cast<unsigned>(std::atoi(cuda));
  return kOk;
}

// The declarations that nvCOMP has for each codec.
#define PENSTOCK_FAKE_NVCOMP(Name, which)                                                                            \
  PENSTOCK_EXPORT int nvcompBatched##Name##DecompressGetRequiredAlignments(options given, std::size_t* out) {        \
    out[0] = stream_alignment(which);                                                                                \
    out[1] = 1;                                                                                                      \
    out[2] = 8;                                                                                                      \
    return known(which, given) ? kOk : kInvalidValue;                                                                \
  }                                                                                                                  \
  PENSTOCK_EXPORT int nvcompBatched##Name##DecompressGetTempSizeAsync(                                               \
      std::size_t count, std::size_t most, options given, std::size_t* bytes, std::size_t total) {                   \
    return version() / 1000 == 5 ? workspace_of(which, count, most, given, bytes, total) : kInvalidValue;            \
  }                                                                                                                  \
  PENSTOCK_EXPORT int nvcompBatched##Name##DecompressGetTempSize(std::size_t count, std::size_t most, options given, \
                                                                 std::size_t* bytes, std::size_t total, void*) {     \
    return version() / 1000 == 6 ? workspace_of(which, count, most, given, bytes, total) : kInvalidValue;            \
  }                                                                                                                  \
  PENSTOCK_EXPORT int nvcompBatched##Name##DecompressAsync(                                                          \
      const void* const* sources, const std::size_t* source_bytes, const std::size_t* room, std::size_t* actual,     \
      std::size_t count, void* workspace, std::size_t workspace_bytes, void* const* targets, options given,          \
      int* statuses, void* stream) {                                                                                 \
    return queue({which, default_backend, sources, source_bytes, room, actual, count, workspace, workspace_bytes,    \
                  targets, statuses},                                                                                \
                 given, stream);                                                                                     \
  }

PENSTOCK_FAKE_NVCOMP(Zstd, zstd)
PENSTOCK_FAKE_NVCOMP(LZ4, lz4)
PENSTOCK_FAKE_NVCOMP(Snappy, snappy)
PENSTOCK_FAKE_NVCOMP(Deflate, deflate)
PENSTOCK_FAKE_NVCOMP(Gzip, gzip)

PENSTOCK_EXPORT std::uint64_t penstock_fake_nvcomp_streams(const char* codec) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < codecs; ++i)
    if (codec == nullptr || kNames[i] == codec) sum += streams[i];
  return sum;
}
PENSTOCK_EXPORT std::uint64_t penstock_fake_nvcomp_engine_streams() { return engine_streams; }
PENSTOCK_EXPORT std::uint64_t penstock_fake_nvcomp_calls() { return calls; }
PENSTOCK_EXPORT void penstock_fake_nvcomp_say(int status) { says = status; }
PENSTOCK_EXPORT void penstock_fake_nvcomp_fail(int status) { fails = status; }
PENSTOCK_EXPORT void penstock_fake_nvcomp_on_workspace(void (*call)()) { on_workspace = call; }
PENSTOCK_EXPORT void penstock_fake_nvcomp_workspace(std::uint64_t eighths) { workspace_eighths = eighths; }
