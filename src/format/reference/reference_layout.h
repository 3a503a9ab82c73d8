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
#include "format/reference/reference_table.h"

namespace penstock::inline v0 {

/// An array whose cells are located by a table: in ranges of objects of other formats (HDF5 chunks, references of
/// kerchunk or of a manifest), each with any codec chain.
///
/// Cells, shapes and the usual chains are those of another layout, whose cells are whole objects (a Zarr array without
/// shards); only the location of the bytes is in the table. Cells that the table does not list are the fill value.
class reference_layout final : public chunk_layout {
 public:
  struct settings {
    /// Chain k + 1 of the table. 0 is `cells`' own chain.
    std::vector<codec_chain> more_chains;
    /// Keys of the objects, with the table's numbers; never more than there are cells.
    std::vector<std::string> objects;
    /// An absent object reads as the fill value; otherwise that is an error.
    bool missing_is_fill = false;
    /// Replaces the grid of `cells`, which then has one chain: in joined arrays, cells end at the ends of the arrays.
    std::optional<chunk_grid> grid;
  };

  /// \error corrupt_data  The table has another number of cells, names an object or a chain that does not exist, has a
  /// range longer than a cell's codecs can write, or codecs with another shape.
  /// \error unsupported   `cells` is sharded, or has several chains and another grid; a long run of references
  ///                      to cells of different shapes.
  static result<std::shared_ptr<const reference_layout>> make(std::shared_ptr<const chunk_layout> cells,
                                                              std::shared_ptr<const reference_table> table,
                                                              settings with);

  const chunk_grid& grid() const override { return grid_ ? *grid_ : cells_->grid(); }
  /// The cells: several may share one object, so `blocks` counts cells.
  const chunk_grid& write_grid() const override { return grid(); }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override;

  const reference_table& table() const noexcept { return *table_; }
  std::span<const std::string> objects() const noexcept { return objects_; }

 private:
  reference_layout() = default;
  result<> check() const;
  result<> check(cell_id cell, const cell_reference& each, const std::vector<bool>& fits) const;
  std::vector<bool> fitting_chains() const;
  result<std::uint16_t> own_chain(cell_id cell) const;
  result<> check_shape(cell_id cell, const codec_chain& chain) const;

  std::shared_ptr<const chunk_layout> cells_;
  std::shared_ptr<const reference_table> table_;
  std::optional<chunk_grid> grid_;
  std::vector<codec_chain> chains_;  // chains of cells_, then the others
  std::size_t own_chains_ = 0;       // how many of them are those of cells_
  std::vector<std::string> objects_;
  bool missing_is_fill_ = false;
};

}  // namespace penstock::inline v0
