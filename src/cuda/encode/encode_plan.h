#pragma once

// How the device encodes chunks of one size: a codec chain becomes a block of device memory and a few kernel launches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/device_step.h"
#include "cuda/decode/launch.h"

namespace penstock::inline v0::device {

/// liblz4 accepts no more, and offsets in a chunk have 32 bits.
inline constexpr std::uint64_t kMostEncodedChunk = 0x7e000000;

/// The device's operations on chunks of one chain, of `chunk_bytes` each. Immutable.
///
/// A wave of chunks uses one block of device memory:
///
///     sizes | tables | values, `stride()` bytes a chunk | the same again | workspaces
///
/// Steps read from one half and write to the other, alternately. The caller copies the first `table_bytes` from the
/// host and the chunks' values to their places, runs the launches, and reads the sizes: one u32 for each chunk from the
/// begin of the block on.
class encode_plan {
 public:
  /// \param steps  In encoding order: any number of `shuffle` and `bitshuffle`, then at most one of `lz4` (as numcodecs
  ///               frames it), `lz4_block` and `zstd` (`settings` 1: with a checksum), then at most one `crc32c`.
  /// \param most_encoded_bytes  Space for an encoded chunk; limited to the most that the codecs can need.
  /// \error unsupported  The device has no encoder for these steps in this order, or for chunks of this size.
  static result<encode_plan> make(std::span<const device_step> steps, std::uint64_t chunk_bytes,
                                  std::uint64_t most_encoded_bytes);

  /// Distance between chunks in bytes, a multiple of 256.
  std::uint64_t stride() const noexcept { return stride_; }
  /// The most bytes of an encoded chunk.
  std::uint64_t room() const noexcept { return room_; }

  /// How many warps work on a chunk at once: one for each block of a zstd frame.
  std::uint32_t warps() const noexcept { return part_blocks_; }

  std::uint64_t bytes(std::uint32_t chunks) const noexcept;
  std::uint64_t table_bytes(std::uint32_t chunks) const noexcept;
  /// Where the values of chunk `which` belong in the block, and where its encoded bytes are after the last launch.
  std::uint64_t values_at(std::uint32_t chunks, std::uint32_t which) const noexcept;
  std::uint64_t encoded_at(std::uint32_t chunks, std::uint32_t which) const noexcept;

  /// Writes sizes and tables, and appends the launches, to be run in their order on one stream.
  ///
  /// After them, the size of a chunk is kDoesNotFit if its encoded bytes need more than `room()`.
  /// \param tables  `table_bytes(chunks)` on the host: the first bytes of the block.
  /// \param block   Address of `bytes(chunks)` on the device, a multiple of 256.
  void emit(std::uint32_t chunks, std::span<std::byte> tables, std::uint64_t block,
            std::vector<kernel_launch>& launches) const;

 private:
  encode_plan() = default;
  std::uint64_t half_at(std::uint32_t chunks, std::size_t half) const noexcept;

  std::vector<device_step> steps_;
  std::uint64_t chunk_bytes_ = 0, room_ = 0, stride_ = 0, workspace_bytes_ = 0;
  std::uint32_t part_blocks_ = 1;
  std::size_t moves_ = 0;  ///< steps from one half to the other: all except the checksum
};

}  // namespace penstock::inline v0::device
