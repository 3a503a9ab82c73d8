#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/dtype.h>
#include <penstock/owned_tensor.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

class stream_state;  // src/api/loader/stream.cc

struct PENSTOCK_API stream_state_deleter {
  void operator()(stream_state* state) const noexcept;
};

struct stream_options {
  extents tile;           ///< shape of the tiles, cut at the array's end; empty: the array's shards, or else its chunks
  std::size_t depth = 3;  ///< tiles that are read, or ready, while the caller has one; 0: each is read when requested
  /// The ends of tiles along `axis`, instead of multiples of `tile`: for files of unequal lengths. Empty, or from 0 to
  /// the length of the axis, ascending.
  std::vector<std::uint64_t> edges;
  std::size_t axis = 0;
  unsigned threads = 0;       ///< workers of each read; 0: the context's
  std::optional<dtype> type;  ///< the type to which elements are converted, as `read_options::type`
};

struct stream_tile {
  extents index;  ///< its position in the grid of tiles
  box where;      ///< its box in the array
  /// Of the box's shape; later tiles do not change it. Elements of variable length are `variable_item`s, whose bytes
  /// live as long as the owner.
  owned_tensor values;
};

/// The tiles of an array in C order, read ahead of the loop that computes on them.
///
/// Needs memory for `depth` + 1 tiles, and for those that the caller keeps. Reads run on the context's threads. Several
/// threads may call it: each tile is returned to one of them. Destroying it cancels the reads under way and waits for
/// their workers.
class PENSTOCK_API array_stream {
 public:
  /// \error invalid_argument  A tile with the wrong rank or a length of 0; edges that do not cover the axis.
  static result<array_stream> make(array from, stream_options options = {});

  const extents& grid() const noexcept;  ///< tiles along each dimension
  const extents& tile() const noexcept;  ///< shape of a whole tile; with `edges`, of the longest
  std::uint64_t tiles() const noexcept;  ///< number of all tiles

  /// The next tile; nullopt after the last one, and after `cancel`.
  /// \error  The failure of its read. The stream has ended then.
  result<std::optional<stream_tile>> next();
  /// Cancels the pending reads and waits for their workers. `next` returns no further tile.
  void cancel() noexcept;

 private:
  explicit array_stream(std::unique_ptr<stream_state, stream_state_deleter> state) noexcept;
  std::unique_ptr<stream_state, stream_state_deleter> state_;
};

}  // namespace penstock::inline v0
