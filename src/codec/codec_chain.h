#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/extend/codec.h>
#include <penstock/extend/json.h>
#include <penstock/tensor.h>
#include "array/chunk_grid.h"
#include "array/indexed_copy.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

class row_codec;  // row_codec.h

/// How a list of codecs is interpreted.
struct codec_chain_options {
  const codec_provider* external = nullptr;  ///< called for codecs that the registry does not have; null: none
  /// Zarr v2: filters and a compressor follow `bytes` (or an object codec) in any order. They process items in the
  /// stored byte order, and arrays are not distinguished from bytes.
  bool stored_order_filters = false;
  /// Bytes after a zlib stream are ignored, as the HDF5 library and numcodecs do. Otherwise they are an error.
  bool padded_streams = false;
};

/// The destination of the selected part of a decoded cell: element i of `in_cell` to data + sum(i[d] * strides[d]).
struct decode_target {
  std::byte* data = nullptr;
  penstock::strides strides;  ///< bytes, one for each dimension of the cell
  const strided_box* in_cell = nullptr;
  bool covers_cell = false;  ///< in_cell is the whole cell
  /// Not null: the selected elements are not a box but these, and `strides` are those of the region.
  const indexed_region* indexed = nullptr;
  /// Not null: the conversion of the elements; `strides` are those of the converted ones.
  const element_conversion* convert = nullptr;
  /// Of `convert->along`: the first selected element's.
  std::size_t first_along = 0;
};

/// A chain of codecs compiled for one element type and one cell shape. Immutable and shared; scratch belongs to the
/// worker.
///
/// Transposes and `bytes` at its head cost nothing on their own: they become strides and a flag of the one strided copy
/// that ends a decode. All other codecs are stages, from buffer to buffer. If the cell is contiguous in the target, in
/// native order, the last stage decodes directly into it.
class codec_chain {
 public:
  /// \param cell  The shape that the codecs see: full cells, also at the array's edge.
  /// \error unsupported  A codec by name, or a combination.
  /// \error corrupt_data  A configuration that contradicts the codec's specification (message names the codec).
  static result<codec_chain> compile(std::span<const codec_config> codecs, const dtype& type, const extents& cell,
                                     const codec_chain_options& options = {});

