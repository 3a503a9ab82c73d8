#pragma once

// A batch that a warp appends: up to 32 sequences, one per lane, with derived values.

#include <cstdint>

#include "cuda/decode/lz_window.h"

namespace penstock::inline v0::device {

/// Up to 32 sequences: each some literals, then a match.
struct lz_batch {
  per_lane<std::uint64_t> literals_at;  ///< address of its literals
  per_lane<std::uint32_t> literals;
  per_lane<std::uint32_t> match;
  per_lane<std::uint32_t> offset;   ///< undefined if `match` is 0
  per_lane<std::uint32_t> ends;     ///< sum of literals and matches, up to and including this sequence
  std::uint32_t literals_step = 1;  ///< 0: the same byte repeated
};

/// Computes the `ends` of a batch from its other members.
PENSTOCK_DEVICE void sum_up(warp lanes, lz_batch& batch) {
  lanes.each_alone([&](int lane) { batch.ends[lane] = batch.literals[lane] + batch.match[lane]; });
  lanes.sum_up(batch.ends);
}

/// Literals may be in shared memory, which `pointer` excludes.
PENSTOCK_DEVICE const std::uint8_t* literal_pointer(std::uint64_t address) {
  return reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(address));
}

/// The bytes that the matches of a batch repeat: the `period` bytes at `begin`, cyclically, from number `phase`
/// on.
struct match_sources {
  per_lane<std::uint32_t> begin, period, phase;
  per_lane<std::uint32_t> needs;  ///< a bit for each match whose bytes are among them
};

/// A batch whose position is known. Each bit belongs to a lane.
struct placed_batch {
  std::uint32_t start = 0;          ///< position of its first byte
  per_lane<std::uint32_t> starts;   ///< positions of the literals
  per_lane<std::uint32_t> matches;  ///< positions of the matches
  std::uint32_t left = 0;           ///< matches that are not copied yet
  std::uint32_t near = 0;           ///< those of them with short offsets
  match_sources from;               ///< sources of `left`
};

/// The effect of near matches on the eight bytes before them.
struct near_windows {
  per_lane<byte_window> known;  ///< the literals before a lane's match, or the whole sequence if it is copied
  per_lane<byte_window> all;    ///< this lane's sequence and those before it
};

}  // namespace penstock::inline v0::device
