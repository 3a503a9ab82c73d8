#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The tiles of an array, one after the other in C order.
class tile_walk {
 public:
  struct place {
    extents index;  ///< in the grid of tiles
    box where;      ///< in the array
    resolved_selection which() const;
  };

  /// \param tile   Empty: the array's shards, or else its chunks.
  /// \param edges  The ends of tiles along `axis`, instead of multiples of `tile`; empty: none.
  /// \error invalid_argument  A tile with the wrong rank or a length of 0; edges that do not cover the axis.
  static result<tile_walk> make(const array& from, extents tile, std::vector<std::uint64_t> edges, std::size_t axis);

  const extents& grid() const noexcept { return grid_; }
  const extents& tile() const noexcept { return tile_; }
  std::uint64_t tiles() const noexcept { return tiles_; }

  bool ended() const noexcept { return begun_ == tiles_; }
  /// The next tile; not after the last one.
  place next();
  /// All tiles were returned.
  void end() noexcept { begun_ = tiles_; }

 private:
  extents shape_, tile_, grid_, next_;
  std::vector<std::uint64_t> edges_;
  std::size_t axis_ = 0;
  std::uint64_t tiles_ = 1, begun_ = 0;
};

}  // namespace penstock::inline v0
