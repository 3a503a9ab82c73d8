#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// An axis divided into one run of positions for each processor; the last one may be shorter.
struct axis_tiles {
  std::uint64_t length = 0;  ///< positions of the axis
  std::uint64_t tile = 1;    ///< positions of a tile
  std::uint64_t count = 1;   ///< tiles: at most as many as processors, at least one

  /// First position of tile `index`, and one past its last. After the last tile: an empty run at the end of the axis.
  std::uint64_t begin(std::uint64_t index) const noexcept { return index < count ? index * tile : length; }
  std::uint64_t end(std::uint64_t index) const noexcept {
    return index < count && length - begin(index) > tile ? begin(index) + tile : length;
  }
};

/// Divides `length` positions into tiles of ceil(length / (processors * over_decompose)), as `ps.tiles` does in Python.
/// An axis without positions is one empty tile.
/// \error invalid_argument  `processors` or `over_decompose` is 0.
inline result<axis_tiles> tile_axis(std::uint64_t length, std::uint64_t processors, std::uint64_t over_decompose = 1) {
  if (processors == 0 || over_decompose == 0)
    return error(errc::invalid_argument, "processors and over_decompose are at least 1");
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t wanted = over_decompose > kMost / processors ? kMost : processors * over_decompose;
  axis_tiles out;
  out.length = length;
  out.tile = std::max<std::uint64_t>(1, length / wanted + (length % wanted != 0));
  out.count = std::max<std::uint64_t>(1, length / out.tile + (length % out.tile != 0));
  return out;
}

}  // namespace penstock::inline v0
