#pragma once

// What a warp appends at a time: up to 32 sequences, one a lane, and what is known of them.

#include <cstdint>

#include "cuda/decode/lz_window.h"

namespace penstock::inline v0::device {

/// Up to 32 sequences: each some literals, then a match.
struct lz_batch {
  per_lane<std::uint64_t> literals_at;  ///< address of its literals
  per_lane<std::uint32_t> literals;
  per_lane<std::uint32_t> match;
  per_lane<std::uint32_t> offset;   ///< of no meaning where `match` is 0
  per_lane<std::uint32_t> ends;     ///< literals and matches, up to this sequence's
  std::uint32_t literals_step = 1;  ///< 0: the same byte again and again
};

/// Makes the `ends` of a batch whose other members are known.
PENSTOCK_DEVICE void sum_up(warp lanes, lz_batch& batch) {
  lanes.each_alone([&](int lane) { batch.ends[lane] = batch.literals[lane] + batch.match[lane]; });
  lanes.sum_up(batch.ends);
}

/// Literals may be in shared memory, which `pointer` excludes.
PENSTOCK_DEVICE const std::uint8_t* literal_pointer(std::uint64_t address) {
  return reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(address));
}

/// The bytes that the matches of a batch repeat: the `period` bytes at `begin` again and again, from the one of the
/// number `phase` on.
struct match_sources {
  per_lane<std::uint32_t> begin, period, phase;
  per_lane<std::uint32_t> needs;  ///< a bit for each match of which there are bytes among them
};

/// A batch whose place is known. All bits are a lane's.
struct placed_batch {
  std::uint32_t start = 0;          ///< of its first byte
  per_lane<std::uint32_t> starts;   ///< of the literals
  per_lane<std::uint32_t> matches;  ///< of the matches
  std::uint32_t left = 0;           ///< matches that are not copied yet
  std::uint32_t near = 0;           ///< of those, the ones of short offsets
  match_sources from;               ///< of those
};

/// What near matches do to the eight bytes in front of them.
struct near_windows {
  per_lane<byte_window> known;  ///< the literals in front of a lane's match, or all of a sequence that is copied
  per_lane<byte_window> all;    ///< this lane's sequence and those before it
};

}  // namespace penstock::inline v0::device
