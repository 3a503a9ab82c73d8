#pragma once

// The streams of a wave that another library decodes: nvCOMP, if the context has selected it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/decode/decode_layout.h"
#include "cuda/decode/descriptors.h"
#include "cuda/decode/device_step.h"
#include "cuda/decode/launch.h"
#include "cuda/decode/nvcomp.h"
#include "cuda/decode/zstd_scan.h"

namespace penstock::inline v0::device {

inline constexpr std::uint64_t kMostLibraryBytes = std::uint64_t{4} << 30;

/// The library that a device's waves use. Borrowed; null: none.
struct library_use {
  const nvcomp* loaded = nullptr;
  /// Limit of its workspace: if it requires more, it gets fewer streams per call, or none.
  std::uint64_t most_workspace_bytes = kMostLibraryBytes;
  /// By codec: the longest stream, encoded and decoded, that the device's decompression engine accepts; 0: no engine.
  std::array<std::uint64_t, kNvcompCodecs> engine_bytes{};
};

/// Collects streams and emits their decoding: a call for those of a codec, and another for those that the device's own
/// engine accepts, so that a stream that is too long for it does not exclude others. Not thread-safe.
class library_streams {
 public:
  explicit library_streams(const library_use& use = {}, bool verify_checksums = true)
      : use_(use), verify_(verify_checksums) {}

  /// Adds the part if the library accepts it; false: it is left to our own decoders, which report damage. A stream at
  /// an address that the library does not accept is copied to `scratch_bytes` in the workspace, which grows by it.
  ///
  /// \param bytes  Those at `planned.part.source`, except for LZ4 and Snappy.
  bool add(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind, std::uint64_t& scratch_bytes);

  /// Adds the streams of another wave, whose parts are moved by `by`.
  void append(const library_streams& other, const relocation& by);

  /// The copies to make before the calls.
  const std::vector<planned_part>& copies() const noexcept { return copies_; }
  /// The descriptor bytes that `emit` needs, without the copies.
  std::uint64_t descriptor_bytes() const noexcept;
  std::uint64_t workspace_bytes() const noexcept;
  /// Appends the calls, and after those of each codec the kernel that checks their outcome.
  void emit(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const;

  static constexpr int kBatches = 2 * kNvcompCodecs;
  /// The numbers of entries to which `rewind` returns.
  struct mark {
    std::size_t streams[kBatches] = {}, copies = 0;
  };
  mark here() const noexcept;
  void rewind(const mark& to);
  void clear();

 private:
  // A stream: the part without `front` bytes at its beginning and `back` bytes at its end.
  struct stream {
    nvcomp_codec codec;
    std::uint32_t front, back;
    content_check check;
  };
  // All streams of one codec and backend, in addition to their parts.
  struct batch {
    std::vector<planned_part> streams, parts;
    std::uint64_t most_bytes = 0;  // a decoded size that nvCOMP is known to accept
    // The reserved workspace, and the number of streams and bytes for which it was requested.
    std::uint64_t reserved = 0, reserved_total = 0;
    std::size_t reserved_count = 0;
    std::uint64_t total_bytes = 0;  // decoded; includes streams that were removed again
  };
  // Numbers below kNvcompCodecs are batches of nvCOMP's kernels; the others are of its decompression engine.
  static nvcomp_codec codec_of(int number) { return static_cast<nvcomp_codec>(number % kNvcompCodecs); }
  static nvcomp_backend backend_of(int number) {
    return number < kNvcompCodecs ? nvcomp_backend::kernels : nvcomp_backend::engine_or_kernels;
  }

  bool takes(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind, stream& out);
  void reserve(int number);
  void emit(decode_layout& to, std::uint64_t statuses, int number, std::vector<kernel_launch>& launches) const;

  library_use use_;
  bool verify_ = true;
  batch batches_[kBatches];
  std::vector<planned_part> copies_;
  zstd_index scanned_;  // scratch
};

}  // namespace penstock::inline v0::device
