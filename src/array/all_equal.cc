#include "array/all_equal.h"

#include <array>
#include <cstring>
#include <utility>

namespace penstock::inline v0 {
namespace {

struct level {
  std::uint64_t stride;
  std::uint64_t count;
};

// A run equals its item if its first element does, and every byte equals the one an item before it.
bool run_equals(const std::byte* at, std::uint64_t count, const std::byte* item, std::uint32_t item_bytes) noexcept {
  if (std::memcmp(at, item, item_bytes) != 0) return false;
  return count == 1 || std::memcmp(at, at + item_bytes, static_cast<std::size_t>((count - 1) * item_bytes)) == 0;
}

}  // namespace

bool all_equal(const std::byte* data, const strides& steps, const extents& counts, const std::byte* item,
               std::uint32_t item_bytes) noexcept {
  if (item_bytes == 0) return true;
  // The position of elements does not matter: directions and repetitions are removed, dimensions may be sorted.
  std::array<level, kMaxRank> levels;
  std::size_t rank = 0;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] == 0) return true;
    if (counts[d] == 1 || steps[d] == 0) continue;
    if (steps[d] < 0) data += steps[d] * static_cast<std::int64_t>(counts[d] - 1);
    levels[rank++] = {static_cast<std::uint64_t>(steps[d] < 0 ? -steps[d] : steps[d]), counts[d]};
  }
  for (std::size_t i = 1; i < rank; ++i)
    for (std::size_t k = i; k > 0 && levels[k].stride < levels[k - 1].stride; --k) std::swap(levels[k], levels[k - 1]);
  std::size_t merged = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (merged != 0 && levels[i].stride == levels[merged - 1].stride * levels[merged - 1].count) {
      levels[merged - 1].count *= levels[i].count;
    } else {
      levels[merged++] = levels[i];
    }
  }
  rank = merged;

  const bool dense = rank != 0 && levels[0].stride == item_bytes;
  const std::uint64_t run = dense ? levels[0].count : 1;
  const std::size_t outer = dense ? 1 : 0;
  std::array<std::uint64_t, kMaxRank> at{};
  for (;;) {
    if (!run_equals(data, run, item, item_bytes)) return false;
    std::size_t k = outer;
    for (; k < rank; ++k) {
      if (++at[k] < levels[k].count) {
        data += levels[k].stride;
        break;
      }
      data -= levels[k].stride * (levels[k].count - 1);
      at[k] = 0;
    }
    if (k == rank) return true;
  }
}

}  // namespace penstock::inline v0
