#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/result.h>
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// A chunk of Blosc 2: 32 bytes of header, the offsets of its blocks, then each block as one or more streams. Or one
/// value that all elements have. Source: c-blosc2 README_CHUNK_FORMAT.rst.
///
/// Chunks with blocks of different lengths, and with codecs or filters of plugins are refused.
class blosc2_chunk {
 public:
  /// \param from  Begins with the chunk and may be longer; must outlive the result.
  /// \error corrupt_data, unsupported
  static result<blosc2_chunk> parse(std::span<const std::byte> from);

  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }

  /// \param out  Exactly `decoded_bytes()` bytes.
  /// \error corrupt_data, unsupported, resource_exhausted
  result<> decode(std::span<std::byte> out, worker_scratch& scratch) const;

 private:
  enum class content : std::uint8_t { blocks, copy, zeros, nans, repeated_value };
  enum class filter : std::uint8_t { none, bytes, bits, delta, rounded };

  static result<filter> filter_of(std::uint8_t number);

  result<> decode_block(std::uint64_t block, std::span<std::byte> out, worker_scratch& scratch) const;
  result<> decode_streams(std::span<const std::byte> from, std::span<std::byte> to, bool split,
                          worker_scratch& scratch) const;
  result<> decompress(std::span<const std::byte> from, std::span<std::byte> to, worker_scratch& scratch) const;
  void undo(std::size_t which, std::span<const std::byte> from, std::span<std::byte> to) const;
  void undo_differences(std::span<std::byte> chunk, std::uint64_t first, std::size_t bytes) const;

  std::span<const std::byte> encoded_, dictionary_;
  std::uint64_t decoded_bytes_ = 0, block_bytes_ = 0;
  std::size_t item_bytes_ = 1;
  content content_ = content::blocks;
  bool splits_ = false;
  std::uint8_t compressor_ = 0;
  std::array<filter, 6> filters_{};
  std::array<std::uint8_t, 6> filter_settings_{};
};

}  // namespace penstock::inline v0
