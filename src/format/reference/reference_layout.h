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

/// An array whose cells lie where a table says: in ranges of objects that other formats wrote (HDF5 chunks, what a
/// kerchunk file or a manifest of ours names), each with a codec chain of its own choice.
///
/// Cells, shapes and the usual chains are those of another layout, whose cells are whole objects (a Zarr array without
/// shards); only where the bytes are comes from the table. Cells that the table does not list are the fill value.
class reference_layout final : public chunk_layout {
 public:
  struct settings {
    /// Chain k + 1 of the table. 0 is `cells`' own chain.
    std::vector<codec_chain> more_chains;
    /// Keys of the objects, as the table numbers them; never more than there are cells.
    std::vector<std::string> objects;
    /// An object that is not there reads as the fill value; otherwise that is an error.
    bool missing_is_fill = false;
    /// In place of the grid of `cells`, which then has one chain: arrays joined to one have cells that end where they
    /// do.
    std::optional<chunk_grid> grid;
  };

  /// \error corrupt_data  The table is one of another number of cells, names an object or a chain that there is not,
  /// gives
  ///                      a cell more bytes than its codecs can make, or codecs that make another shape.
  /// \error unsupported   `cells` is sharded, or has several chains beside a grid of its own; a long run of references
  ///                      to cells of different shapes.
  static result<std::shared_ptr<const reference_layout>> make(std::shared_ptr<const chunk_layout> cells,
                                                              std::shared_ptr<const reference_table> table,
                                                              settings with);

  const chunk_grid& grid() const override { return grid_ ? *grid_ : cells_->grid(); }
  /// The cells: several may share one object, so what is counted here is what can be asked for by `blocks`.
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
  std::vector<codec_chain> chains_;  // those of cells_, then the others
  std::size_t own_chains_ = 0;       // how many are of cells_
  std::vector<std::string> objects_;
  bool missing_is_fill_ = false;
};

}  // namespace penstock::inline v0
