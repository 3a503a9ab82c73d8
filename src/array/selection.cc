#include <penstock/selection.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "array/bit_mask.h"
#include "array/selection_checks.h"
#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t kMostPositive = std::numeric_limits<std::int64_t>::max();

error rank_error(std::size_t rank, std::size_t items) {
  return error(errc::out_of_range,
               fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed", rank, items));
}

error result_rank_error(std::size_t rank) {
  return error(
      errc::out_of_range,
      fmt::format("number of dimensions must be within [0, {}], indexing result would have {}", kMaxRank, rank));
}

// Positions are signed: a dimension that does not fit into memory is refused before any computation.
result<> check_sizes(const extents& shape) {
  for (const std::uint64_t size : shape) {
    if (size > static_cast<std::uint64_t>(kMostPositive))
      return error(errc::unsupported, "shape " + to_string(shape) + " has a dimension beyond 2^63 - 1");
  }
  return {};
}

// Wraps a negative index; false if it exceeds the dimension.
bool wrap(std::int64_t index, std::uint64_t size, std::int64_t& out) noexcept {
  const auto length = static_cast<std::int64_t>(size);
  out = index < 0 ? index + length : index;
  return out >= 0 && out < length;
}

axis_range whole(std::uint64_t size) noexcept { return {0, 1, size}; }

// Python's slice.indices: both ends are clipped, so nothing here can overflow for sizes below 2^63.
result<axis_range> resolve_slice(const slice& which, std::uint64_t size) {
  const std::int64_t step = which.step.value_or(1);
  if (step == 0) return error(errc::invalid_argument, "slice step cannot be zero");
  const auto length = static_cast<std::int64_t>(size);
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? length : length - 1;
  const auto clip = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    const std::int64_t wrapped = *given < 0 ? *given + length : *given;
    return std::clamp(wrapped, lowest, highest);
  };
  const std::int64_t start = clip(which.start, step > 0 ? lowest : highest);
  const std::int64_t stop = clip(which.stop, step > 0 ? highest : lowest);
  if (step > 0 ? start >= stop : start <= stop) return axis_range{0, 1, 0};
  const auto distance = static_cast<std::uint64_t>(step > 0 ? stop - start : start - stop);
  // Unsigned negation: the most negative step has no positive counterpart.
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
  const std::uint64_t count = (distance - 1) / stride + 1;
  return axis_range{start, count == 1 ? 1 : step, count};  // a single element has no direction
}

result<index_list> wrap_all(const index_list& positions, std::size_t axis, std::uint64_t size) {
  index_list out(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (!wrap(positions[i], size, out[i])) return bounds_error(positions[i], axis, size);
  }
  return out;
}

}  // namespace

error bounds_error(std::int64_t index, std::size_t axis, std::uint64_t size) {
  return error(errc::out_of_range,
               fmt::format("index {} is out of bounds for axis {} with size {}", index, axis, size));
}

result<resolved_basic> resolve(const basic_selection& which, const extents& shape) {
  PENSTOCK_TRY(check_sizes(shape));
  std::size_t consumed = 0, ellipses = 0, added = 0, dropped = 0;
  for (const basic_item& item : which.items) {
    if (std::holds_alternative<ellipsis_t>(item)) {
      ++ellipses;
    } else if (std::holds_alternative<newaxis_t>(item)) {
      ++added;
    } else {
      ++consumed;
      if (std::holds_alternative<std::int64_t>(item)) ++dropped;
    }
  }
  if (ellipses > 1) return error(errc::out_of_range, "an index can only have a single ellipsis ('...')");
  const std::size_t rank = shape.size();
  if (consumed > rank) return rank_error(rank, consumed);
  if (rank - dropped + added > kMaxRank) return result_rank_error(rank - dropped + added);

  resolved_basic out;
  std::size_t d = 0;
  const auto keep = [&](const axis_range& range) {
    out.from.push_back(range);
    out.axis.push_back(static_cast<std::int8_t>(out.shape.size()));
    out.shape.push_back(range.count);
    ++d;
  };
  const auto keep_rest = [&](std::size_t count) {
    while (count-- > 0) keep(whole(shape[d]));
  };
  for (const basic_item& item : which.items) {
    if (const auto* const index = std::get_if<std::int64_t>(&item)) {
      std::int64_t position = 0;
      if (!wrap(*index, shape[d], position)) return bounds_error(*index, d, shape[d]);
      out.from.push_back({position, 1, 1});
      out.axis.push_back(-1);
      ++d;
    } else if (const auto* const range = std::get_if<slice>(&item)) {
      PENSTOCK_ASSIGN(const axis_range kept, resolve_slice(*range, shape[d]));
      keep(kept);
    } else if (std::holds_alternative<newaxis_t>(item)) {
      out.shape.push_back(1);
    } else {
      keep_rest(rank - consumed);
    }
  }
  keep_rest(rank - d);
  return out;
}

