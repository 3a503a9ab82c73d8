#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::inline v0 {

/// Where the encoded bytes of one cell are.
struct cell_reference {
  std::uint64_t offset = 0;
  std::uint64_t length = byte_range::kAll;  ///< kAll: the whole object
  std::uint32_t object = 0;
  std::uint16_t chain = 0;
};

/// Which bytes of which object each cell of an array has: columns, sorted by cell. Immutable.
///
/// A cell that is not listed was never written. A million cells take some 20 MB and are found by their number: by
/// position where every cell is listed, else by bisection.
///
/// **The saved form** is little-endian: `PSREFS01`, the number of entries and of the array's cells (64 bits each), the
/// width in bytes of the columns cell, object, offset, length and chain (one byte each: 0, 1, 2, 4 or 8), three zero
/// bytes, then the columns one after the other. A column of width 0 is all zeros, that of cells counts up from 0. A
/// length of 0 is the whole object.
class reference_table {
 public:
  /// The columns of a table. `cells` ascend; empty: entry i is cell i. Others than `offsets` may be empty: all 0.
  struct columns {
    std::vector<std::uint64_t> cells, offsets, lengths;  ///< length 0: the whole object
    std::vector<std::uint32_t> objects;
    std::vector<std::uint16_t> chains;
  };

  /// Makes a table of an array of `cells` cells.
  /// \error corrupt_data  As `parse`; columns of different lengths.
  static result<std::shared_ptr<const reference_table>> make(std::uint64_t cells, columns of);

  /// Parses the saved form; memory is taken in proportion to `saved` alone.
  /// \error corrupt_data  It is no table, has another size than it says, names a cell twice or out of order, or a
  ///                      range that leaves 64 bits.
  static result<std::shared_ptr<const reference_table>> parse(std::span<const std::byte> saved);

  std::uint64_t entries() const noexcept { return offsets_.size(); }
  /// Cells of the array that this is a table of.
  std::uint64_t cells() const noexcept { return cell_count_; }
  cell_id cell(std::uint64_t entry) const noexcept { return cells_.empty() ? entry : cells_[entry]; }
  cell_reference operator[](std::uint64_t entry) const noexcept;

  /// The entry of `cell`, or entries() where it has none. `hint` is where to look first: the entry after the last
  /// found.
  std::uint64_t find(cell_id cell, std::uint64_t hint) const noexcept;

  /// The saved form, with columns as narrow as they can be.
  std::vector<std::byte> save() const;

 private:
  result<> finish();  // checks the columns

  std::uint64_t cell_count_ = 0;
  std::vector<std::uint64_t> cells_;    // empty: entry i is cell i
  std::vector<std::uint64_t> offsets_;  // sets the number of entries
  std::vector<std::uint64_t> lengths_;  // kAll: whole; empty: all whole
  std::vector<std::uint32_t> objects_;  // empty: all 0
  std::vector<std::uint16_t> chains_;   // empty: all 0
};

}  // namespace penstock::inline v0
