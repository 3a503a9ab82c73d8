#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/unpack.h>
#include <penstock/window.h>
#include "array/resample_taps.h"

namespace penstock::inline v0 {

/// The image that a window is read from, and how: created by `window_reader`.
struct window_plan {
  explicit window_plan(const array& of) : level(of), type(of.type()) {}

  array level;                             ///< as it is stored
  std::optional<unpacked_image> unpacked;  ///< the level's values; nullopt: stored values are resampled
  dtype type;                              ///< of the result
  pixel_window window;
  extents shape;
  resampling how = resampling::nearest;
  resample_taps rows, columns;                       ///< in pixels of `level`
  std::vector<std::optional<nodata_value>> nodata;   ///< values that pixels may have, of each plane or one for all
  bool given_nodata = false;                         ///< the caller's: they alone are missing
  std::optional<std::vector<std::byte>> fill_value;  ///< memory of the caller
  std::vector<std::vector<std::byte>> missing;       ///< the values of pixels without a value, as many as `nodata`
  unsigned threads = 0;

  const std::vector<std::byte>& missing_of(std::uint64_t plane) const noexcept {
    return missing[missing.size() == 1 ? 0 : plane];
  }

  std::uint64_t planes() const noexcept {
    std::uint64_t count = 1;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) count *= shape[d];
    return count;
  }
};

/// Reads the window into `out`, contiguous in C order.
/// \error As `array::read`.
result<> read_planned(const window_plan& plan, const progress_fn& progress, std::byte* out);

}  // namespace penstock::inline v0
