#pragma once

#include <penstock/extend/chunk_grid.h>
#include <penstock/result.h>
#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::inline v0 {

/// The most bytes of values that are read as a whole, for manifests.
inline constexpr std::uint64_t kMostHdf5VariableBytes = std::uint64_t{1} << 28;
/// The limit of the bytes of values in one cell if it does not follow from the size of a file.
inline constexpr std::uint64_t kMostHdf5CellBytes = std::uint64_t{1} << 28;
/// Cells are read together until they have this many bytes. A few bytes of a file can be the value of any number of
/// elements (the fill value, a path, an element that a virtual dataset shows in many places), so the file's size does
/// not limit it.
inline constexpr std::uint64_t kHdf5BytesTogether = std::uint64_t{1} << 26;

/// A cell, and which of its elements are needed.
struct hdf5_cell_request {
  std::uint64_t cell = 0;
  std::span<const std::uint64_t> items = {};  ///< a bit for each element, in C order; empty: all are needed

  bool needs(std::uint64_t item) const noexcept {
    return items.empty() ||
           (item / 64 < items.size() && (items[static_cast<std::size_t>(item / 64)] >> item % 64 & 1) != 0);
  }
};

/// The elements of variable length of a dataset, cell by cell. Values are read together with their cell. Thread-safe.
class hdf5_variable_cells {
 public:
  using cell_bytes = std::vector<std::byte>;
  virtual ~hdf5_variable_cells() = default;

  virtual const chunk_grid& grid() const = 0;
  /// The cells that have a value, in ascending order. Elements of other cells are empty.
  /// \error unsupported  More than 2^22.
  virtual result<std::vector<std::uint64_t>> cells() const = 0;
  virtual bool has(std::uint64_t cell) const = 0;

  /// Reads cells in the form of the codecs vlen-utf8, vlen-bytes and vlen-array. For remote files this takes a few
  /// round trips, regardless of the number of cells. Elements after the end of the array, and those that are not
  /// needed, are empty: memory and requests depend on the others.
  /// \pre The array `has` them, and there is at least one.
  /// \returns The bytes of the first cells: at least of one, and not of those after kHdf5BytesTogether.
  /// \error Of a cell: unsupported, resource_exhausted  It has too many bytes.
  virtual std::vector<result<cell_bytes>> read(std::span<const hdf5_cell_request> cells) const = 0;

  /// The same for all elements.
  std::vector<result<cell_bytes>> read_whole(std::span<const std::uint64_t> cells) const {
    std::vector<hdf5_cell_request> wanted;
    for (const std::uint64_t each : cells) wanted.push_back({each});
    return read(wanted);
  }

  /// Whether reads wait for requests, and how many may run at a time.
  virtual store_traits traits() const = 0;
  /// The URI of the file.
  virtual std::string uri() const = 0;
};

/// All cells of an array of at most 2^22 cells.
/// \error unsupported  It has more.
result<std::vector<std::uint64_t>> all_hdf5_cells(std::uint64_t count);

/// Elements of a full cell.
std::uint64_t hdf5_cell_elements(const chunk_grid& grid);
/// The number of cells that are read together: fewer if they are large. The size of a cell does not follow from the
/// file's size.
std::size_t hdf5_cells_together(const chunk_grid& grid, std::uint64_t most = 256);

/// Numbers of 4 bytes: one for each cell, with the number of its elements, and one before each element, with its
/// length.
inline void append_cell_number(std::vector<std::byte>& to, std::uint64_t value) {
  for (unsigned i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}
inline std::uint64_t take_cell_number(std::span<const std::byte>& from) {
  std::uint64_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = out << 8 | static_cast<std::uint64_t>(from[i]);
  from = from.subspan(4);
  return out;
}

}  // namespace penstock::inline v0
