#pragma once

// What copying matches takes, counted where the decoders run on the host.

#include <cstdint>

namespace penstock::inline v0::device {

#if !defined(__CUDACC__)
/// What the host form has done: tests hold it against what a GPU has time for, and `python -m bench.gpu.predict` makes
/// times of it.
struct lz_work {
  std::uint64_t batches = 0;
  std::uint64_t rounds = 0;        ///< as many a batch as matches depend on each other
  std::uint64_t searches = 0;      ///< for where bytes come from
  std::uint64_t turns = 0;         ///< of sixteen bytes a lane
  std::uint64_t shared_turns = 0;  ///< of these, those in which lanes copy others' matches
  std::uint64_t chains = 0;        ///< of near matches
  std::uint64_t copies = 0;        ///< of sixteen bytes a lane, straight to the target
  std::uint64_t sets = 0;          ///< of batches that warps have at the same time
  std::uint64_t chain_sets = 0;    ///< of these, those that are one chain of near matches
  std::uint64_t alone = 0;         ///< steps in which one of them works
};
inline thread_local lz_work host_lz_work;

/// Of that, what no other warp does at the same time: the longest of what warps do together, and all else.
inline thread_local lz_work host_lz_depth;
#define PENSTOCK_COUNT(what, many) (host_lz_work.what += (many))
#else
#define PENSTOCK_COUNT(what, many) static_cast<void>(0)
#endif

}  // namespace penstock::inline v0::device
