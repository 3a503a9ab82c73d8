#pragma once

#include <penstock/extend/chunk_grid.h>
#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/hdf5_reader.h"
#include "driver/hdf5_variable_cells.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_targets.h"

namespace penstock::inline v0 {

/// The elements of a dataset that are stored elsewhere in the file, cell by cell: text and lists in its heaps, and the
/// paths of objects that it refers to.
///
/// The dataset has a reference in place of each element, in ordinary chunks. Values are read together with their cell;
/// they are neither read before nor cached. Of a chunk index that is not listed, up to 4 MiB of nodes are cached.
/// Immutable, thread-safe.
class hdf5_heap_values final : public hdf5_variable_cells {
 public:
  /// \param of          The dataset, with `variable` set. \param references  Its layout, for references as bytes.
  /// \param memory_limit  The most bytes of one cell, in addition to the limit that follows from the file's size.
  hdf5_heap_values(std::shared_ptr<hdf5_reader> from, hdf5_array of, std::shared_ptr<const chunk_layout> references,
                   std::uint64_t memory_limit);

  const chunk_grid& grid() const override { return references_->grid(); }
  /// The shape of full cells. Elements after the end of the array are empty.
  const extents& cell_shape() const noexcept { return cell_shape_; }
  /// \error unsupported  An array that was never written has more than 2^22 cells and a fill value that is not empty.
  result<std::vector<std::uint64_t>> cells() const override;
  bool has(std::uint64_t cell) const override;

  /// \error Of a cell: corrupt_data  A chunk or a heap is damaged. unsupported  It has more than 2^26 bytes of
  ///        references, or of values more than 2^28 bytes and four times the file's size. resource_exhausted  More than
  ///        the memory limit. Otherwise as the reader's.
  std::vector<result<cell_bytes>> read(std::span<const hdf5_cell_request> cells) const override;
  store_traits traits() const override { return from_->from()->traits(); }
  std::string uri() const override { return from_->from()->uri(); }

  /// The elements of an array that was never written; empty if the file does not define them.
  result<std::string> fill() const;

 private:
  class operation;
  /// The bytes of a chunk of references, counted from the beginning of the file or of `inline_bytes`.
  struct stored_chunk {
    std::uint64_t offset = 0, length = 0;
    std::size_t chain = 0;
  };
  std::optional<stored_chunk> listed_chunk(std::uint64_t cell) const;
  std::shared_ptr<const hdf5_paths> paths(hdf5_file& file, hdf5_tree& tree) const;

  std::shared_ptr<hdf5_reader> from_;
  hdf5_array of_;
  std::shared_ptr<const chunk_layout> references_;
  std::uint64_t memory_limit_;
  extents cell_shape_;
  mutable std::mutex mutex_;  // protects the following members
  mutable std::shared_ptr<const hdf5_paths> paths_;
  mutable std::map<std::uint64_t, index_entry> nodes_;  // of the chunk index, by name
  mutable std::uint64_t node_bytes_ = 0;
};

}  // namespace penstock::inline v0
