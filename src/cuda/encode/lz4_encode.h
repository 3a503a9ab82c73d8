#pragma once

// LZ4 blocks (lz4_Block_format.md), by one warp: 32 positions look for an earlier place with the same five bytes, the
// first that finds one has the match, and all lanes measure and write it. Greedy, and the same bytes in every run.

#include "cuda/decode/warp.h"
#include "cuda/encode/encode_parts.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kLz4HashBits = 12;
inline constexpr std::uint32_t kLz4Window = 65535;
inline constexpr std::uint32_t kLz4LastLiterals = 5;  ///< a block ends with so many at least,
inline constexpr std::uint32_t kLz4MatchMargin = 12;  ///< and its last match begins so far from its end
inline constexpr std::uint32_t kLz4LeastMatch = 4;

struct lz4_encode_shared {
  std::uint32_t places[1 << kLz4HashBits];  ///< by hash: behind the last position that had it; 0: none
};

/// The most bytes that so many encode to.
constexpr std::uint64_t lz4_bound(std::uint64_t size) { return size + size / 255 + 16; }

/// Five bytes: places that have only four in common are rarely the best.
PENSTOCK_DEVICE std::uint64_t five_bytes(const std::uint8_t* at) {
  return load_bytes(at, 4) | static_cast<std::uint64_t>(at[4]) << 32;
}
PENSTOCK_DEVICE std::uint32_t lz4_hash(std::uint64_t five) {
  return static_cast<std::uint32_t>((five << 24) * 889523592379u >> (64 - kLz4HashBits));
}

/// One part's target while it is filled. The same in all lanes.
class lz4_writer {
 public:
  PENSTOCK_DEVICE lz4_writer(std::uint8_t* target, std::uint32_t room) : target_(target), room_(room) {}

  PENSTOCK_DEVICE std::uint32_t at() const { return at_; }

  /// Writes literals and the match behind them; `match` 0: there is none. False: no room.
  PENSTOCK_DEVICE bool sequence(warp lanes, const std::uint8_t* literals, std::uint32_t count, std::uint32_t match,
                                std::uint32_t offset) {
    const std::uint32_t length = match == 0 ? 0 : match - kLz4LeastMatch;
    const std::uint32_t more_literals = count < 15 ? 0 : (count - 15) / 255 + 1;
    const std::uint32_t more_match = length < 15 ? 0 : (length - 15) / 255 + 1;
    const std::uint32_t tail = match == 0 ? 0 : 2 + more_match;
    if (room_ - at_ < 1 + more_literals || room_ - at_ - 1 - more_literals < count ||
        room_ - at_ - 1 - more_literals - count < tail)
      return false;
    std::uint8_t* const to = target_ + at_;
    lanes.each_alone([&](int lane) {
      const auto first = static_cast<std::uint32_t>(lane);
      if (lane == 0) {
        to[0] = static_cast<std::uint8_t>((count < 15 ? count : 15) << 4 | (length < 15 ? length : 15));
        if (match != 0) {
          to[1 + more_literals + count] = static_cast<std::uint8_t>(offset);
          to[2 + more_literals + count] = static_cast<std::uint8_t>(offset >> 8);
        }
      }
      put_length(to + 1, count, more_literals, first);
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t i = first; i < count; i += kLanes) to[1 + more_literals + i] = literals[i];
      put_length(to + 3 + more_literals + count, length, more_match, first);
    });
    at_ += 1 + more_literals + count + tail;
    return true;
  }

 private:
  /// The bytes of a length of 15 or more.
  PENSTOCK_DEVICE static void put_length(std::uint8_t* to, std::uint32_t length, std::uint32_t count,
                                         std::uint32_t first) {
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < count; i += kLanes)
      to[i] = static_cast<std::uint8_t>(i + 1 < count ? 255 : (length - 15) % 255);
  }

  std::uint8_t* target_;
  std::uint32_t room_, at_ = 0;
};

