#pragma once

// The interface between the lane that reads a stream and the lanes that write its content.

#include "cuda/decode/lz_append_batch.h"

namespace penstock::inline v0::device {

/// Sequences that one lane has read, in shared memory. `At` has the position of literals, relative to a common base.
template <class At>
struct lz_found {
  At literals_at[kLanes];
  std::uint32_t literals[kLanes];
  std::uint32_t match[kLanes];
  std::uint32_t offset[kLanes];  ///< undefined if `match` is 0
  std::uint32_t count;           ///< at most kLanes
};

/// Appends all that was found; `base` is the address from which literals count. False: a sequence exceeds the target or
/// reaches before its frame. If nothing was found, this has no barrier: the caller has one before the next batch is
/// read.
template <class At>
PENSTOCK_DEVICE bool append_found(warp lanes, lz_output& out, const lz_found<At>& found, std::uint64_t base) {
  const std::uint32_t count = found.count;
  for (std::uint32_t i = 0; i < count;) {
    lz_batch batch;
    lanes.each_alone([&](int lane) {
      const std::uint32_t from = i + static_cast<std::uint32_t>(lane);
      const bool mine = from < count;
      batch.literals[lane] = mine ? found.literals[from] : 0;
      batch.match[lane] = mine ? found.match[from] : 0;
      batch.offset[lane] = mine ? found.offset[from] : 0;
      batch.literals_at[lane] = base + (mine ? found.literals_at[from] : 0);
    });
    sum_up(lanes, batch);
    const std::uint32_t taken = out.append(lanes, batch, count - i);
    if (taken == 0) return false;
    i += taken;
  }
  return true;
}

}  // namespace penstock::inline v0::device
