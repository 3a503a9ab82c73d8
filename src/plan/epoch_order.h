#pragma once

#include <cstdint>
#include <vector>

#include "plan/sample_space.h"

namespace penstock::inline v0 {

/// How the samples of one epoch are mixed.
struct epoch_options {
  bool shuffle = true;
  std::uint64_t seed = 0, epoch = 0;
  std::uint64_t batch = 1;        ///< samples of a batch
  std::uint64_t lanes = 1;        ///< parts of the data set that are mixed each by itself
  std::uint64_t open_blocks = 1;  ///< of each lane: from how many blocks its samples are drawn
};

/// The samples of an epoch in the order in which batches take them: batch j is the j-th `batch` of them.
///
/// Blocks come in random order, dealt out to the lanes; a lane draws from the samples of `open_blocks` blocks, and
/// opens the next one when one of them is used up. Lanes give batches in turn, so where the number of ranks divides
/// that of the lanes, and rank r takes the batches r, r + ranks, ..., no two ranks need one block (but for what is left
/// at the end of the lanes). The order depends on nothing but these options. Memory: 8 bytes a sample.
std::vector<std::uint64_t> epoch_order(const sample_space& of, const epoch_options& options);

}  // namespace penstock::inline v0
