#pragma once

#include <penstock/dtype.h>
#include <penstock/extend/layout.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "array/chunk_grid.h"
#include "array/contiguous_blocks.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// One file's share of an array: `length` elements along the dimension that the files share.
struct raw_part {
  std::string key;
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  ///< of its first item, in bytes
  version expected;          ///< of the file when its length was read; unknown: any
  bool missing = false;      ///< the file does not exist, its items are the fill value
};

/// The common properties of the parts.
struct raw_shape {
  dtype type;
  json endian;  ///< of the codec `bytes`: null, "little", "big", or a list with one for each leaf of a structure
  storage_order order = storage_order::c;
  extents shape;         ///< of the whole array; that of `axis` is the sum of the parts' lengths
  std::size_t axis = 0;  ///< the dimension along which the parts follow each other
};

/// Uncompressed items, contiguous in one file or in many: `.npy` and raw files.
///
/// The format has no chunks. Cells are contiguous blocks of about a MiB (array/contiguous_blocks.h); each block is in
/// one file. The cells of `finer` are created at first use. Objects are the files with elements, in their order.
class raw_layout final : public chunk_layout {
 public:
  /// \param parts  Empty ones are not objects; their keys are not used.
  /// \error invalid_argument  Lengths whose sum is not the shape's. \error unsupported  A shape or a number of blocks
  /// beyond 64 bits.
  static result<std::shared_ptr<const raw_layout>> make(const raw_shape& what, std::vector<raw_part> parts,
                                                        std::uint64_t block_bytes = 0);

  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return write_grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  const chunk_layout* finer() const override;
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override;
  version expected(object_id object) const override { return parts_[object].expected; }

  /// Shape of the largest blocks.
  const extents& block() const noexcept { return block_; }
  std::span<const raw_part> parts() const noexcept { return parts_; }

 private:
  raw_layout() = default;
  result<> cut(std::uint64_t block_bytes);
  result<> compile(const json& endian);

  dtype type_;
  json endian_;
  storage_order order_ = storage_order::c;
  extents shape_, block_;
  std::size_t axis_ = 0;
  std::vector<raw_part> parts_;
  std::vector<std::uint64_t> origins_;               // the begin of each part along the axis
  std::vector<std::uint32_t> part_of_;               // for each cell along the axis: its part
  std::vector<strides> part_strides_;                // one chain for all parts, or one for each length
  std::vector<std::vector<std::uint32_t>> classes_;  // by dimension and cell: the number of the length
  std::vector<std::uint32_t> class_strides_;
  chunk_grid grid_, write_grid_;
  std::vector<codec_chain> chains_;
  mutable std::once_flag asked_for_finer_;
  mutable std::shared_ptr<const raw_layout> finer_;
};

}  // namespace penstock::inline v0
