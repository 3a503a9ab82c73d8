#pragma once

// The work of copying matches, counted when the decoders run on the host.

#include <cstdint>

namespace penstock::inline v0::device {

#if !defined(__CUDACC__)
/// The work of the host form: tests compare it with a GPU's budget, and `python -m bench.gpu.predict` computes times
/// from it.
struct lz_work {
  std::uint64_t batches = 0;
  std::uint64_t rounds = 0;        ///< per batch, the length of the longest chain of dependent matches
  std::uint64_t searches = 0;      ///< for the sources of bytes
  std::uint64_t turns = 0;         ///< of sixteen bytes per lane
  std::uint64_t shared_turns = 0;  ///< those of them in which lanes copy other lanes' matches
  std::uint64_t chains = 0;        ///< of near matches
  std::uint64_t copies = 0;        ///< of sixteen bytes per lane, directly to the target
  std::uint64_t sets = 0;          ///< sets of batches that warps process at the same time
  std::uint64_t chain_sets = 0;    ///< those of them that are one chain of near matches
  std::uint64_t alone = 0;         ///< steps in which only one warp works
  std::uint64_t matches = 0;       ///< of Deflate
  std::uint64_t wide_matches = 0;  ///< those of them that take more than 32 bits
};
inline thread_local lz_work host_lz_work;

/// The critical path of that work: the longest of what warps do at the same time, plus everything else.
inline thread_local lz_work host_lz_depth;
#define PENSTOCK_COUNT(what, many) (host_lz_work.what += (many))
#else
#define PENSTOCK_COUNT(what, many) static_cast<void>(0)
#endif

}  // namespace penstock::inline v0::device