  const dtype& type() const noexcept { return type_; }
  const extents& cell() const noexcept { return cell_; }
  /// Bytes of one decoded cell.
  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }
  /// A bound on an encoded cell: the worst output of `encode`, with room for other writers. Longer objects are refused
  /// before memory is allocated for them. kUnbounded if the codecs' output depends only on the content; the ledger is
  /// the limit then.
  std::uint64_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }
  /// Whether every cell encodes to the same number of bytes (no compressor): shard indexes need it.
  bool fixed_size() const noexcept { return fixed_size_; }
  /// Whether one of the codecs is written in Python: a thread that waits for a read must not hold Python's lock.
  bool via_python() const noexcept { return via_python_; }
  /// Whether the encoded bytes are the cell in C order and native byte order: it may be read directly into the target.
  bool is_identity() const noexcept { return identity_; }

  /// Whether no stage is between the stored bytes and the items, apart from their order: any part of a cell can then be
  /// read alone.
  bool is_plain() const noexcept { return stages_.empty() && !variable_; }
  /// Whether the items are stored in the byte order that this machine does not have.
  bool swaps() const noexcept { return swap_bytes_ > 1; }

  /// Whether decoded bytes are the cell in C order and native byte order, so that the last stage may decode into the
  /// target.
  bool stores_native_order() const noexcept {
    return swap_bytes_ <= 1 && stored_strides_ == c_order_strides(cell_, type_.item_bytes());
  }

  /// Decodes `encoded` and writes the selected part to `target`.
  ///
  /// \error corrupt_data  A stage refused the bytes, or they decoded to another size than the cell's shape needs
  ///                      (`chunk decoded to 4080 bytes, its shape needs 4096`); the note names the codec.
  result<> decode(std::span<const std::byte> encoded, const decode_target& target, worker_scratch& scratch) const;

  /// As `decode`, for a plain chain: `stored` holds the bytes of the cell from `skipped` on, which include all selected
  /// elements.
  void decode_part(std::span<const std::byte> stored, std::uint64_t skipped,
                   const decode_target& target) const noexcept;

  /// Copies the selected part of a cell that was decoded as a whole: `cell_items` are in C order and native byte order.
  void scatter(const std::byte* cell_items, const decode_target& target) const noexcept;

  /// How many codecs are stages, and each of them, in encoding order: for engines that run some of them elsewhere.
  std::size_t stages() const noexcept { return stages_.size(); }
  const byte_codec& stage_codec(std::size_t i) const noexcept { return *stages_[i].codec; }
  const codec_config& stage_config(std::size_t i) const noexcept { return stages_[i].config; }
  /// The most bytes that stage i may decode to; kUnbounded if it is not known.
  std::uint64_t stage_limit(std::size_t i) const noexcept { return stages_[i].limit; }
  /// Bytes between neighbours of each array dimension in the stored form of a decoded cell.
  const strides& stored_strides() const noexcept { return stored_strides_; }
  /// If greater than 1: units of this many bytes are reversed between the stored and the native order.
  std::uint32_t swap_bytes() const noexcept { return swap_bytes_; }

  /// Decodes the output of the first `made` stages to the output of the first `keep` stages. The last one to decode
  /// writes into `out` if that is large enough; the result is in `out`, in `encoded` or in `scratch`.
  result<std::span<const std::byte>> decode_stages(std::span<const std::byte> encoded, std::size_t made,
                                                   std::size_t keep, std::span<std::byte> out,
                                                   worker_scratch& scratch) const;
  /// Refuses a decoded cell whose size differs from its shape's.
  result<> check_decoded(std::uint64_t bytes) const;

  /// Encodes a cell; `cell` has the chain's shape and any strides. Returns the encoded length.
  /// \error invalid_argument  `out` is smaller than a cell may need.
  result<std::uint64_t> encode(const tensor_view& cell, std::span<std::byte> out, worker_scratch& scratch) const;

  /// The same into `out`, which grows as needed: for chains of any kind. Returns the encoded bytes, which are in `out`.
  result<std::span<const std::byte>> encode(const tensor_view& cell, buffer& out, worker_scratch& scratch) const;

  /// `bytes(little) | zstd(level=0) | crc32c`
  const std::string& describe() const noexcept { return description_; }

 private:
  struct stage {
    std::shared_ptr<const byte_codec> codec;
    codec_config config;
    std::uint64_t limit = 0;  // most bytes that it may decode to
    bool in_place = false;
  };

  result<> add(const codec_config& config, const codec_chain_options& options, stage_type& at);
  result<> decode_rows(std::span<const std::byte> encoded, const decode_target& target, worker_scratch& scratch) const;
  result<> check_cell(const tensor_view& cell) const;
  bool must_gather(const tensor_view& cell) const noexcept;
  void gather(const tensor_view& cell, std::byte* to) const noexcept;
  void copy_part(const std::byte* items, std::uint64_t skipped, const strides& of_cell, std::uint32_t swap_bytes,
                 const decode_target& target) const noexcept;
  void copy_box(const decode_target& target, std::byte* to, const std::byte* from, const strides& steps,
                const extents& counts, std::uint32_t swap_bytes) const noexcept;
  void copy_indexed(const decode_target& target, const std::byte* cell, const strides& of_cell,
                    std::uint32_t swap_bytes) const noexcept;

  dtype type_;
  extents cell_;
  std::uint64_t decoded_bytes_ = 0;
  std::uint64_t max_encoded_bytes_ = 0;
  bool fixed_size_ = true;
  bool identity_ = false;
  bool via_python_ = false;
  bool variable_ = false;
  std::uint32_t swap_bytes_ = 1;     // > 1: items are stored in the other byte order
  strides stored_strides_;           // bytes between neighbours of each array dimension in the stored order
  const row_codec* rows_ = nullptr;  // the first stage, if it decodes rows separately
  std::size_t row_axis_ = 0;         // ... along this dimension
  std::string below_window_;         // if a codec takes a window, what is decoded before it
  std::string head_;                 // the codecs that are not stages, for errors
  std::string description_;
  std::vector<stage> stages_;  // in encoding order
};

/// Makes a codec from its metadata, for its future input.
/// \error unsupported  Neither the registry nor `options.external` has a codec with that name. \error corrupt_data  It
/// is at the wrong position in the list.
result<compiled_codec> make_codec(const codec_config& config, const stage_type& input,
                                  const codec_chain_options& options = {});

/// Makes a bytes-to-bytes codec from its metadata.
/// \error unsupported  No codec has that name.
result<std::shared_ptr<const byte_codec>> make_byte_codec(const codec_config& config, std::uint32_t item_bytes);

/// A filter or compressor of Zarr v2, `{"id": "zlib", "level": 1}`, as in the registry: `numcodecs.zlib` with the
/// configuration `{"level": 1}`.
/// \error corrupt_data  Not an object, or without an id.
result<codec_config> codec_of_v2(const json& value);

/// The valid positions of a codec of Zarr v3. Zarr v2 has no such order.
enum class codec_place : std::uint8_t {
  array,           ///< array to array
  array_to_bytes,  ///< ends the array codecs
  bytes,           ///< bytes to bytes
};

/// The place of a codec of the library by its name in Zarr v3, or by its id of numcodecs; nullopt for other names, and
/// for `bytes`, `transpose` and `sharding_indexed`, which chains and layouts run themselves.
std::optional<codec_place> place_of_codec(std::string_view name) noexcept;

/// Names of all codecs that this build reads, sorted; tables in the documents are generated from here.
std::vector<std::string> codec_names();

}  // namespace penstock::inline v0