result<resolved_orthogonal> resolve(const orthogonal_selection& which, const extents& shape) {
  PENSTOCK_TRY(check_sizes(shape));
  const std::size_t rank = shape.size();
  if (which.items.size() > rank) return rank_error(rank, which.items.size());
  resolved_orthogonal out;
  out.from.reserve(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    static const orthogonal_item kWhole = slice{};
    const orthogonal_item& item = d < which.items.size() ? which.items[d] : kWhole;
    if (const auto* const index = std::get_if<std::int64_t>(&item)) {
      std::int64_t position = 0;
      if (!wrap(*index, shape[d], position)) return bounds_error(*index, d, shape[d]);
      out.from.emplace_back(axis_range{position, 1, 1});
      out.axis.push_back(-1);
      continue;
    }
    out.axis.push_back(static_cast<std::int8_t>(out.shape.size()));
    if (const auto* const range = std::get_if<slice>(&item)) {
      PENSTOCK_ASSIGN(const axis_range kept, resolve_slice(*range, shape[d]));
      out.shape.push_back(kept.count);
      out.from.emplace_back(kept);
    } else {
      PENSTOCK_ASSIGN(index_list positions, wrap_all(std::get<index_list>(item), d, shape[d]));
      out.shape.push_back(positions.size());
      out.from.emplace_back(std::move(positions));
    }
  }
  return out;
}

result<std::uint64_t> check_points(std::span<const std::span<const std::int64_t>> points, const extents& result_shape,
                                   const extents& shape) {
  PENSTOCK_TRY(check_sizes(shape));
  if (points.size() > shape.size()) return rank_error(shape.size(), points.size());
  if (points.size() < shape.size()) {
    return error(errc::out_of_range,
                 fmt::format("too few indices for array: array is {}-dimensional, but {} were indexed", shape.size(),
                             points.size()));
  }
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(result_shape));
  for (std::size_t d = 0; d < points.size(); ++d) {
    if (points[d].size() != count) {
      return error(errc::invalid_argument,
                   fmt::format("axis {} has {}, the result's shape {} needs {}", d,
                               counted(points[d].size(), "coordinate"), to_string(result_shape), count));
    }
  }
  return count;
}

result<coordinate_selection> resolve(const coordinate_selection& which, const extents& shape) {
  const std::vector<std::span<const std::int64_t>> lists(which.points.begin(), which.points.end());
  PENSTOCK_TRY(check_points(lists, which.shape, shape));
  coordinate_selection out;
  out.shape = which.shape;
  out.points.reserve(which.points.size());
  for (std::size_t d = 0; d < which.points.size(); ++d) {
    PENSTOCK_ASSIGN(index_list positions, wrap_all(which.points[d], d, shape[d]));
    out.points.push_back(std::move(positions));
  }
  return out;
}

result<> check_mask(const mask_selection& which, const extents& shape) {
  PENSTOCK_TRY(check_sizes(shape));
  const std::size_t rank = shape.size();
  if (which.shape.size() != rank) {
    return error(errc::out_of_range, fmt::format("boolean index did not match indexed array: the array is "
                                                 "{}-dimensional, the boolean index is {}-dimensional",
                                                 rank, which.shape.size()));
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (which.shape[d] != shape[d]) {
      return error(
          errc::out_of_range,
          fmt::format("boolean index did not match indexed array along axis {}; size of axis is {} but size of "
                      "corresponding boolean axis is {}",
                      d, shape[d], which.shape[d]));
    }
  }
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape));
  if (which.words.size() != ceil_div(count, 64)) {
    return error(errc::invalid_argument, fmt::format("the mask has {} words of 64 elements, its shape {} needs {}",
                                                     which.words.size(), to_string(shape), ceil_div(count, 64)));
  }
  return {};
}

