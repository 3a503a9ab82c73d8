#pragma once

// Chunks of one codec chain on their way through the device decoders: the host reads their headers when they are added,
// and the whole wave becomes one block of descriptors and a few kernel launches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/blosc_scan.h"
#include "cuda/decode/decode_layout.h"
#include "cuda/decode/device_step.h"
#include "cuda/decode/launch.h"
#include "cuda/decode/library_streams.h"
#include "cuda/decode/zstd_scan.h"

namespace penstock::inline v0::device {

/// Kernels count a chunk's bytes in 32 bits, and step beyond its end.
inline constexpr std::uint64_t kMostChunkBytes = std::uint64_t{4032} << 20;

/// A chunk to decode.
struct wave_chunk {
  std::span<const std::byte> bytes;  ///< encoded, on the host; only read while the chunk is added
  std::uint64_t device_bytes = 0;    ///< address of the same bytes on the device
  std::uint64_t target = 0;          ///< address of `decoded_bytes` contiguous bytes on the device
  std::uint64_t decoded_bytes = 0;
};

/// Collects chunks of one chain and emits their decoding on the device. Not thread-safe; `clear` keeps the memory.
class decode_wave {
 public:
  /// \param library  Decodes the streams that it accepts, instead of our own decoders.
  /// \error unsupported  The device cannot run these steps in this order.
  static result<decode_wave> make(std::span<const device_step> steps, bool verify_checksums = true,
                                  const library_use& library = {});

  /// Adds a chunk; its status word has the number `chunks()` before the call. After an error the wave is unchanged.
  ///
  /// \error corrupt_data  The bytes contradict their format: the chunk's error.
  /// \error unsupported   The headers are well-formed, but the host must decode this chunk.
  result<> add(const wave_chunk& chunk);

  /// Adds the chunks of another wave with the same steps, after its own; they keep their order. Reads no
  /// headers.
  void append(const decode_wave& other);

  std::size_t chunks() const noexcept { return chunks_; }
  /// The most that `emit` needs for the chunks added so far; both blocks start at multiples of 256. Takes constant
  /// time.
  std::uint64_t descriptor_bytes() const noexcept;
  std::uint64_t workspace_bytes() const noexcept;

  /// The numbers of all entries to which `rewind` returns.
  struct mark {
    std::size_t chunks = 0, frames = 0, blocks = 0;
    std::size_t parts[8] = {};
    library_streams::mark streams;
    std::uint64_t intermediate_bytes = 0, literal_bytes = 0, sequences = 0;
  };
  mark here() const noexcept;
  /// Removes the chunks that were added since `to`.
  void rewind(const mark& to);

  /// Writes the descriptors for these addresses and appends the launches, to be run in their order on one stream.
  ///
  /// \param descriptors  `descriptor_bytes()` on the host; their copy on the device will be at `device_descriptors`.
  /// \param workspace    Address of `workspace_bytes()`, with any content.
  /// \param statuses     Address of `chunks()` 32-bit words that are 0 when the first kernel starts: `chunk_status`es.
  void emit(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace,
            std::uint64_t statuses, std::vector<kernel_launch>& launches) const;

  void clear();

 private:
  decode_wave() = default;
  result<> add_behind_check(const wave_chunk& chunk);
  result<> add_decoder(const wave_chunk& chunk, std::uint64_t target, bool in_workspace);
  result<> add_framed(const wave_chunk& chunk, const blosc_frame& frame, std::uint64_t target, bool in_workspace);
  result<> add_split(const wave_chunk& chunk, const planned_part& planned, step_kind kind);
  result<> find_sizes(std::uint64_t decoded_bytes);
  void add_transforms(const wave_chunk& chunk, std::uint64_t first_source, bool in_workspace);
  void emit_zstd(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const;
  void emit_parts(decode_layout& to, std::uint64_t statuses, kernel_id kernel, const std::vector<planned_part>& parts,
                  std::vector<kernel_launch>& launches) const;
  void emit_transform(decode_layout& to, std::uint64_t statuses, const std::vector<planned_part>& parts,
                      std::vector<kernel_launch>& launches) const;
  void emit_rows(decode_layout& to, std::uint64_t statuses, const row_layout& rows,
                 const std::vector<planned_part>& parts, std::vector<kernel_launch>& launches) const;
  void emit_all(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const;
  planned_part part_of(const wave_chunk& chunk, std::uint64_t target, bool in_workspace) const;
  planned_part raw_block(const zstd_block& block) const;

  device_step decoder_{step_kind::byte_swap};  ///< the first step, if it is a decoder
  std::vector<device_step> transforms_;        ///< those after the decoder
  bool decodes_ = false;
  bool checks_ = false;  ///< whether CRC-32C comes first
  bool verify_ = true;
  std::size_t chunks_ = 0;
  std::uint64_t intermediate_bytes_ = 0;
  zstd_index zstd_;
  library_streams by_library_;
  // By kernel, in the order in which they run.
  std::vector<planned_part> zstd_parts_, lz_parts_, lz4_frame_parts_, lzw_parts_, inflate_parts_, copy_parts_,
      unshuffle_parts_, check_parts_;
  static constexpr std::vector<planned_part> decode_wave::* kParts[] = {
      &decode_wave::zstd_parts_,      &decode_wave::lz_parts_,      &decode_wave::lz4_frame_parts_,
      &decode_wave::lzw_parts_,       &decode_wave::inflate_parts_, &decode_wave::copy_parts_,
      &decode_wave::unshuffle_parts_, &decode_wave::check_parts_};
  std::vector<std::vector<planned_part>> transform_parts_;  ///< by transform; one part per chunk
  std::vector<std::uint64_t> sizes_;                        ///< scratch: bytes before each transform
};

/// The sentence for a status word that is not ok; `codec` is the name of the chain for messages.
error status_error(std::uint32_t status, std::string_view codec);

}  // namespace penstock::inline v0::device
