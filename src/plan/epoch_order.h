#pragma once

#include <cstdint>
#include <vector>

#include "plan/sample_space.h"

namespace penstock::inline v0 {

/// How the samples of one epoch are shuffled.
struct epoch_options {
  bool shuffle = true;
  std::uint64_t seed = 0, epoch = 0;
  std::uint64_t batch = 1;        ///< samples of a batch
  std::uint64_t lanes = 1;        ///< parts of the data set that are shuffled separately
  std::uint64_t open_blocks = 1;  ///< for each lane: the number of blocks that its samples are drawn from
};

/// The samples of an epoch in the order of the batches: batch j is the j-th `batch` of them.
///
/// Blocks are put into random order and distributed to the lanes; a lane draws from the samples of `open_blocks`
/// blocks, and opens the next one when one of them is used up. Lanes provide batches in turn. If the number of ranks
/// divides that of the lanes, and rank r takes the batches r, r + ranks, ..., no two ranks therefore need the same
/// block (except at the end of the lanes). The order depends only on these options. Memory: 8 bytes a sample.
std::vector<std::uint64_t> epoch_order(const sample_space& of, const epoch_options& options);

}  // namespace penstock::inline v0
