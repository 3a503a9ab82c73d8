#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstdint>
#include <memory>
#include <span>

#include "format/hdf5/hdf5_chunk_grid.h"
#include "format/hdf5/hdf5_chunks.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// What came of looking for a chunk. waits: a node of the index has to be read first.
enum class hdf5_lookup : std::uint8_t { present, absent, waits };

/// Where the last search ended: the next chunk is mostly next to it. For searches among the same nodes.
struct hdf5_search_hint {
  std::span<const std::byte> node;      ///< a leaf, or elements of an array; empty: there was none
  std::uint64_t next = 0, entries = 0;  ///< of a leaf: the entry behind the last one, and how many there are
  std::uint64_t first = 0, begin = 0;   ///< of elements: the number of the first, and its place in `node`
};

/// Finds chunks by the nodes of their index that lead to them, and asks for those that are not known: what is read and
/// kept depends on the requested cells, and not the number of chunks. Immutable, thread-safe; performs no I/O.
///
/// Each node is an index block of object 0. The node where every search begins is node 0; others are named by their
/// kind and address. Blocks hold the stored bytes, after their checksums were compared.
class hdf5_chunk_index {
 public:
  virtual ~hdf5_chunk_index() = default;

  /// Reads what an index begins with.
  /// \param filters  Of the dataset: bits of a mask beyond them mean nothing.
  /// \returns Null: there is nothing to look up step by step; list_hdf5_chunks reads all of it.
  /// \error As list_hdf5_chunks.
  static result<std::shared_ptr<const hdf5_chunk_index>> open(hdf5_file& file, const hdf5_shape& shape,
                                                              const hdf5_layout& layout, std::size_t filters);

  const hdf5_chunk_grid& grid() const noexcept { return grid_; }

  /// \param cell     Of the present shape, in C order.
  /// \param hint     Of the searches before, with the same `known`.
  /// \param out      present: `address` counts from the beginning of the file.
  /// \param missing  waits: the node.
  /// \error corrupt_data  The index is damaged. \error conflict  The file is gone.
  result<hdf5_lookup> find(cell_id cell, const index_lookup& known, hdf5_search_hint& hint, hdf5_chunk_place& out,
                           index_request& missing) const;

  /// \param file_size  By now; byte_range::kAll: not known.
  /// \error corrupt_data  The bytes are no such node, or the file has another size than before.
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t file_size) const;

 protected:
  /// Nodes other than the first one.
  enum class kind : std::uint8_t { tree = 1, long_tree = 2, super_block = 3, data_block = 4, page = 5 };

  hdf5_chunk_index(const hdf5_file& file, hdf5_chunk_grid grid) noexcept
      : grid_(std::move(grid)), addresses_(file.addresses()) {}

  static std::uint64_t name_of(kind what, std::uint64_t address) noexcept {
    return static_cast<std::uint64_t>(what) << kAddressBits | address;
  }
  static kind kind_of(std::uint64_t name) noexcept { return static_cast<kind>(name >> kAddressBits); }

  /// \param node  Its name; 0: where searches begin.
  /// \returns How many of the bytes are kept.
  virtual result<std::size_t> check(std::uint64_t node, std::span<const std::byte> bytes) const = 0;

  /// The nodes that one search knows.
  class nodes;
  /// `out.address` as stored; undefined, or a length of 0: the chunk was not written.
  virtual result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                                      hdf5_chunk_place& out) const = 0;

  hdf5_chunk_grid grid_;
  hdf5_addresses addresses_;

 private:
  // Files are shorter than that.
  static constexpr unsigned kAddressBits = 60;

  std::uint64_t address_ = 0;  // for errors
  std::uint64_t all_filters_ = 0;
  bool raw_edges_ = false;
};

}  // namespace penstock::inline v0
