#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/codec_chain.h"
#include "format/zarr/zarr_codecs.h"

namespace penstock::inline v0 {

/// A parsed shard index: the location of each chunk of one shard, relative to the shard's first byte.
class shard_index final : public index_block {
 public:
  static constexpr std::uint64_t kAbsent = std::numeric_limits<std::uint64_t>::max();
  struct entry {
    std::uint64_t offset;
    std::uint64_t length;
    bool absent() const noexcept { return offset == kAbsent; }
  };

  /// `words` holds offset and length of each entry in turn; `shard_bytes` is kAll if it is not known.
  shard_index(std::vector<std::uint64_t> words, std::uint64_t shard_bytes) noexcept
      : words_(std::move(words)), shard_bytes_(shard_bytes) {}

  std::uint64_t memory_bytes() const noexcept override { return sizeof(*this) + words_.size() * sizeof(words_[0]); }
  std::uint64_t entries() const noexcept { return words_.size() / 2; }
  /// Length of the shard without the checksums at its end, or kAll.
  std::uint64_t shard_bytes() const noexcept { return shard_bytes_; }
  entry operator[](std::uint64_t i) const noexcept { return {words_[2 * i], words_[2 * i + 1]}; }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t shard_bytes_;
};

/// How the shards of one level of nesting store their index.
class shard_index_codec {
 public:
  /// The longest accepted index: 67 million chunks in one shard.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

  /// \param counts  Entries along each dimension, in the shard's order of dimensions.
  /// \param behind  Codecs after `sharding_indexed` that do not move its bytes: checksums.
  /// \error unsupported  An index codec whose output has no fixed size, another codec after the shard, or an index
  /// beyond kMaxBytes. \error corrupt_data  A codec's configuration.
  static result<shard_index_codec> make(const zarr_shard& shard, const std::vector<codec_config>& behind,
                                        const extents& counts);

  std::uint64_t entries() const noexcept { return entries_; }
  std::uint64_t index_bytes() const noexcept { return index_bytes_; }
  /// The least size of a shard: its index and its checksums.
  std::uint64_t least_shard_bytes() const noexcept { return index_bytes_ + checksum_bytes_; }
  bool at_start() const noexcept { return at_start_; }
  /// Whether a checksum over the whole shard is at its end. Then the whole shard is read once before any of it is used.
  bool reads_whole_shard() const noexcept { return !checksums_.empty(); }

  /// Decodes `bytes`: the index, or the whole shard if reads_whole_shard().
  ///
  /// \param shard_bytes  Length of the shard, or kAll if it is not known; entries that leave it are corrupt.
  /// \error corrupt_data  A wrong length, a checksum, half of an absent entry, or an entry that exceeds the shard.
  result<std::shared_ptr<const shard_index>> decode(std::span<const std::byte> bytes, std::uint64_t shard_bytes) const;

  /// Encodes an index into `out`, exactly index_bytes() long. `words` holds offset and length of each entry in turn.
  result<> encode(std::span<const std::uint64_t> words, std::span<std::byte> out) const;

  /// The bytes that the codecs after the shard add.
  std::uint64_t checksum_bytes() const noexcept { return checksum_bytes_; }
  /// Writes the checksums of a shard, whose bytes are given in parts, into `out`, exactly checksum_bytes() long.
  void checksum(std::span<const part> shard, std::span<std::byte> out) const;

  /// `bytes(little) | crc32c at end`
  std::string describe() const;

 private:
  codec_chain chain_;
  std::vector<std::shared_ptr<const byte_codec>> checksums_;  // in encoding order
  std::uint64_t entries_ = 1;
  std::uint64_t index_bytes_ = 0;
  std::uint64_t checksum_bytes_ = 0;
  bool at_start_ = false;
};

}  // namespace penstock::inline v0