/// How many bytes from `at` on are those from `place` on, up to `end`.
PENSTOCK_DEVICE std::uint32_t common_bytes(const std::uint8_t* from, std::uint32_t place, std::uint32_t at,
                                           std::uint32_t end, warp lanes) {
  std::uint32_t length = 0;
  for (;;) {
    per_lane<bool> differs;
    lanes.each_alone([&](int lane) {
      const std::uint32_t i = length + static_cast<std::uint32_t>(lane);
      differs[lane] = at + i >= end || from[place + i] != from[at + i];
    });
    const std::uint32_t found = lanes.ballot(differs);
    if (found != 0) return length + static_cast<std::uint32_t>(lowest_bit(found));
    length += kLanes;
  }
}

/// Encodes `part`; how many bytes that made, or kDoesNotFit.
PENSTOCK_DEVICE std::uint32_t encode_lz4(const encode_part& part, lz4_encode_shared& shared, warp lanes) {
  const auto* const from = pointer<const std::uint8_t>(part.source);
  const std::uint32_t size = part.source_bytes;
  lz4_writer out(pointer<std::uint8_t>(part.target), part.target_bytes);
  lanes.each([&](int lane) {
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < 1u << kLz4HashBits; i += kLanes) shared.places[i] = 0;
  });
  constexpr std::uint8_t kNearDistances[] = {4, 8, 2, 1, 3, 6, 12, 16, 5, 7, 20, 24};
  const std::uint32_t last_start = size < kLz4MatchMargin + 1 ? 0 : size - kLz4MatchMargin;  // behind it
  std::uint32_t at = 0, literals = 0;                                                        // where those begin
  while (at < last_start) {
    per_lane<std::uint32_t> hashes, places;
    per_lane<bool> found;
    lanes.each([&](int lane) {
      const std::uint32_t position = at + static_cast<std::uint32_t>(lane);
      found[lane] = false;
      places[lane] = hashes[lane] = 0;
      if (position >= last_start) return;
      const std::uint64_t five = five_bytes(from + position);
      hashes[lane] = lz4_hash(five);
      const std::uint32_t place = shared.places[hashes[lane]];
      if (place != 0 && position - (place - 1) <= kLz4Window) {
        places[lane] = place - 1;
        found[lane] = five_bytes(from + place - 1) == five;
      }
      // The table has nothing of these 32 positions yet: distances that items of arrays have are tried.
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t i = 0; i < sizeof kNearDistances && !found[lane]; ++i) {
        if (kNearDistances[i] > position) continue;
        places[lane] = position - kNearDistances[i];
        found[lane] = five_bytes(from + places[lane]) == five;
      }
    });
    const std::uint32_t finders = lanes.ballot(found);
    const int first = finders == 0 ? kLanes - 1 : lowest_bit(finders);
    const std::uint32_t match = at + static_cast<std::uint32_t>(first);
    lanes.each([&](int lane) {  // whichever lane is first: the last position stays
      const std::uint32_t position = at + static_cast<std::uint32_t>(lane);
      if (lane <= first && position < last_start) keep_highest(shared.places[hashes[lane]], position + 1);
    });
    if (finders == 0) {
      at += kLanes;
      continue;
    }
    const std::uint32_t place = lanes.from(places, first);
    const std::uint32_t length = common_bytes(from, place, match, size - kLz4LastLiterals, lanes);
    if (!out.sequence(lanes, from + literals, match - literals, length, match - place)) return kDoesNotFit;
    at = literals = match + length;
    lanes.each([&](int lane) {  // positions at the match's end: what follows often repeats them
      const std::uint32_t position = at - 1 - static_cast<std::uint32_t>(lane);
      if (position > match && position < at && position < last_start)
        keep_highest(shared.places[lz4_hash(five_bytes(from + position))], position + 1);
    });
  }
  if (!out.sequence(lanes, from + literals, size - literals, 0, 0)) return kDoesNotFit;
  return out.at();
}

/// What one warp does: part `turn`.
PENSTOCK_DEVICE void encode_lz4_warp(const encode_wave& wave, std::uint32_t turn, lz4_encode_shared& shared,
                                     warp lanes) {
  const std::uint32_t made = encode_lz4(pointer<const encode_part>(wave.parts)[turn], shared, lanes);
  lanes.once_alone([&] { pointer<std::uint32_t>(wave.encoded_bytes)[turn] = made; });
}

}  // namespace penstock::inline v0::device
