#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/device.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

class device_tiles_state;  // src/api/loader/device_tiles.cc

struct PENSTOCK_API device_tiles_state_deleter {
  void operator()(device_tiles_state* state) const noexcept;
};

struct device_tiles_options {
  extents tile;                      ///< as `stream_options::tile`
  std::size_t depth = 3;             ///< as `stream_options::depth`
  std::vector<std::uint64_t> edges;  ///< as `stream_options::edges`
  std::size_t axis = 0;
  int device = -1;       ///< -1: the current one of `make`'s thread
  unsigned threads = 0;  ///< workers of each read; 0: the context's
  bool check = false;    ///< return a tile only when the device is done: its failures are then errors
};

struct device_tile {
  extents index;  ///< its position in the grid of tiles
  box where;      ///< its box in the array
  /// Of the box's shape, ordered on `stream`. Valid until the next tile is requested.
  device_tensor values;
  std::shared_ptr<device_tensor> memory;  ///< owns the stream of the values; outlives `values`
  /// Queue the work on the values here: the memory is overwritten only after that.
  stream_handle stream;
};

/// The tiles of an array in C order, read ahead into device memory: `depth` + 1 buffers that are reused, or one for
/// each tile if there are fewer, each with a stream of its own.
///
/// A failure on the device is returned with its tile if it is known by then, otherwise as soon as it is known, and
/// before the end. Therefore the caller is at most two rounds of the buffers ahead of the device. Destroying it cancels
/// the reads under way. One thread at a time calls `next`; `cancel` may be called from others.
class PENSTOCK_API device_tiles {
 public:
  /// \error invalid_argument  As `array_stream::make`. \error unsupported  No driver is found.
  static result<device_tiles> make(array from, device_tiles_options options = {});

  const extents& grid() const noexcept;  ///< tiles along each dimension
  const extents& tile() const noexcept;  ///< shape of a whole tile; with `edges`, of the longest
  std::uint64_t tiles() const noexcept;  ///< number of all tiles
  std::size_t complete() const;          ///< tiles ahead of the caller with which the device is done

  /// The next tile, whose work is queued on the device; nullopt after the last one, and after `cancel`.
  /// \error  The failure of a read, with a note of its tile. The stream has ended then.
  result<std::optional<device_tile>> next();
  /// Cancels the pending reads. `next` returns no further tile.
  void cancel() noexcept;

 private:
  explicit device_tiles(std::unique_ptr<device_tiles_state, device_tiles_state_deleter> state) noexcept;
  std::unique_ptr<device_tiles_state, device_tiles_state_deleter> state_;
};

}  // namespace penstock::inline v0
