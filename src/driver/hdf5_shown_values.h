#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include <penstock/extend/json.h>
#include <penstock/shape.h>
#include "driver/compose_references.h"
#include "driver/hdf5_variable_cells.h"

namespace penstock::inline v0 {

/// The text or the lists of variable length that a virtual dataset shows. A cell is assembled, when it is read, from
/// the cells of the sources that it shows. Immutable, thread-safe.
///
/// Cells are as long as the longest part that a cell of a source shows along each dimension, and have 256 to 2^20
/// elements if the dataset has that many. So most cells of a source are in few cells of the dataset.
class hdf5_shown_values final : public hdf5_variable_cells {
 public:
  /// \param parts  Their sources have `cells`. Where parts overlap, the last one counts.
  /// \param fill   Of elements without a source. \param item  Of lists: the type of their items, as in a .zarray.
  /// \param uri    Of the file.
  /// \error unsupported  A source of another type, by name.
  static result<std::shared_ptr<const hdf5_shown_values>> make(const extents& shape, std::vector<shown_part> parts,
                                                               std::string fill, const json& item,
                                                               std::shared_ptr<context> with, std::string uri);

  const chunk_grid& grid() const override { return grid_; }
  const extents& cell_shape() const noexcept { return cell_shape_; }
  result<std::vector<std::uint64_t>> cells() const override { return all_hdf5_cells(grid_.cells()); }
  bool has(std::uint64_t cell) const override { return cell < grid_.cells(); }
  std::vector<result<cell_bytes>> read(std::span<const hdf5_cell_request> cells) const override;
  store_traits traits() const override;
  std::string uri() const override { return uri_; }

 private:
  class operation;
  struct position;
  struct shown_box;
  struct read_cells;
  /// A part: its place in the dataset, and the mapping from positions of its source to cells.
  struct known_part {
    const hdf5_variable_cells* from = nullptr;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> bounds;  // first position, and end, for each dimension
    std::vector<std::uint64_t> cell_steps, item_steps;            // of the source: steps in cells and in items
    std::uint64_t cell = 0, item = 0;                             // offsets from dimensions that are not the dataset's
  };

  hdf5_shown_values() = default;
  void choose_cells(const extents& shape);
  void sort_parts();
  std::vector<std::size_t> parts_in(std::span<const std::pair<std::uint64_t, std::uint64_t>> box) const;

  std::vector<shown_part> parts_;
  std::vector<known_part> known_;
  std::string fill_, uri_;
  std::shared_ptr<context> with_;
  std::shared_ptr<const store> store_;  // the store of a source that is read asynchronously; null: all are synchronous
  chunk_grid grid_;
  extents cell_shape_;
  std::size_t sorted_axis_ = 0;
  std::vector<std::size_t> sorted_;    // parts in the order of their beginnings along that dimension
  std::vector<std::uint64_t> behind_;  // the greatest end of the parts up to this one
};

}  // namespace penstock::inline v0
