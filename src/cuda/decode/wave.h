#pragma once

// Chunks of one codec chain on their way through the device decoders: headers are read on the host as chunks are added,
// and the whole wave becomes one block of descriptors and a few kernel launches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>

#include "cuda/decode/blosc_scan.h"
#include "cuda/decode/launch.h"
#include "cuda/decode/nvcomp.h"
#include "cuda/decode/zstd_scan.h"

namespace penstock::inline v0::device {

enum class step_kind : std::uint8_t {
  zstd,
  lz4,        ///< as numcodecs frames it: four bytes of size, one block
  lz4_block,  ///< the block alone
  lz4_frame,  ///< one or several; dictionaries are the host's
  snappy,
  blosc,             ///< any compressor and shuffle
  bitshuffle_plain,  ///< HDF5's filter: `settings` elements a block (0: the filter's own choice) of `item_bytes`
  bitshuffle_lz4,    ///< the same, compressed block by block
  bitshuffle_zstd,
  zlib,
  gzip,
  deflate,
  zlib_or_more,  ///< zlib as TIFF has it: what the chunk has no room for is left out
  lzw,           ///< as TIFF has it, of both kinds
  packbits,      ///< as TIFF has it
  crc32c,        ///< four bytes behind the others; only as the first step. Verified if checksums are
  byte_swap,
  shuffle,
  bitshuffle,
  reverse_bits,  ///< of each byte
  unpack_bits,   ///< `settings` are kHighestBitFirst and its neighbours
  delta,         ///< `settings` are a delta_layout
  rows,          ///< of TIFF: `rows`
};

/// One step of a chain, as decoding takes it: the first step reads the encoded bytes.
struct device_step {
  step_kind kind;
  std::uint32_t item_bytes = 1;  ///< byte_swap, shuffle, bitshuffle: 1 to 65535
  std::uint32_t settings = 0;
  row_layout rows = {};

  friend bool operator==(const device_step&, const device_step&) = default;
};

inline constexpr std::uint64_t kMostLibraryBytes = std::uint64_t{4} << 30;

/// A chunk to decode.
struct wave_chunk {
  std::span<const std::byte> bytes;  ///< encoded, on the host; only read while the chunk is added
  std::uint64_t device_bytes = 0;    ///< address of the same bytes on the device
  std::uint64_t target = 0;          ///< address of `decoded_bytes` contiguous bytes on the device
  std::uint64_t decoded_bytes = 0;
};

/// Collects chunks of one chain and says how the device decodes them. Not thread-safe; `clear` keeps the memory.
class decode_wave {
 public:
  /// \param library  Decodes what it takes in place of our own decoders; borrowed. Null: none.
  /// \param most_library_bytes  Of its workspace: where it asks for more it gets fewer streams a call, or none.
  /// \error unsupported  The device cannot run these steps in this order.
  static result<decode_wave> make(std::span<const device_step> steps, bool verify_checksums = true,
                                  const nvcomp* library = nullptr,
                                  std::uint64_t most_library_bytes = kMostLibraryBytes);

  /// Adds a chunk; its status word is number `chunks()` before the call. After an error the wave is as before.
  ///
  /// \error corrupt_data  The bytes contradict their format: the chunk's error.
  /// \error unsupported   Well-formed as far as is known, but the host must decode this chunk.
  result<> add(const wave_chunk& chunk);

  std::size_t chunks() const noexcept { return chunks_; }
  /// What `emit` takes for the chunks added so far, at most; both blocks start at multiples of 256. The time does not
  /// depend on the number of chunks.
  std::uint64_t descriptor_bytes() const noexcept;
  std::uint64_t workspace_bytes() const noexcept;

  /// How many of everything there were: what `rewind` goes back to.
  struct mark {
    std::size_t chunks = 0, frames = 0, blocks = 0;
    std::size_t parts[9] = {}, streams[kNvcompCodecs] = {};
    std::uint64_t intermediate_bytes = 0, literal_bytes = 0, sequences = 0;
  };
  mark here() const noexcept;
  /// Forgets the chunks that were added since `to`.
  void rewind(const mark& to);

  /// Writes the descriptors for these addresses and appends the launches, to be run in their order on one stream.
  ///
  /// \param descriptors  `descriptor_bytes()` on the host; their copy on the device will be at `device_descriptors`.
  /// \param workspace    Address of `workspace_bytes()`, of any content.
  /// \param statuses     Address of `chunks()` 32-bit words that are 0 when the first kernel starts: `chunk_status`es.
  void emit(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace,
            std::uint64_t statuses, std::vector<kernel_launch>& launches) const;

