#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace penstock::inline v0 {

/// The location of one cell's encoded bytes.
struct cell_reference {
  std::uint64_t offset = 0;
  std::uint64_t length = byte_range::kAll;  ///< kAll: the whole object
  std::uint32_t object = 0;
  std::uint16_t chain = 0;
};

/// References of consecutive cells that follow one rule.
///
/// Entry i belongs to cell `cell + i`; with `in = i % inner` and `out = i / inner` its offset is `offset + in *
/// offset_step + out * offset_outer`, and its object likewise.
struct reference_run {
  std::uint64_t cell = 0;
  std::uint64_t count = 0;  ///< a multiple of `inner`
  std::uint64_t inner = 1;
  std::uint64_t offset = 0;
  std::int64_t offset_step = 0, offset_outer = 0;
  std::uint64_t length = 0;  ///< of each; 0: the whole object
  std::uint64_t object = 0;
  std::int64_t object_step = 0, object_outer = 0;
  std::uint16_t chain = 0;
  friend bool operator==(const reference_run&, const reference_run&) = default;
};

/// The location of each cell's bytes in an array: object, offset and length, sorted by cell. Immutable.
///
/// A cell that is not listed was never written. The table is a list of records. Regular references are one record, for
/// any number of them (`reference_run`); others are rows, up to 4096 in a record, which store the difference from the
/// smallest number of their record in as few bytes as possible. A cell is found by bisection of the records, and of the
/// rows if these skip cells.
///
/// **The saved forms** are little-endian; `parse` reads both, `save` writes the shorter one.
/// - `PSREFS02`: the numbers of entries, of the array's cells and of records (64 bits each), the records, the rows.
///   A record has ten numbers of 64 bits in the order of `reference_run` without `chain`, then the chain (16 bits), the
///   width in bytes of a row's columns cell, object, offset, length and chain (one byte each, 0 to 8), and a zero byte.
///   If all widths are 0, the record is a run. Otherwise its `count` rows follow those of the records before it, column
///   after column. A value is the sum of the record's number and the row's. A column of width 0 has no bytes; that of
///   cells counts up.
/// - `PSREFS01`: the number of entries and of the array's cells (64 bits each), the width in bytes of the columns
///   cell, object, offset, length and chain (one byte each: 0, 1, 2, 4 or 8), three zero bytes, then the columns one
///   after the other. A column of width 0 is all zeros, that of cells counts up from 0. A length of 0 is the whole
///   object.
class reference_table {
 public:
  static constexpr std::size_t kColumns = 5;  // cell, object, offset, length, chain

  /// References in the saved and in the loaded table: a run, or rows.
  struct record : reference_run {
    std::array<std::uint8_t, kColumns> widths{};
    std::uint64_t entry = 0;  ///< the number of the first entry
    std::uint64_t rows = 0;   ///< where the rows begin
    bool is_run() const noexcept { return widths == std::array<std::uint8_t, kColumns>{}; }
    friend bool operator==(const record&, const record&) = default;
  };

  /// The columns of a table. `cells` ascend; empty: entry i is cell i. All except `offsets` may be empty: all 0.
  struct columns {
    std::vector<std::uint64_t> cells, offsets, lengths;  ///< length 0: the whole object
    std::vector<std::uint32_t> objects;
    std::vector<std::uint16_t> chains;
  };

  /// Makes a table of an array of `cells` cells.
  /// \error corrupt_data  As `parse`; columns of different lengths.
  static result<std::shared_ptr<const reference_table>> make(std::uint64_t cells, const columns& of);

  /// Parses a saved form; memory and time are proportional to `saved`, for any number of entries that it states.
  /// \error corrupt_data  It is not a table, differs from the size that it states, names a cell twice or out of order,
  /// or a range that exceeds 64 bits.
  static result<std::shared_ptr<const reference_table>> parse(std::span<const std::byte> saved);

  std::uint64_t entries() const noexcept { return entries_; }
  /// The number of cells of the array.
  std::uint64_t cells() const noexcept { return cell_count_; }

  /// Finds the reference of a cell; false if it has none.
  /// \param hint  The record to check first. Set to the one that was found.
  bool find(cell_id cell, std::size_t& hint, cell_reference& out) const noexcept;

  const std::vector<record>& records() const noexcept { return records_; }
  /// Entry `i` of a record of this table; i < of.count.
  cell_id cell(const record& of, std::uint64_t i) const noexcept;
  cell_reference at(const record& of, std::uint64_t i) const noexcept;

  /// By number, counted over all records.
  cell_id cell(std::uint64_t entry) const noexcept;
  cell_reference operator[](std::uint64_t entry) const noexcept;

  /// Whether both hold the same references in the same records.
  friend bool operator==(const reference_table& a, const reference_table& b) noexcept {
    return a.cell_count_ == b.cell_count_ && a.records_ == b.records_ && a.rows_ == b.rows_;
  }

  /// Bytes of memory of the records and rows.
  std::uint64_t memory_bytes() const noexcept { return records_.capacity() * sizeof(record) + rows_.capacity(); }

  /// The shorter saved form.
  std::vector<std::byte> save() const;

 private:
  friend class reference_table_builder;
  static result<std::shared_ptr<const reference_table>> parse_columns(std::span<const std::byte> saved);
  static result<std::shared_ptr<const reference_table>> parse_records(std::span<const std::byte> saved);
  result<> check(const record& of) const;
  const record& of_entry(std::uint64_t entry) const noexcept;
  bool find_in(const record& of, cell_id cell, cell_reference& out) const noexcept;
  std::array<std::uint64_t, kColumns> largest() const noexcept;
  std::vector<std::byte> save_columns(const std::array<std::uint64_t, kColumns>& largest) const;
  std::vector<std::byte> save_records() const;

  std::uint64_t cell_count_ = 0, entries_ = 0;
  std::vector<record> records_;
  std::vector<std::byte> rows_;
};

/// Makes a table from references in ascending order of their cells. Memory is proportional to the table.
class reference_table_builder {
 public:
  /// \param cells  Number of cells of the array.
  explicit reference_table_builder(std::uint64_t cells);

  void add(cell_id cell, const cell_reference& what);
  /// Adds a run, whose `count` is not 0.
  void add(const reference_run& run);

  /// \error corrupt_data  Cells do not ascend or do not belong to the array, or a range exceeds 64 bits.
  result<std::shared_ptr<const reference_table>> finish() &&;

 private:
  struct row {
    std::uint64_t cell = 0, offset = 0, length = 0;
    std::uint32_t object = 0;
    std::uint16_t chain = 0;
  };

  bool accepts(cell_id cell, std::uint64_t count);
  void close(const reference_run& run);
  void flush_outer();
  void flush_rows();

  std::shared_ptr<reference_table> made_;
  std::optional<error> failed_;
  std::uint64_t next_cell_ = 0, entries_ = 0;
  reference_run run_, outer_;  // the current addition, and runs before it that may repeat; count 0: none
  std::vector<row> pending_;   // rows that precede both
};

}  // namespace penstock::inline v0
