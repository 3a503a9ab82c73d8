#include "api/copy/blocks.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace penstock::inline v0 {

std::uint64_t bytes_of(const extents& block, std::uint64_t item_bytes) noexcept {
  std::uint64_t out = item_bytes;
  for (const std::uint64_t each : block) out = saturating_mul(out, each);
  return out;
}

extents block_of(const extents& shape, const extents& unit, const extents& chunks, std::uint64_t item_bytes,
                 std::uint64_t most) {
  extents block = unit;
  const auto with = [&](std::size_t d, std::uint64_t length) {
    extents longer = block;
    longer[d] = std::min(length, std::max<std::uint64_t>(1, shape[d]));
    return longer;
  };
  for (std::size_t d = shape.size(); d-- > 0 && !chunks.empty();) {
    const std::uint64_t chunk = std::max<std::uint64_t>(1, chunks[d]);
    const std::uint64_t common = saturating_mul(chunk / std::gcd(chunk, block[d]), block[d]);
    for (const std::uint64_t length : {common, round_up(chunk, block[d])}) {
      if (bytes_of(with(d, length), item_bytes) > most) continue;
      block = with(d, length);
      break;
    }
  }
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::uint64_t times = most / std::max<std::uint64_t>(1, bytes_of(block, item_bytes));
    const extents longer = with(d, saturating_mul(block[d], std::max<std::uint64_t>(1, times)));
    const bool whole = longer[d] >= shape[d];
    block = longer;
    if (!whole) break;
  }
  return block;
}

}  // namespace penstock::inline v0
