#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// One array of a join.
struct joined_part {
  std::shared_ptr<const chunk_layout> layout;  ///< not null; its grid has cells
  std::string prefix;                          ///< of its keys: empty, or ends with '/'
};

/// Joins many arrays along one dimension: the layouts of the parts follow each other.
///
/// A cell of this layout is a cell of one part. Along the axis, the parts' cells follow each other. If a part ends
/// inside its last cell, that cell decodes to more elements than its edges enclose. Objects are those of the parts,
/// numbered part after part. Chains are those of the parts, without duplicates. Index requests are forwarded to the
/// part that needs them.
class joined_layout final : public chunk_layout {
 public:
  /// \param axis  Less than the parts' rank.
  /// \error invalid_argument  `parts` is empty, or a part differs in rank or in an extent outside `axis`.
  /// \error unsupported       Parts differ in their chunks outside `axis`, or there are too many cells, objects or
  /// different chains.
  static result<std::shared_ptr<const joined_layout>> make(std::vector<joined_part> parts, std::size_t axis);

  const chunk_grid& grid() const override { return grid_; }
  /// The parts' objects, if all parts have the same objects outside the axis; otherwise the cells.
  const chunk_grid& write_grid() const override { return write_grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override;
  version expected(object_id object) const override;

  /// The number range of its objects; some numbers may be unused.
  std::uint64_t objects() const noexcept { return first_object_.back(); }

 private:
  joined_layout() = default;
  result<> join_grids(std::size_t axis);
  result<> join_chains();
  result<> number_objects();
  std::size_t part_of_cell(std::uint64_t along) const noexcept;
  std::size_t part_of_object(object_id object) const noexcept;
  // Returns the part's own number of the cell, and sets `which` to the part.
  cell_id own_cell(cell_id cell, std::size_t& which) const noexcept;
  // `requested`: the number of requests in `missing` before this call of `locate`.
  result<> locate_own(std::size_t which, std::span<const cell_id> cells, const index_lookup& known,
                      std::span<chunk_extent> out, std::size_t requested, std::vector<index_request>& missing) const;

  std::vector<joined_part> parts_;
  std::size_t axis_ = 0;
  chunk_grid grid_, write_grid_;
  std::vector<codec_chain> chains_;
  std::vector<std::vector<std::uint16_t>> chain_of_;  // by part and the part's chain: the number in `chains_`
  std::vector<std::uint64_t> first_cell_;             // for each part along the axis; the last one is the end of all
  std::vector<object_id> first_object_;               // for each part; the last one is the end of all
};

}  // namespace penstock::inline v0
