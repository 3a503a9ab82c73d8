#include "api/loader/tile_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

result<> check(const extents& shape, const extents& tile, const std::vector<std::uint64_t>& edges, std::size_t axis) {
  if (tile.size() != shape.size() || std::find(tile.begin(), tile.end(), 0U) != tile.end())
    return error(errc::invalid_argument,
                 fmt::format("tiles of shape {} do not fit an array of shape {}", to_string(tile), to_string(shape)));
  if (edges.empty()) return {};
  if (axis >= shape.size())
    return error(errc::invalid_argument,
                 fmt::format("an array of {} has no axis {}", counted(shape.size(), "dimension"), axis));
  const bool ascending = std::adjacent_find(edges.begin(), edges.end(), std::greater_equal<>()) == edges.end();
  if (!ascending || edges.front() != 0 || edges.back() != shape[axis]) {
    return error(errc::invalid_argument,
                 fmt::format("edges of tiles ascend from 0 to {}, the length of axis {}", shape[axis], axis));
  }
  return {};
}

std::uint64_t longest_part(const std::vector<std::uint64_t>& edges) {
  std::uint64_t out = 0;
  for (std::size_t i = 1; i < edges.size(); ++i) out = std::max(out, edges[i] - edges[i - 1]);
  return out;
}

}  // namespace

result<tile_walk> tile_walk::make(const array& from, extents tile, std::vector<std::uint64_t> edges, std::size_t axis) {
  tile_walk out;
  out.shape_ = from.shape();
  out.tile_ = std::move(tile);
  if (out.tile_.empty()) out.tile_ = from.shards() == nullptr ? from.chunks() : *from.shards();
  if (auto checked = check(out.shape_, out.tile_, edges, axis); !checked.ok())
    return std::move(checked).error().note("array '" + from.uri() + "'");
  out.edges_ = std::move(edges);
  out.axis_ = axis;
  for (std::size_t d = 0; d < out.shape_.size(); ++d) {
    const bool listed = d == axis && !out.edges_.empty();
    if (listed) out.tile_[d] = longest_part(out.edges_);
    out.grid_.push_back(listed ? out.edges_.size() - 1 : ceil_div(out.shape_[d], out.tile_[d]));
    out.tiles_ = saturating_mul(out.tiles_, out.grid_[d]);
  }
  out.next_ = extents(out.grid_.size());
  return out;
}

tile_walk::place tile_walk::next() {
  place out;
  out.index = next_;
  for (std::size_t d = 0; d < next_.size(); ++d) {
    const bool listed = d == axis_ && !edges_.empty();
    const std::uint64_t low = listed ? edges_[next_[d]] : next_[d] * tile_[d];
    const std::uint64_t end = listed ? edges_[next_[d] + 1] : low + std::min(tile_[d], shape_[d] - low);
    out.where.origin.push_back(low);
    out.where.size.push_back(end - low);
  }
  ++begun_;
  for (std::size_t d = next_.size(); d-- > 0;) {
    if (++next_[d] < grid_[d]) break;
    next_[d] = 0;
  }
  return out;
}

resolved_selection tile_walk::place::which() const {
  resolved_selection out;
  for (std::size_t d = 0; d < where.size.size(); ++d) {
    out.from.push_back({static_cast<std::int64_t>(where.origin[d]), 1, where.size[d]});
    out.axis.push_back(static_cast<std::int8_t>(d));
  }
  out.shape = where.size;
  return out;
}

}  // namespace penstock::inline v0
