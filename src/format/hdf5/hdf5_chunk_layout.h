#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "format/hdf5/hdf5_chunk_index.h"

namespace penstock::inline v0 {

/// The layout of a dataset with many chunks, whose index is read together with its chunks.
///
/// The cells and the usual chain are those of another layout, whose cells are whole objects (a Zarr array without
/// shards).
class hdf5_chunk_layout final : public chunk_layout {
 public:
  struct settings {
    /// Chain `mask` of the layout, from 1 on, is for chunks that skipped these filters. Chunks with other masks are
    /// refused.
    std::vector<codec_chain> masked_chains;
    std::string object;  ///< the file's key in the array's store
  };

  /// \error unsupported  `cells` has several chains, or its number of cells differs from the index's.
  static result<std::shared_ptr<const hdf5_chunk_layout>> make(std::shared_ptr<const chunk_layout> cells,
                                                               std::shared_ptr<const hdf5_chunk_index> index,
                                                               settings with);

  const chunk_grid& grid() const override { return cells_->grid(); }
  /// The cells: what `blocks` accepts.
  const chunk_grid& write_grid() const override { return grid(); }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override { return cells_->describe(cell); }

 private:
  hdf5_chunk_layout() = default;

  std::shared_ptr<const chunk_layout> cells_;
  std::shared_ptr<const hdf5_chunk_index> index_;
  std::vector<codec_chain> chains_;  // by mask
  std::string object_;
};

}  // namespace penstock::inline v0
