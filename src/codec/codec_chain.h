#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/codec.h>
#include <penstock/dtype.h>
#include <penstock/tensor.h>
#include "array/chunk_grid.h"
#include "base/json.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// A codec as metadata writes it.
struct codec_config {
  std::string name;
  json configuration;  ///< null or an object
};

/// Where the wanted part of a decoded cell goes: element i of `in_cell` to data + sum(i[d] * strides[d]).
struct decode_target {
  std::byte* data = nullptr;
  penstock::strides strides;  ///< bytes, one for each dimension of the cell
  const strided_box* in_cell = nullptr;
  bool covers_cell = false;  ///< in_cell is the whole cell
};

/// A chain of codecs compiled for one element type and one cell shape: array-to-array stages, one array-to-bytes stage,
/// bytes-to-bytes stages. Immutable and shared; scratch belongs to the worker.
///
/// The array stages cost nothing by themselves: transposes become strides and byte order a flag of the one strided copy
/// that ends a decode. Where the cell is contiguous in the target, in native order, the last byte stage decodes
/// straight into it.
class codec_chain {
 public:
  /// \param cell  The shape that the codecs see: full cells, also at the array's edge.
  /// \error unsupported  A codec by name, or a combination, or a variable-length type.
  /// \error corrupt_data  A configuration that contradicts the codec's specification (message names the codec).
  static result<codec_chain> compile(std::span<const codec_config> codecs, dtype type, const extents& cell);

  dtype type() const noexcept { return type_; }
  const extents& cell() const noexcept { return cell_; }
  /// Bytes of one decoded cell.
  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }
  /// A bound on an encoded cell that is worth reading: what `encode` may produce at worst, with room for other
  /// writers' choices. Longer objects are refused before memory is taken for them.
  std::uint64_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }
  /// Every cell encodes to the same number of bytes (no compressor): shard indexes need it.
  bool fixed_size() const noexcept { return fixed_size_; }
  /// The encoded bytes are the cell in C order and native byte order: it may be read straight into the target.
  bool is_identity() const noexcept { return identity_; }

  /// Decoded bytes are the cell in C order and native byte order, so that the last stage may decode into the target.
  bool stores_native_order() const noexcept {
    return swap_bytes_ <= 1 && stored_strides_ == c_order_strides(cell_, type_.item_bytes());
  }

  /// Decodes `encoded` and writes the wanted part to `target`.
  ///
  /// \error corrupt_data  A stage refused the bytes, or they decoded to another size than the cell's shape needs
  ///                      (`chunk decoded to 4080 bytes, its shape needs 4096`); the note names the codec.
  result<> decode(std::span<const std::byte> encoded, const decode_target& target, worker_scratch& scratch) const;

  /// Encodes a cell; `cell` has the chain's shape and any strides. Returns the encoded length.
  result<std::uint64_t> encode(const tensor_view& cell, std::span<std::byte> out, worker_scratch& scratch) const;

  /// `bytes(little) | zstd(level=0) | crc32c`
  std::string describe() const;

 private:
  dtype type_;
  extents cell_;
  std::uint64_t decoded_bytes_ = 0;
  std::uint64_t max_encoded_bytes_ = 0;
  bool fixed_size_ = true;
  bool identity_ = false;
  std::uint32_t swap_bytes_ = 1;  // > 1: stored in the other byte order
  strides stored_strides_;        // bytes between neighbours of each array dimension in the stored order
  std::string array_stages_;      // for describe()
  std::vector<std::shared_ptr<const byte_codec>> stages_;  // in encoding order
  std::vector<std::uint64_t> stage_limits_;                // most bytes that stage i may decode to
};

/// Makes a bytes-to-bytes codec from its metadata.
/// \error unsupported  No codec of that name.
result<std::shared_ptr<const byte_codec>> make_byte_codec(const codec_config& config, std::uint32_t item_bytes);

/// Names of all codecs that this build reads, sorted; tables in the documents come from here.
std::vector<std::string> codec_names();

}  // namespace penstock::inline v0
