#include "array/contiguous_blocks.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

std::uint64_t times(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return checked_mul(a, b, out) ? out : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  return checked_add(a, b, out) ? out : std::numeric_limits<std::uint64_t>::max();
}

std::size_t inner_first(std::size_t i, std::size_t rank, storage_order order) noexcept {
  return order == storage_order::c ? rank - 1 - i : i;
}

}  // namespace

strides stored_strides(const extents& shape, std::uint32_t item_bytes, storage_order order) noexcept {
  strides out(shape.size());
  auto step = static_cast<std::int64_t>(item_bytes);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = inner_first(i, shape.size(), order);
    out[d] = step;
    step *= static_cast<std::int64_t>(shape[d]);
  }
  return out;
}

extents contiguous_block(const extents& shape, std::uint32_t item_bytes, storage_order order,
                         std::uint64_t target_bytes) noexcept {
  if (target_bytes == 0) {
    std::uint64_t all = item_bytes;
    for (const std::uint64_t length : shape) all = times(all, length);
    target_bytes = std::max(kBlockBytes, all / kMaxBlocks);
  }
  extents out(shape.size());
  std::uint64_t bytes = std::max<std::uint64_t>(item_bytes, 1);
  bool whole = true;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = inner_first(i, shape.size(), order);
    out[d] = whole ? std::clamp<std::uint64_t>(target_bytes / bytes, 1, shape[d]) : 1;
    bytes = times(bytes, out[d]);
    whole = whole && out[d] == shape[d];
  }
  return out;
}

result<part_cuts> cut_parts(std::span<const std::uint64_t> lengths, std::uint64_t block, std::uint64_t max_rests) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (lengths.size() > kMost) return error(errc::unsupported, "more than 2^32 parts");
  std::vector<std::uint64_t> rests;
  std::uint64_t cells = 0;
  for (const std::uint64_t length : lengths) {
    cells = plus(cells, length / block);
    if (length % block != 0) rests.push_back(length % block);
  }
  cells = plus(cells, rests.size());
  std::sort(rests.begin(), rests.end());
  rests.erase(std::unique(rests.begin(), rests.end()), rests.end());
  const bool halve = rests.size() > max_rests;
  if (cells > kMost) return error(errc::unsupported, "contiguous data in more than 2^32 blocks");

  part_cuts out;
  out.edges.reserve(static_cast<std::size_t>(cells) + 1);
  out.parts.reserve(static_cast<std::size_t>(cells));
  out.edges.push_back(0);
  std::uint64_t at = 0;
  for (std::size_t part = 0; part < lengths.size(); ++part) {
    if (lengths[part] > (std::uint64_t{1} << 63) - 1 - at)
      return error(errc::unsupported, "the parts have more than 2^63 elements along their dimension");
    for (std::uint64_t left = lengths[part]; left != 0;) {
      std::uint64_t take = std::min(left, block);
      if (halve && take < block)
        for (take = 1; take <= left / 2;) take *= 2;
      left -= take;
      at += take;
      out.edges.push_back(at);
      out.parts.push_back(static_cast<std::uint32_t>(part));
    }
  }
  return out;
}

result<grid_axis> block_axis(std::uint64_t length, std::uint64_t block) {
  if (length % block == 0) return grid_axis::uniform(length, block);
  PENSTOCK_ASSIGN(part_cuts cuts, cut_parts({&length, 1}, block));
  return grid_axis::edges(length, std::move(cuts.edges));
}

}  // namespace penstock::inline v0
