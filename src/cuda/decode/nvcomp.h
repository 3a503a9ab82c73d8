#pragma once

// NVIDIA's nvCOMP as a second backend of decoders: loaded at run time, on request, if it is installed.
//
// Source: the nvCOMP C API reference, https://docs.nvidia.com/cuda/nvcomp/c_api.html (5.x), and the release notes of
// 6.0 (GetTempSizeAsync became GetTempSize, with a stream). Declared here independently; its headers are not needed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/result.h>

namespace penstock::inline v0::device {

/// Codecs for which nvCOMP decodes many streams in one call.
enum class nvcomp_codec : std::uint32_t { zstd = 0, lz4 = 1, snappy = 2, deflate = 3, gzip = 4 };
inline constexpr int kNvcompCodecs = 5;

/// The backend: the library's kernels, or its own choice, which is the device's decompression engine if it has one and
/// the memory is suitable.
enum class nvcomp_backend : std::uint32_t { engine_or_kernels = 0, kernels = 2 };

/// One call: `count` streams whose tables are on the device. All addresses are the device's.
struct nvcomp_call {
  std::uint64_t sources;       ///< u64[count]: addresses of the streams
  std::uint64_t source_bytes;  ///< u64[count]
  std::uint64_t targets;       ///< u64[count]: addresses of the decoded bytes
  std::uint64_t target_bytes;  ///< u64[count]: size of the memory there
  std::uint64_t actual_bytes;  ///< u64[count], written: the decoded size of each
  std::uint64_t outcomes;      ///< i32[count], written: nvCOMP's statuses
  std::uint64_t workspace;
  std::uint64_t workspace_bytes;
  std::uint32_t count;
  nvcomp_codec codec;
  nvcomp_backend backend;
};

/// Least alignments of a stream and of its decoded bytes, for all backends.
struct nvcomp_alignment {
  std::size_t source = 1, target = 1, workspace = 1;
};

/// The loaded library. Immutable, thread-safe; never unloaded.
class nvcomp {
 public:
  /// Loads `file`, or the file in the environment variable PENSTOCK_NVCOMP, or else libnvcomp.so.6 or .5 with the
  /// system's loader. Needs no device.
  /// \error unsupported  The library does not exist, or its version is neither 5 nor 6.
  static result<std::unique_ptr<const nvcomp>> open(const std::string& file = {});
  /// The same once per process: later calls return the library that the first successful call loaded.
  static result<const nvcomp*> load(const std::string& file = {});

  unsigned major_version() const noexcept { return version_ / 1000; }
  /// `6.0.0`.
  std::string version() const;
  /// The major version of the CUDA runtime inside: the driver has to support it.
  unsigned cuda_major() const noexcept { return cuda_version_ / 1000; }

  const nvcomp_alignment& alignment(nvcomp_codec codec) const noexcept { return entry(codec).alignment; }
  /// Whether it can use a decompression engine for the codec, on a device that has one.
  bool uses_engine(nvcomp_codec codec) const noexcept { return entry(codec).uses_engine; }
  /// Bytes of workspace for `count` streams of at most `most_bytes` decoded bytes each, `total_bytes` together.
  /// \error unsupported  nvCOMP does not accept such streams.
  result<std::uint64_t> workspace_bytes(nvcomp_codec codec, nvcomp_backend backend, std::uint64_t count,
                                        std::uint64_t most_bytes, std::uint64_t total_bytes) const;
  /// Queues the call on `stream` (a driver's stream) of the current context. Does not wait.
  result<> decode(const nvcomp_call& call, void* stream) const;

 private:
  struct codec_entry {
    void* decode = nullptr;
    void* workspace = nullptr;
    nvcomp_alignment alignment;
    bool uses_engine = false;
  };
  nvcomp() = default;
  const codec_entry& entry(nvcomp_codec codec) const noexcept { return codecs_[static_cast<std::uint32_t>(codec)]; }

  unsigned version_ = 0, cuda_version_ = 0;
  codec_entry codecs_[kNvcompCodecs];
};

}  // namespace penstock::inline v0::device
