// Selections of two small dataspaces, from small numbers: the parts that a mapping shows are the pairs of elements that
// a model counts one by one. A selection is equal after it was stored in each of its versions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "codec_fuzz.h"
#include "format/hdf5/hdf5_virtual.h"
#include "hdf5_selections.h"

namespace {

using namespace penstock;

using numbers = std::vector<std::uint64_t>;

/// The elements of `which`, in its order, by their numbers in C order. Null: it exceeds the shape, or overlaps.
std::optional<numbers> elements_of(const hdf5_selection& which, const numbers& shape) {
  const auto all = all_positions(shape);
  numbers out;
  const auto number = [&](const numbers& at) {
    std::uint64_t made = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) made = made * shape[d] + at[d];
    return made;
  };
  const auto inside = [&](const numbers& at) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (at[d] >= shape[d]) return false;
    return true;
  };
  using kind = hdf5_selection::kind;
  if (which.what == kind::none) return out;
  if (which.what != kind::all && which.rank != shape.size()) return std::nullopt;
  if (which.what == kind::points) {
    for (std::size_t i = 0; i < which.corners.size(); i += which.rank) {
      const numbers at(which.corners.begin() + static_cast<std::ptrdiff_t>(i),
                       which.corners.begin() + static_cast<std::ptrdiff_t>(i + which.rank));
      if (!inside(at)) return std::nullopt;
      out.push_back(number(at));
    }
    return out;
  }
  std::vector<numbers> along(shape.size());  // regular: the positions of each dimension
  if (which.what == kind::regular) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const hdf5_selection::axis& axis = which.axes[d];
      if (axis.count > 1 && axis.block != 0 && axis.stride < axis.block) return std::nullopt;
      for (std::uint64_t i = 0; i < axis.count; ++i)
        for (std::uint64_t k = 0; k < axis.block; ++k) along[d].push_back(axis.start + i * axis.stride + k);
      if (!along[d].empty() && along[d].back() >= shape[d]) return std::nullopt;
    }
  }
  for (std::size_t i = 0; which.what == kind::boxes && i < which.corners.size(); i += 2 * which.rank) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::uint64_t first = which.corners[i + d], last = which.corners[i + which.rank + d];
      if (last < first || last >= shape[d]) return std::nullopt;
    }
  }
  for (const numbers& at : all) {
    std::size_t times = 0;
    if (which.what == kind::all) times = 1;
    if (which.what == kind::regular) {
      times = 1;
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (std::find(along[d].begin(), along[d].end(), at[d]) == along[d].end()) times = 0;
    }
    for (std::size_t i = 0; which.what == kind::boxes && i < which.corners.size(); i += 2 * which.rank) {
      bool in = true;
      for (std::size_t d = 0; d < shape.size(); ++d)
        in = in && at[d] >= which.corners[i + d] && at[d] <= which.corners[i + which.rank + d];
      times += in ? 1 : 0;
    }
    if (times > 1) return std::nullopt;
    if (times == 1) out.push_back(number(at));
  }
  return out;
}

void check_pattern(const hdf5_selection::axis& pattern) {
  constexpr std::uint64_t kMost = 24;
  numbers positions;
  const bool adjacent = pattern.block == byte_range::kAll || pattern.stride <= pattern.block;
  for (std::uint64_t i = 0; positions.size() < kMost; ++i) {
    if (!adjacent && (pattern.block == 0 || i / pattern.block >= pattern.count)) break;
    if (adjacent && i >= saturating_mul(pattern.count, pattern.block)) break;
    positions.push_back(adjacent ? pattern.start + i
                                 : pattern.start + i / pattern.block * pattern.stride + i % pattern.block);
  }
  for (std::uint64_t extent = 0; extent < kMost; ++extent) {
    const auto end = std::lower_bound(positions.begin(), positions.end(), extent);
    require(hdf5_positions_below(pattern, extent) == static_cast<std::uint64_t>(end - positions.begin()));
  }
  for (std::size_t i = 1; i <= positions.size(); ++i) require(hdf5_extent_for(pattern, i) == positions[i - 1] + 1);
}

/// Takes the first positions of a pattern without a limit.
void check_limit(const hdf5_selection::axis& pattern, std::uint64_t extent) {
  hdf5_selection endless, first;
  endless.what = first.what = hdf5_selection::kind::regular;
  endless.rank = first.rank = 1;
  endless.axes = {pattern};
  require(unlimited_axis(endless) == 0);
  const numbers shape{extent};
  const std::uint64_t count = hdf5_positions_below(pattern, extent);
  first.axes = {{0, 1, 1, count}};
  const auto made = match_hdf5_selections(limit_hdf5_selection(endless, 0, count), shape, first, shape);
  require(made.ok());
  const auto found = pairs_of(*made, shape, shape);
  require(found.size() == count);
  for (std::size_t i = 0; i < found.size(); ++i)
    require(found[i].second == i && found[i].first + 1 == hdf5_extent_for(pattern, i + 1));
}

}  // namespace

extern "C" int run_hdf5_virtual(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const numbers to_shape = small_shape(input), from_shape = small_shape(input);
  const hdf5_selection to = small_selection(input, to_shape.size()), from = small_selection(input, from_shape.size());
  const auto into = elements_of(to, to_shape), read = elements_of(from, from_shape);
  const auto made = match_hdf5_selections(to, to_shape, from, from_shape);
  require(made.ok() == (into && read && into->size() == read->size()));
  if (made.ok()) {
    auto found = pairs_of(*made, to_shape, from_shape);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
    for (std::size_t i = 0; i < into->size(); ++i) expected.emplace_back((*into)[i], (*read)[i]);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    require(found == expected);
  } else {
    require(made.error().code() == errc::corrupt_data);
  }
  const std::uint64_t extent = input.below(48);
  for (const hdf5_selection& each : {to, from}) {
    check_stored(each);
    for (hdf5_selection::axis axis : each.axes) {
      check_pattern(axis);
      axis.count = byte_range::kAll;
      if (axis.block != 0) {
        check_pattern(axis);
        check_limit(axis, extent);
      }
      axis.count = 1;
      axis.block = byte_range::kAll;
      check_pattern(axis);
      check_limit(axis, extent);
    }
  }
  return 0;
}
