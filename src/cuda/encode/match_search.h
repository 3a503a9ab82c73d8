#pragma once

// The greedy search for matches that the encoders share: 32 lanes search, each for its position, for an earlier
// position with the same five bytes (six or seven if it is far away). The first lane that finds one has the match, and
// all lanes measure its length. The same matches in every run.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kMatchHashBits = 12;
inline constexpr std::uint32_t kLeastMatchSearched = 5;
inline constexpr std::uint32_t kMatchHistory = 4096;

struct match_table {
  std::uint32_t places[1 << kMatchHashBits];  ///< by hash: one more than the last position with that hash; 0: none
};

/// Five bytes: positions that have only four in common are rarely the best.
PENSTOCK_DEVICE std::uint64_t five_bytes(const std::uint8_t* at) {
  const std::uint32_t low = at[0] | static_cast<std::uint32_t>(at[1]) << 8 | static_cast<std::uint32_t>(at[2]) << 16 |
                            static_cast<std::uint32_t>(at[3]) << 24;
  return low | static_cast<std::uint64_t>(at[4]) << 32;
}
/// Its highest bits are the index in the table.
PENSTOCK_DEVICE std::uint32_t match_hash(std::uint64_t five) {
  return static_cast<std::uint32_t>((five << 24) * 889523592379u >> 32);
}

/// The `length` bytes at `at` are equal to the bytes at `place`, which is before `at`. Positions count from the first
/// byte searched.
struct found_match {
  std::uint32_t at, place, length;  ///< length 0: no more matches
};

/// The length of the match between the bytes at `at` and those at `place`; ends before `end`.
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

