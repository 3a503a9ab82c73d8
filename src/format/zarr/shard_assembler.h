#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstdint>
#include <span>

namespace penstock::inline v0 {

class zarr_layout;

/// Writes Zarr objects: a chunk unchanged, or a shard, nested to any depth.
///
/// A shard keeps its order: kept chunks stay in the order of their bytes, a replaced chunk is at the position of the
/// old one, new chunks follow in the order of their entries. Untouched inner shards are kept as one piece, including
/// their index, because entries count from the start of their shard. Chunks whose bytes overlap also share them in the
/// new shard, so a new shard never has more kept bytes than the old one.
class shard_assembler final : public object_assembler {
 public:
  /// \param layout  Owns this.
  explicit shard_assembler(const zarr_layout& layout) noexcept : layout_(layout) {}

  result<> assemble(object_id object, const part* old, std::span<const new_cell> cells,
                    assembled_object& out) const override;

 private:
  struct change;
  result<std::uint64_t> assemble_shard(object_id object, std::size_t level, const part* old, std::span<change> changes,
                                       std::span<const new_cell> cells, assembled_object& out) const;

  const zarr_layout& layout_;
};

}  // namespace penstock::inline v0
