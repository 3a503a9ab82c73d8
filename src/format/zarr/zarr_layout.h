#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "format/zarr/object_shapes.h"
#include "format/zarr/shard_assembler.h"
#include "format/zarr/shard_index.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// The locations of the chunks of a Zarr array: each in an object of its own, or within shards, nested to any depth.
///
/// Cells are the innermost chunks; objects are the chunks of the outermost grid, numbered in C order. An inner shard is
/// a node of its object's index: node 0 is the object's own index, followed by all shards of the second level, in
/// order, then those of the third, and so on.
class zarr_layout final : public chunk_layout {
 public:
  /// One level of sharding. Dimensions are the array's: transposes before a shard are folded into the strides.
  struct level {
    shard_index_codec index;
    extents chunk;                          ///< shape of its entries in elements
    dim_vector<std::uint64_t> shard_cells;  ///< cells along each dimension of one shard of this level
    dim_vector<std::uint64_t> entry_cells;  ///< ... and of one of its entries
    dim_vector<std::uint64_t> strides;      ///< distance of neighbours among the entries
    std::uint64_t first_node = 0;           ///< node number of the first shard of this level
    std::uint64_t max_shard_bytes = 0;
  };

  /// \param metadata  Of an array. A shard with other codecs than transpose before it, or than crc32c after it, is one
  /// cell (shard_codec.h).
  /// \error unsupported  A codec by name; an index codec without a fixed size.
  /// \error corrupt_data  A codec's configuration; an inner chunk shape that does not divide its shard's.
  static result<std::shared_ptr<const zarr_layout>> make(const zarr_metadata& metadata,
                                                         const codec_chain_options& options = {});

  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return write_grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }

  /// Also refuses a chunk whose length in an index exceeds the maximum of its codecs
  /// (`codec_chain::max_encoded_bytes`).
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  /// `chunk (3, 0, 7)`, in the grid of innermost chunks.
  std::string describe(cell_id cell) const override;
  const object_assembler* assembler() const override { return &assembler_; }

  /// The level at that depth (0: the outermost), as it applies to this object: shards of a rectilinear grid have
  /// several shapes.
  const level& level_of(std::size_t depth, object_id object) const;
  /// The entry of its shard at that depth that leads to `cell` (coordinates in the grid of cells) of this object.
  std::uint64_t entry_of(std::size_t depth, object_id object, const dim_vector<std::uint64_t>& cell) const;

  /// Shape of the innermost chunks.
  const extents& chunks() const noexcept { return cell_; }
  /// Shape of the outermost shards, of the longest along each dimension; nothing if the array is not sharded.
  const std::optional<extents>& shards() const noexcept { return shards_; }
  /// Levels of sharding: 0 if each chunk is its own object.
  std::size_t depth() const noexcept { return levels_.size(); }
  /// `sharding_indexed((64, 64), index: bytes(little) | crc32c at end) > bytes(little) | zstd(level=0)`
  std::string describe_codecs() const;

 private:
  class locator;
  /// More than a document can nest (the JSON parser stops at 128 levels, a shard takes three).
  static constexpr std::size_t kMaxDepth = 64;

  zarr_layout() : assembler_(*this) {}
  result<> compile(const zarr_metadata& metadata, const codec_chain_options& given);
  result<> measure_levels(const extents& largest);
  std::uint16_t chain_of(cell_id cell) const;
  index_request request_for(const index_key& key, const level& at, std::uint64_t begin,
                            std::uint64_t end) const noexcept;

  chunk_grid grid_, write_grid_;
  object_shapes shapes_;
  std::vector<codec_chain> chains_;  // one, or without shards one for each of `shapes_`
  extents cell_;
  std::optional<extents> shards_;
  std::vector<level> levels_;  // outermost first, that of the largest shape
  std::vector<level> outer_;   // the outermost for each of `shapes_`, if there are several
  zarr_key_encoding keys_;
  shard_assembler assembler_;
};

}  // namespace penstock::inline v0