class match_search {
 public:
  /// Matches in `from` that begin in [begin, last_start) and end at `end` or before; five bytes are readable from each
  /// position before `last_start`. Their places may be before `begin`: the last kMatchHistory positions there are
  /// looked up too. No offset is larger than `window`.
  PENSTOCK_DEVICE match_search(const std::uint8_t* from, std::uint32_t begin, std::uint32_t last_start,
                               std::uint32_t end, std::uint32_t window, match_table& table, warp lanes)
      : from_(from), last_start_(last_start), end_(end), window_(window), at_(begin), table_(table) {
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < 1u << kMatchHashBits; i += kLanes) table.places[i] = 0;
    });
    if (begin == 0) return;
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < kMatchHistory && i < begin; i += kLanes) keep(begin - 1 - i);
    });
  }

  /// The next match. Every lane tries the offset `recent` first; 0: no such offset.
  PENSTOCK_DEVICE found_match next(std::uint32_t recent, warp lanes) {
    while (at_ < last_start_) {
      per_lane<position_state> own;
      lanes.each([&](int lane) { own[lane] = look_up(at_ + static_cast<std::uint32_t>(lane), recent); });
      std::uint32_t finders = finders_among(own, lanes);
      if ((finders & 1) == 0) {  // an earlier lane may find a near match
        look_nearby(own, lanes);
        finders = finders_among(own, lanes);
      }
      const int first = finders == 0 ? kLanes - 1 : lowest_bit(finders);
      lanes.each([&](int lane) {
        const std::uint32_t position = at_ + static_cast<std::uint32_t>(lane);
        if (lane <= first && position < last_start_) keep_highest(entry_of(own[lane].hash), position + 1);
      });
      if (finders == 0) {
        at_ += kLanes;
        continue;
      }
      per_lane<std::uint32_t> places;
      lanes.each_alone([&](int lane) { places[lane] = own[lane].place; });
      const std::uint32_t match = at_ + static_cast<std::uint32_t>(first), place = lanes.from(places, first);
      const std::uint32_t length = common_bytes(from_, place, match, end_, lanes);
      at_ = match + length;
      lanes.each([&](int lane) {  // positions at the match's end: the next match often starts there
        const std::uint32_t position = at_ - 1 - static_cast<std::uint32_t>(lane);
        if (position > match && position < at_) keep(position);
      });
      return {match, place, length};
    }
    return {end_, 0, 0};
  }

 private:
  /// The values that a lane has read at its position.
  struct position_state {
    std::uint64_t five;
    std::uint32_t hash, place;
    bool found;
  };

  /// Adds `position` to the table. The last position with its hash remains, whichever lane is first.
  PENSTOCK_DEVICE void keep(std::uint32_t position) {
    if (position < last_start_) keep_highest(entry_of(match_hash(five_bytes(from_ + position))), position + 1);
  }
  PENSTOCK_DEVICE std::uint32_t& entry_of(std::uint32_t hash) const {
    return table_.places[hash >> (32 - kMatchHashBits)];
  }

  /// The matches of `position` at the offset `recent` and in the table.
  PENSTOCK_DEVICE position_state look_up(std::uint32_t position, std::uint32_t recent) const {
    position_state own{0, 0, 0, false};
    if (position >= last_start_) return own;
    own.five = five_bytes(from_ + position);
    own.hash = match_hash(own.five);
    if (recent != 0 && recent <= position) {
      own.place = position - recent;
      own.found = five_bytes(from_ + own.place) == own.five;
    }
    const std::uint32_t kept = entry_of(own.hash);
    if (!own.found && kept != 0 && position - (kept - 1) <= window_) {
      own.place = kept - 1;
      own.found = five_bytes(from_ + own.place) == own.five && is_long_enough(position, own.place);
    }
    return own;
  }

  /// The table does not contain these 32 positions yet, so distances that are typical for the items of arrays are
  /// tried. The lanes have the hashes of these positions and of those before; only where two hashes are equal are bytes
  /// read.
  PENSTOCK_DEVICE void look_nearby(per_lane<position_state>& own, warp lanes) const {
    constexpr std::uint32_t kDistances[] = {4, 8, 2, 1, 3, 6, 12, 16, 5, 7, 20, 24};
    per_lane<std::uint32_t> before, distances;
    lanes.each_alone([&](int lane) {
      const std::uint32_t position = at_ + static_cast<std::uint32_t>(lane);
      before[lane] = position < kLanes ? 0 : match_hash(five_bytes(from_ + position - kLanes));
      distances[lane] = 0;
    });
    for (const std::uint32_t distance : kDistances) {
      per_lane<std::uint32_t> given;
      per_lane<int> which;
      lanes.each_alone([&](int lane) {
        const auto shift = static_cast<int>(distance);
        given[lane] = lane < kLanes - shift ? own[lane].hash : before[lane];
        which[lane] = (lane - shift) & (kLanes - 1);
      });
      const per_lane<std::uint32_t> theirs = lanes.pick(given, which);
      lanes.each_alone([&](int lane) {
        const bool equal = theirs[lane] == own[lane].hash && at_ + static_cast<std::uint32_t>(lane) >= distance;
        if (distances[lane] == 0 && equal) distances[lane] = distance;
      });
    }
    lanes.each_alone([&](int lane) {
      const std::uint32_t position = at_ + static_cast<std::uint32_t>(lane), distance = distances[lane];
      if (own[lane].found || distance == 0 || position >= last_start_) return;
      own[lane].place = position - distance;
      own[lane].found = five_bytes(from_ + own[lane].place) == own[lane].five;
    });
  }

  PENSTOCK_DEVICE static std::uint32_t finders_among(const per_lane<position_state>& own, warp lanes) {
    per_lane<bool> found;
    lanes.each_alone([&](int lane) { found[lane] = own[lane].found; });
    return lanes.ballot(found);
  }

  /// The gain of a match of five bytes: the farther away it is, the more bits its offset needs.
  PENSTOCK_DEVICE bool is_long_enough(std::uint32_t position, std::uint32_t place) const {
    const std::uint32_t offset = position - place, least = offset < 1024 ? 5 : offset < 16384 ? 6 : 7;
    bool equal = position + least <= end_;
    for (std::uint32_t i = 5; i < least && equal; ++i) equal = from_[place + i] == from_[position + i];
    return equal;
  }

  const std::uint8_t* from_;
  std::uint32_t last_start_, end_, window_, at_;
  match_table& table_;
};

}  // namespace penstock::inline v0::device
