#pragma once

#include <penstock/dtype.h>
#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The key of the elements [origin, origin + shape): `[0:10, 64:128]`.
void append_box_key(std::string& to, const extents& origin, const extents& shape);
/// The reverse. Returns false if `key` is not the key of a box of the rank of `origin`.
bool parse_box_key(std::string_view key, extents& origin, extents& shape) noexcept;

/// An array of boxes that a function reads: each cell is an object, whose key is its box in the array. The object is
/// the cell in C order and native byte order. At the array's edge it is padded to a whole cell; the key has the
/// elements that exist.
class source_layout final : public chunk_layout {
 public:
  /// \param cell  Has the rank of `shape`, no length is 0.
  /// \error unsupported  More cells than can be numbered.
  static result<std::shared_ptr<const source_layout>> make(const dtype& type, const extents& shape,
                                                           const extents& cell);

  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override;

 private:
  source_layout() = default;

  chunk_grid grid_;
  std::vector<codec_chain> chains_;  // one
};

}  // namespace penstock::inline v0