  void clear();

 private:
  /// A part whose addresses may count from the workspace's start.
  struct planned_part {
    decode_part part;
    bool source_in_workspace;
    bool target_in_workspace;
  };
  // A stream that nvCOMP decodes: the part without `front` bytes before and `back` bytes behind it.
  struct library_stream {
    nvcomp_codec codec;
    std::uint32_t front, back;
    content_check check;
  };
  // All streams of one codec, beside the parts that they are of.
  struct library_batch {
    std::vector<planned_part> streams, parts;
    std::uint64_t most_bytes = 0;  // a decoded size that nvCOMP is known to take
    // The workspace that is set aside, and for how many streams and bytes it was asked for.
    std::uint64_t reserved = 0, reserved_total = 0;
    std::size_t reserved_count = 0;
    std::uint64_t total_bytes = 0;  // decoded; those of streams that were taken back too
    void resize(std::size_t count) {
      streams.resize(count);
      parts.resize(count);
    }
  };
  class layout;

  decode_wave() = default;
  result<> add_behind_check(const wave_chunk& chunk);
  result<> add_decoder(const wave_chunk& chunk, std::uint64_t target, bool in_workspace);
  result<> add_framed(const wave_chunk& chunk, const blosc_frame& frame, std::uint64_t target, bool in_workspace);
  result<> add_split(const wave_chunk& chunk, const planned_part& planned, step_kind kind);
  bool add_to_library(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind);
  void reserve(nvcomp_codec codec, library_batch& batch) const;
  bool library_takes(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind,
                     library_stream& out);
  result<> find_sizes(std::uint64_t decoded_bytes);
  void add_transforms(const wave_chunk& chunk, std::uint64_t first_source, bool in_workspace);
  void emit_zstd(layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const;
  void emit_parts(layout& to, std::uint64_t statuses, kernel_id kernel, const std::vector<planned_part>& parts,
                  std::vector<kernel_launch>& launches) const;
  void emit_transform(layout& to, std::uint64_t statuses, const std::vector<planned_part>& parts,
                      std::vector<kernel_launch>& launches) const;
  void emit_rows(layout& to, std::uint64_t statuses, const row_layout& rows, const std::vector<planned_part>& parts,
                 std::vector<kernel_launch>& launches) const;
  void emit_library(layout& to, std::uint64_t statuses, nvcomp_codec codec, const library_batch& batch,
                    std::vector<kernel_launch>& launches) const;
  void emit_all(layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const;
  planned_part part_of(const wave_chunk& chunk, std::uint64_t target, bool in_workspace) const;

  device_step decoder_{step_kind::byte_swap};  ///< the first step, if that is a decoder
  std::vector<device_step> transforms_;        ///< those behind the decoder
  bool decodes_ = false;
  bool checks_ = false;  ///< whether CRC-32C comes first
  bool verify_ = true;
  std::uint64_t most_library_bytes_ = kMostLibraryBytes;
  std::size_t chunks_ = 0;
  std::uint64_t intermediate_bytes_ = 0;
  zstd_index zstd_;
  const nvcomp* nvcomp_ = nullptr;
  library_batch library_batches_[kNvcompCodecs];  ///< by codec
  std::vector<planned_part> align_parts_;         ///< copies of streams that lie where nvCOMP does not take them
  zstd_index scanned_;                            ///< scratch: what the host reads of a stream for nvCOMP
  // By kernel, in the order in which they run.
  std::vector<planned_part> zstd_parts_, lz_parts_, lz4_frame_parts_, lzw_parts_, inflate_parts_, copy_parts_,
      unshuffle_parts_, check_parts_;
  static constexpr std::vector<planned_part> decode_wave::* kParts[] = {
      &decode_wave::zstd_parts_,      &decode_wave::lz_parts_,      &decode_wave::lz4_frame_parts_,
      &decode_wave::lzw_parts_,       &decode_wave::inflate_parts_, &decode_wave::copy_parts_,
      &decode_wave::unshuffle_parts_, &decode_wave::check_parts_,   &decode_wave::align_parts_};
  std::vector<std::vector<planned_part>> transform_parts_;  ///< by transform; one part a chunk
  std::vector<std::uint64_t> sizes_;                        ///< scratch: bytes in front of each transform
};

/// The sentence for a status word that is not ok; `codec` is the chain's name for the user.
error status_error(std::uint32_t status, std::string_view codec);

}  // namespace penstock::inline v0::device