mask_selection mask_selection::pack(const extents& shape, std::span<const std::uint8_t> bytes) {
  mask_selection out;
  out.shape = shape;
  out.words.resize(static_cast<std::size_t>(ceil_div(bytes.size(), 64)));
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t eight = 0;
    for (int k = 0; k < 8; ++k) eight |= std::uint64_t{bytes[i + static_cast<std::size_t>(k)]} << 8 * k;
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
    eight = ((((eight & kLow) + kLow) | eight) & ~kLow) >> 7;  // each byte is 0 or 1
    out.words[i / 64] |= (eight * 0x0102040810204080) >> 56 << i % 64;
  }
  for (; i < bytes.size(); ++i) out.words[i / 64] |= std::uint64_t{bytes[i] != 0} << i % 64;
  return out;
}

result<coordinate_selection> resolve(const mask_selection& which, const extents& shape) {
  PENSTOCK_TRY(check_mask(which, shape));
  const std::size_t rank = shape.size();
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape));
  const bit_mask mask(which.words, count);
  coordinate_selection out;
  out.points.resize(rank);
  for (index_list& each : out.points) each.reserve(static_cast<std::size_t>(mask.ones()));
  for (std::uint64_t i = mask.next_one(0, count); i < count; i = mask.next_one(i + 1, count)) {
    std::uint64_t rest = i;
    for (std::size_t d = rank; d-- > 0; rest /= shape[d])
      out.points[d].push_back(static_cast<std::int64_t>(rest % shape[d]));
  }
  out.shape = extents{mask.ones()};
  return out;
}

result<resolved_basic> resolve(const block_selection& which, const extents& shape, const extents& chunks) {
  PENSTOCK_TRY(check_sizes(shape));
  PENSTOCK_ASSIGN(const chunk_grid grid, chunk_grid::regular(shape, chunks));
  return resolve(which, grid);
}

result<resolved_basic> resolve(const block_selection& which, const chunk_grid& grid) {
  const std::size_t rank = grid.rank();
  if (which.items.size() > rank) return rank_error(rank, which.items.size());
  resolved_basic out;
  for (std::size_t d = 0; d < rank; ++d) {
    const grid_axis& axis = grid.axis(d);
    const std::uint64_t blocks = axis.cells();
    axis_range of_blocks = whole(blocks);
    if (d < which.items.size()) {
      if (const auto* const index = std::get_if<std::int64_t>(&which.items[d])) {
        std::int64_t position = 0;
        if (!wrap(*index, blocks, position)) {
          return error(errc::out_of_range, fmt::format("block index {} is out of bounds for axis {} with {}", *index, d,
                                                       counted(blocks, "block")));
        }
        of_blocks = {position, 1, 1};
      } else {
        const slice& range = std::get<slice>(which.items[d]);
        if (range.step.value_or(1) != 1) {
          return error(errc::out_of_range,
                       fmt::format("a slice of blocks must have step 1, axis {} has {}", d, *range.step));
        }
        PENSTOCK_ASSIGN(of_blocks, resolve_slice(range, blocks));
      }
    }
    axis_range kept{0, 1, 0};
    if (of_blocks.count != 0) {
      const auto first = static_cast<std::uint64_t>(of_blocks.start);
      const std::uint64_t last = first + of_blocks.count - 1;
      const std::uint64_t begin = axis.origin(first);
      kept = {static_cast<std::int64_t>(begin), 1, axis.origin(last) + axis.valid_length(last) - begin};
    }
    out.from.push_back(kept);
    out.axis.push_back(static_cast<std::int8_t>(d));
    out.shape.push_back(kept.count);
  }
  return out;
}

}  // namespace penstock::inline v0
