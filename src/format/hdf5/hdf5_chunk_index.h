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

/// The result of a search for a chunk. waits: a node of the index must be read first.
enum class hdf5_lookup : std::uint8_t { present, absent, waits };

/// The place where the last search ended: the next chunk is usually next to it. Valid for searches among the same
/// nodes.
struct hdf5_search_hint {
  std::span<const std::byte> node;      ///< a leaf, or elements of an array; empty: no search before
  std::uint64_t next = 0, entries = 0;  ///< for a leaf: the entry after the last one, and the number of entries
  std::uint64_t first = 0, begin = 0;   ///< for elements: the number of the first, and its offset in `node`
};

/// Finds chunks by reading only the nodes of their index that lead to them. Nodes that are not cached are requested:
/// what is read and cached depends on the requested cells, not on the number of chunks. Immutable, thread-safe;
/// performs no I/O.
///
/// Each node is an index block of object 0. The node where every search begins is node 0; the others are named by their
/// kind and address. Blocks have the stored bytes, after their checksums were verified.
class hdf5_chunk_index {
 public:
  virtual ~hdf5_chunk_index() = default;

  /// Reads the header of an index.
  /// \param filters  Number of the dataset's filters: further bits of a mask have no meaning.
  /// \returns Null if the index has no nodes to look up; list_hdf5_chunks reads all of it.
  /// \error As list_hdf5_chunks.
  static result<std::shared_ptr<const hdf5_chunk_index>> open(hdf5_file& file, const hdf5_shape& shape,
                                                              const hdf5_layout& layout, std::size_t filters);

  const hdf5_chunk_grid& grid() const noexcept { return grid_; }

  /// \param cell     In the present shape, in C order.
  /// \param hint     From earlier searches with the same `known`.
  /// \param out      If present: `address` counts from the beginning of the file.
  /// \param missing  If waits: the node to read.
  /// \error corrupt_data  The index is damaged. \error conflict  The file no longer exists.
  result<hdf5_lookup> find(cell_id cell, const index_lookup& known, hdf5_search_hint& hint, hdf5_chunk_place& out,
                           index_request& missing) const;

  /// \param file_size  The present size; byte_range::kAll: unknown.
  /// \error corrupt_data  The bytes are not such a node, or the size of the file has changed.
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t file_size) const;

 protected:
  /// Kinds of nodes other than the first one.
  enum class kind : std::uint8_t { tree = 1, long_tree = 2, super_block = 3, data_block = 4, page = 5 };

  hdf5_chunk_index(const hdf5_file& file, hdf5_chunk_grid grid) noexcept
      : grid_(std::move(grid)), addresses_(file.addresses()) {}

  static std::uint64_t name_of(kind what, std::uint64_t address) noexcept {
    return static_cast<std::uint64_t>(what) << kAddressBits | address;
  }
  static kind kind_of(std::uint64_t name) noexcept { return static_cast<kind>(name >> kAddressBits); }

  /// \param node  Its name; 0: the node where every search begins.
  /// \returns The number of bytes to cache.
  virtual result<std::size_t> check(std::uint64_t node, std::span<const std::byte> bytes) const = 0;

  /// The nodes that one search may use.
  class nodes;
  /// Sets `out.address` as stored. If it is undefined, or the length is 0, the chunk was not written.
  virtual result<hdf5_lookup> look_up(const hdf5_chunk_coordinates& place, nodes& among, hdf5_search_hint& hint,
                                      hdf5_chunk_place& out) const = 0;

  hdf5_chunk_grid grid_;
  hdf5_addresses addresses_;

 private:
  // Files are shorter than 2^60 bytes.
  static constexpr unsigned kAddressBits = 60;

  std::uint64_t address_ = 0;  // for errors
  std::uint64_t all_filters_ = 0;
  bool raw_edges_ = false;
};

}  // namespace penstock::inline v0
