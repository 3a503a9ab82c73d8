#pragma once

// How `lz_output` appends a batch of sequences: the literals of all lanes first, then each match as soon as the bytes
// that it repeats are written.

#include <cstdint>

#include "cuda/decode/lz_output.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kNearOffset = 8;                       ///< matches with at most this offset are near
inline constexpr std::uint32_t kLongLiterals = 32, kLongMatch = 128;  ///< longer ones are copied by all lanes

/// Writes `count` bytes to the ring at `to`, where `load(i)` is the i-th: one of `shares` lanes writes its share of the
/// words, `kAtOnce` at a time. All their bytes are loaded before the first is written, so that the loads overlap.
template <std::uint32_t kAtOnce, class Load>
PENSTOCK_DEVICE void lz_output::put(std::uint32_t to, std::uint32_t count, std::uint32_t share, std::uint32_t shares,
                                    Load&& load) {
  const std::uint32_t lead = slot(to) & 3u, words = (lead + count + 3) / 4, ring = slot(to) - lead;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t w = share; w < words; w += kAtOnce * shares) {
    std::uint32_t word[kAtOnce] = {};
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      for (std::uint32_t b = 0; b < 4; ++b) {
        const std::uint32_t i = 4 * (w + k * shares) - lead + b;  // before the first byte, it exceeds any count
        if (i < count) word[k] |= static_cast<std::uint32_t>(load(i)) << (8 * b);
      }
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      const std::uint32_t first = 4 * (w + k * shares) - lead;
      std::uint8_t* const at = ring_at(ring + first + lead);
      if (first < count && count - first >= 4) {
        store_word(at, word[k]);
      } else {
        for (std::uint32_t b = 0; b < 4; ++b)
          if (first + b < count) at[b] = static_cast<std::uint8_t>(word[k] >> (8 * b));
      }
    }
  }
}

PENSTOCK_DEVICE void lz_output::place_literals(warp lanes, const lz_batch& batch,
                                               const per_lane<std::uint32_t>& starts) {
  per_lane<bool> is_long;
  lanes.each_alone([&](int lane) {
    const std::uint32_t count = batch.literals[lane];
    is_long[lane] = count > kLongLiterals;
    if (is_long[lane]) return;
    const auto* const from = literal_pointer(batch.literals_at[lane]);
    put<2>(starts[lane], count, 0, 1, [&](std::uint32_t i) { return from[i * batch.literals_step]; });
  });
  const std::uint32_t long_runs = lanes.ballot(is_long);
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t left = long_runs; left != 0; left &= left - 1) {
    const int which = lowest_bit(left);
    const auto* const from = literal_pointer(lanes.from(batch.literals_at, which));
    const std::uint32_t count = lanes.from(batch.literals, which), start = lanes.from(starts, which);
    lanes.each_alone([&](int lane) {
      put<1>(start, count, static_cast<std::uint32_t>(lane), kLanes,
             [&](std::uint32_t i) { return from[i * batch.literals_step]; });
    });
  }
  lanes.sync();
}

/// Word `k` of the ring from the slot `from` on, for the bytes `first` to `end` after it; if it has none of them, a
/// word that has. Another warp may be writing to other words, and one superfluous load costs less than a branch.
PENSTOCK_DEVICE std::uint32_t lz_output::ring_word(std::uint32_t from, std::uint32_t k, std::uint32_t first,
                                                   std::uint32_t end) const {
  std::uint32_t at = 4 * k;
  if (is_shared_) {
    const std::uint32_t least = first & ~3u, most = (end - 1) & ~3u;
    if (at < least) at = least;
    if (at > most) at = most;
  }
  return load_word(ring_at(from + at));
}

/// The bytes `first` to `end` (1 to 16) of the sixteen from `position` on; the others are undefined. Words are loaded
/// as a whole.
PENSTOCK_DEVICE sixteen_bytes lz_output::load(std::uint32_t position, std::uint32_t first, std::uint32_t end) const {
  const std::uint32_t shift = slot(position) & 3u, wanted = position + first;
  std::uint32_t words[5] = {};
  if (wanted >= ring_low_) {
    const std::uint32_t from = slot(position) - shift;
    for (std::uint32_t k = 0; k < 5; ++k) words[k] = ring_word(from, k, first + shift, end + shift);
  } else if (wanted >= 20) {
    const std::uint8_t* const from = target_ + (position - shift);
    for (std::uint32_t k = 0; k < 5; ++k) words[k] = load_word(from + 4 * k);
  } else {  // a word may begin before the target
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < end; ++i) {
      const std::uint32_t to = i + shift, byte = static_cast<std::uint32_t>(target_[position + i]) << (8 * (to & 3u));
      for (std::uint32_t k = 0; k < 5; ++k) words[k] |= to / 4 == k ? byte : 0;
    }
  }
  sixteen_bytes out;
  for (int k = 0; k < 4; ++k) out.word[k] = shift_in(words[k + 1], words[k], 32 - 8 * static_cast<int>(shift));
  return out;
}

/// Of `count` bytes that repeat the `period` bytes at `begin` from number `phase` on, returns those from `16 share -
/// lead` on; bytes before the first and after the last are undefined.
PENSTOCK_DEVICE sixteen_bytes lz_output::repeated(std::uint32_t begin, std::uint32_t period, std::uint32_t phase,
                                                  std::uint32_t count, std::uint32_t lead, std::uint32_t share) const {
  const std::uint32_t skipped = share == 0 ? lead : 0, first = 16 * share + skipped - lead;
  const std::uint32_t left = skipped + count - first, end = left < 16 ? left : 16;
  std::uint32_t place = phase + first;
  if (place >= period) place %= period;
  sixteen_bytes out = {};
  std::uint32_t from = skipped,
                start = skipped - place;  // in the period: modulo 2^32 if it is before the share
  do {
    const std::uint32_t behind = start + period;
    const sixteen_bytes more = load(begin - start, from, behind < end ? behind : end);
    for (std::uint32_t k = 0; k < 4; ++k) {  // from `from` on
      const std::uint32_t kept = from > 4 * k ? from - 4 * k : 0;
      const std::uint32_t mask = shift_left(0xffffffffu, static_cast<int>(8 * (kept < 4 ? kept : 4)));
      out.word[k] = (out.word[k] & ~mask) | (more.word[k] & mask);
    }
    from = start = behind;
  } while (from < end);
  return out;
}

/// Writes the result of `repeated` for `count` bytes at `to`.
PENSTOCK_DEVICE void lz_output::write(std::uint32_t to, std::uint32_t count, std::uint32_t share,
                                      const sixteen_bytes& bytes) {
  const std::uint32_t lead = slot(to) & 3u, front = slot(to) - lead + 16 * share;
  const std::uint32_t first = share == 0 ? lead : 0, left = lead + count - 16 * share, end = left < 16 ? left : 16;
  std::uint32_t last = 0;
  for (std::uint32_t k = 0; k < 4; ++k) {
    if (4 * k >= first && 4 * k + 4 <= end) store_word(ring_at(front + 4 * k), bytes.word[k]);
    if (end / 4 == k) last = bytes.word[k];
  }
  const auto some = [&](std::uint32_t word, std::uint32_t value, std::uint32_t begin, std::uint32_t behind) {
    std::uint8_t* const at = ring_at(front + word);
    for (std::uint32_t b = 0; b < 4; ++b)
      if (b >= begin && b < behind) at[b] = static_cast<std::uint8_t>(value >> (8 * b));
  };
  if (first != 0) some(0, bytes.word[0], first, end);
  if (end % 4 != 0 && (end > 4 || first == 0)) some(end & ~3u, last, 0, end % 4);
}

/// Each lane searches the ascending values of all lanes: how many are at most its key. The last value is more.
struct lane_search {
  const per_lane<std::uint32_t>& values;
  per_lane<std::uint32_t> keys;
  per_lane<int> found;

  /// Called with half of the lanes as `step`, and so on down to 1. Interleaving two searches halves the waiting.
  PENSTOCK_DEVICE void go(warp lanes, int step) {
    per_lane<int> asked;
    lanes.each_alone([&](int lane) {
      if (step == kLanes / 2) found[lane] = 0;
      asked[lane] = found[lane] + step - 1;
    });
    const per_lane<std::uint32_t> value = lanes.pick(values, asked);
    lanes.each_alone([&](int lane) {
      if (value[lane] <= keys[lane]) found[lane] += step;
    });
  }
};

/// The bytes that a match repeats were often written by an earlier match: they are then taken from that match's source,
/// so that chains of matches become short. All matches do so at once, and again as long as one does. Each round follows
/// the sources of the round before, so it halves the chains.
PENSTOCK_DEVICE void lz_output::find_sources(warp lanes, const lz_batch& batch, placed_batch& placed) const {
  match_sources& found = placed.from;
  const per_lane<std::uint32_t>& matches = placed.matches;
  const std::uint32_t start = placed.start, left = placed.left;
  lanes.each_alone([&](int lane) {
    const std::uint32_t offset = batch.offset[lane], length = batch.match[lane];
    found.needs[lane] = left;
    found.phase[lane] = 0;
    found.begin[lane] = matches[lane] - offset;
    found.period[lane] = offset < length ? offset : length;
  });
  if ((left & ~placed.near) == 0) return;  // all are a chain, or there are none
  per_lane<std::uint32_t> ends;
  lane_search first{ends, {}, {}}, behind{matches, {}, {}};
  per_lane<bool> moved;
  lanes.each_alone([&](int lane) {
    found.needs[lane] = 0;
    ends[lane] = start + batch.ends[lane];
    moved[lane] = (left >> lane & 1) != 0 && found.begin[lane] + found.period[lane] > start;
  });
  while (lanes.ballot(moved) != 0) {
    PENSTOCK_COUNT(searches, 1);
    lanes.each_alone([&](int lane) { behind.keys[lane] = found.begin[lane] + found.period[lane] - 1; });
    first.keys = found.begin;
    for (int step = kLanes / 2; step > 0; step /= 2) {
      first.go(lanes, step);
      behind.go(lanes, step);
    }
    const per_lane<std::uint32_t> to = lanes.pick(matches, first.found), length = lanes.pick(batch.match, first.found),
                                  from = lanes.pick(found.begin, first.found),
                                  period = lanes.pick(found.period, first.found),
                                  phase = lanes.pick(found.phase, first.found);
    lanes.each_alone([&](int lane) {
      const bool inside = (left >> lane & 1) != 0 && behind.keys[lane] >= start;
      found.needs[lane] = inside ? ((1u << behind.found[lane]) - 1) & ~((1u << first.found[lane]) - 1) & left : 0;
      const std::uint32_t begin = found.begin[lane], count = found.period[lane];
      std::uint32_t place = begin - to[lane];  // undefined if the source begins before the match
      moved[lane] = found.needs[lane] != 0 && begin >= to[lane] && place + count <= length[lane];
      if (!moved[lane]) return;
      place += phase[lane];
      if (place >= period[lane]) place %= period[lane];
      if (place + count <= period[lane]) {
        found.begin[lane] = from[lane] + place;
      } else if (count == batch.match[lane] && found.phase[lane] == 0) {
        found.begin[lane] = from[lane];
        found.period[lane] = period[lane];
        found.phase[lane] = place;
      } else {
        moved[lane] = false;  // it would repeat its own bytes
        return;
      }
      moved[lane] = found.begin[lane] + found.period[lane] > start;
      if (!moved[lane]) found.needs[lane] = 0;  // no bytes of this batch
    });
  }
}

/// Loads are of whole words, and `find_windows` reads the words of the eight bytes before a chain.
PENSTOCK_DEVICE std::uint32_t lz_output::reaching_out(warp lanes, const placed_batch& placed) const {
  const std::uint32_t skew = slot(at_) & 3u, history = at_ < skew ? 0 : at_ - skew;  // whole words before all batches
  per_lane<bool> outside;
  lanes.each_alone([&](int lane) {
    const std::uint32_t begin = placed.from.begin[lane], end = begin + placed.from.period[lane];
    const bool inside = begin >= placed.start + (slot(begin) & 3u) || end <= history;
    outside[lane] = !inside || ((placed.near >> lane & 1) != 0 && placed.starts[lane] - placed.start < 11);
  });
  return lanes.ballot(outside) & placed.left;
}

/// Copies the matches of the lanes `ready`: all bytes that they repeat are written, or their own. Sixteen bytes per
/// lane: those of its own match if all are short; otherwise all lanes share the bytes of all.
PENSTOCK_DEVICE void lz_output::copy_ready(warp lanes, const lz_batch& batch, const placed_batch& placed,
                                           std::uint32_t ready) {
  const per_lane<std::uint32_t>& matches = placed.matches;
  const match_sources& from = placed.from;
  per_lane<std::uint32_t> shares, ends;
  per_lane<bool> is_long;
  lanes.each_alone([&](int lane) {
    const bool mine = (ready >> lane & 1) != 0;
    shares[lane] = ends[lane] = mine ? ((slot(matches[lane]) & 3u) + batch.match[lane] + 15) / 16 : 0;
    is_long[lane] = shares[lane] > 1;
  });
  const bool shared = lanes.ballot(is_long) != 0;
  if (shared) lanes.sum_up(ends);
  const std::uint32_t all = shared ? lanes.from(ends, kLanes - 1) : 1;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t turn = 0; turn < all; turn += kLanes) {
    PENSTOCK_COUNT(turns, 1);
    PENSTOCK_COUNT(shared_turns, shared ? 1 : 0);
    per_lane<int> which;
    per_lane<std::uint32_t> share;
    lanes.each_alone([&](int lane) {
      which[lane] = lane;
      share[lane] = shared ? turn + static_cast<std::uint32_t>(lane) : 0;
    });
    if (shared) {
      lane_search search{ends, share, {}};
      for (int step = kLanes / 2; step > 0; step /= 2) search.go(lanes, step);
      which = search.found;
      const per_lane<std::uint32_t> end = lanes.pick(ends, which), own = lanes.pick(shares, which);
      lanes.each_alone([&](int lane) { share[lane] -= end[lane] - own[lane]; });
    }
    const per_lane<std::uint32_t> targets = lanes.pick(matches, which), begins = lanes.pick(from.begin, which),
                                  periods = lanes.pick(from.period, which), phases = lanes.pick(from.phase, which);
    per_lane<std::uint32_t> counts = lanes.pick(batch.match, which);
    per_lane<sixteen_bytes> words;
    lanes.each_alone([&](int lane) {
      const bool works = shared ? turn + static_cast<std::uint32_t>(lane) < all : (ready >> lane & 1) != 0;
      if (!works) counts[lane] = 0;
      if (works)
        words[lane] =
            repeated(begins[lane], periods[lane], phases[lane], counts[lane], slot(targets[lane]) & 3u, share[lane]);
    });
    lanes.sync();  // words contain bytes of other matches, too
    lanes.each([&](int lane) {
      if (counts[lane] != 0) write(targets[lane], counts[lane], share[lane], words[lane]);
    });
  }
}

/// Writes `length` bytes at `position` that repeat the last `offset` (1 to 8) bytes of `before`.
PENSTOCK_DEVICE void lz_output::repeat(std::uint32_t position, std::uint32_t offset, std::uint32_t length,
                                       std::uint64_t before) {
  std::uint64_t pattern = before >> (64 - 8 * offset);
  std::uint32_t to = slot(position);
  if ((offset & (offset - 1)) != 0) {
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0, shift = 0; i < length; ++i) {
      *ring_at(to + i) = static_cast<std::uint8_t>(pattern >> shift);
      shift = shift + 8 == 8 * offset ? 0 : shift + 8;
    }
    return;
  }
  for (std::uint32_t width = 8 * offset; width < 64; width *= 2) pattern |= pattern << width;
  // Rotated so that the byte for a slot is at the slot's number modulo eight.
  const std::uint32_t turn = 8 * (to & 7u);
  pattern = pattern << turn | (pattern >> 1) >> (63 - turn);
  std::uint32_t left = length;
  PENSTOCK_SMALL_LOOP
  for (; left > 0 && (to & 3u) != 0; --left, to = (to + 1) & (ring_bytes_ - 1))
    ring_[to] = static_cast<std::uint8_t>(pattern >> (8 * (to & 7u)));
  PENSTOCK_SMALL_LOOP
  for (; left >= 4; left -= 4, to = (to + 4) & (ring_bytes_ - 1))
    store_word(ring_ + to, static_cast<std::uint32_t>((to & 4u) != 0 ? pattern >> 32 : pattern));
  PENSTOCK_SMALL_LOOP
  for (; left > 0; --left, to = (to + 1) & (ring_bytes_ - 1))
    ring_[to] = static_cast<std::uint8_t>(pattern >> (8 * (to & 7u)));
}

PENSTOCK_DEVICE std::uint64_t lz_output::last_bytes(std::uint32_t position, std::uint32_t count) const {
  const std::uint32_t start = slot(position - 8), skew = start & 3u, word = start - skew;
  std::uint32_t words[3];
  for (std::uint32_t k = 0; k < 3; ++k) words[k] = ring_word(word, k, skew + 8 - (count < 8 ? count : 8), skew + 8);
  const std::uint64_t low = words[0] | static_cast<std::uint64_t>(words[1]) << 32, high = words[2];
  return low >> (8 * skew) | (high << 1) << (63 - 8 * skew);
}

PENSTOCK_DEVICE near_windows lz_output::find_windows(warp lanes, const lz_batch& batch, const placed_batch& placed,
                                                     std::uint32_t chain, std::uint32_t end) const {
  const auto first = static_cast<std::uint32_t>(lowest_bit(chain));
  near_windows found;
  lanes.each_alone([&](int lane) {
    const auto i = static_cast<std::uint32_t>(lane);
    const bool copied = (chain >> i & 1) == 0;
    found.known[lane] = found.all[lane] = {0, byte_window::kSame};
    if (i < first || i >= end) return;
    const std::uint32_t length = batch.match[lane], count = batch.literals[lane] + (copied ? length : 0);
    found.known[lane] = byte_window::of_known(last_bytes(placed.starts[lane] + count, count), count);
    found.all[lane] = found.known[lane];
    if (!copied) found.all[lane] = byte_window::of_match(batch.offset[lane], length).after(found.known[lane]);
  });
  lanes.scan(found.all, [](const byte_window& before, const byte_window& own) { return own.after(before); });
  return found;
}

PENSTOCK_DEVICE void lz_output::copy_chain(warp lanes, const lz_batch& batch, const placed_batch& placed,
                                           std::uint32_t chain, const near_windows& windows, std::uint64_t front) {
  per_lane<std::uint64_t> states;
  per_lane<bool> is_long;
  lanes.each_alone([&](int lane) { states[lane] = windows.all[lane].of(front); });
  lanes.shift_up(states, front);
  lanes.each_alone([&](int lane) {
    const bool mine = (chain >> lane & 1) != 0;
    states[lane] = windows.known[lane].of(states[lane]);
    is_long[lane] = mine && batch.match[lane] > kLongMatch;
    if (mine && !is_long[lane]) repeat(placed.matches[lane], batch.offset[lane], batch.match[lane], states[lane]);
  });
  const std::uint32_t long_matches = lanes.ballot(is_long);
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t left = long_matches; left != 0; left &= left - 1) {
    const int which = lowest_bit(left);
    const std::uint32_t count = lanes.from(batch.match, which), offset = lanes.from(batch.offset, which);
    const std::uint32_t to = lanes.from(placed.matches, which);
    const std::uint64_t pattern = lanes.from(states, which) >> (64 - 8 * offset);
    lanes.each_alone([&](int lane) {
      put<1>(to, count, static_cast<std::uint32_t>(lane), kLanes,
             [&](std::uint32_t i) { return static_cast<std::uint8_t>(pattern >> (8 * (i % offset))); });
    });
  }
}

/// Resolves the near matches of the lanes `chain`, of which there is at least one; all matches before lane `end` except
/// these are copied.
PENSTOCK_DEVICE void lz_output::copy_near(warp lanes, const lz_batch& batch, const placed_batch& placed,
                                          std::uint32_t chain, std::uint32_t end) {
  const near_windows windows = find_windows(lanes, batch, placed, chain, end);
  const std::uint64_t front = last_bytes(lanes.from(placed.starts, lowest_bit(chain)));
  lanes.sync();
  copy_chain(lanes, batch, placed, chain, windows, front);
  lanes.sync();
}

PENSTOCK_DEVICE std::uint32_t lz_output::fitting(warp lanes, const per_lane<std::uint32_t>& ends, std::uint32_t count,
                                                 std::uint32_t before) const {
  per_lane<bool> fits;
  lanes.each_alone([&](int lane) {
    fits[lane] = static_cast<std::uint32_t>(lane) < count && before + ends[lane] <= most_batch_bytes();
  });
  const std::uint32_t fitting = lanes.ballot(fits);
  return fitting == 0xffffffffu ? kLanes : static_cast<std::uint32_t>(lowest_bit(~fitting));
}

PENSTOCK_DEVICE bool lz_output::locate(warp lanes, lz_batch& batch, std::uint32_t start, std::uint32_t count,
                                       placed_batch& placed) const {
  per_lane<bool> wrong, near, has_match;
  placed.start = start;
  lanes.each_alone([&](int lane) {
    if (static_cast<std::uint32_t>(lane) >= count) batch.literals[lane] = batch.match[lane] = 0;
    const std::uint32_t length = batch.match[lane], offset = batch.offset[lane];
    placed.matches[lane] = start + batch.ends[lane] - length;
    placed.starts[lane] = placed.matches[lane] - batch.literals[lane];
    has_match[lane] = length != 0;
    wrong[lane] = has_match[lane] && !reaches(placed.matches[lane], offset);
    near[lane] = has_match[lane] && offset <= kNearOffset;
  });
  placed.left = lanes.ballot(has_match);
  placed.near = lanes.ballot(near);
  return lanes.ballot(wrong) == 0;
}

/// Matches are copied as soon as the bytes that they repeat are. Near matches that follow each other would take a round
/// each: a chain of them before the first far match that waits is resolved at once.
PENSTOCK_DEVICE void lz_output::copy_matches(warp lanes, const lz_batch& batch, placed_batch& placed,
                                             std::uint32_t blocked) {
  while (placed.left != 0) {
    per_lane<bool> can;
    lanes.each_alone([&](int lane) { can[lane] = (placed.from.needs[lane] & placed.left) == 0; });
    const std::uint32_t left = placed.left, ready = lanes.ballot(can) & left & ~blocked;
    const std::uint32_t waiting = left & ~ready & ~(placed.near & ~blocked);
    const std::uint32_t front = waiting == 0 ? 0xffffffffu : (waiting & (0 - waiting)) - 1;
    std::uint32_t chain = left & placed.near & front;
    if ((chain & ~ready) == 0) chain = 0;  // not a chain
    const std::uint32_t alone = ready & ~chain;
    if ((alone | chain) == 0) return;
    PENSTOCK_COUNT(rounds, 1);
    if (alone != 0) copy_ready(lanes, batch, placed, alone);
    if (chain != 0) {
      PENSTOCK_COUNT(chains, 1);
      copy_near(lanes, batch, placed, chain, static_cast<std::uint32_t>(highest_bit(chain)) + 1);
    }
    placed.left &= ~(alone | chain);
  }
}

PENSTOCK_DEVICE std::uint32_t lz_output::append(warp lanes, lz_batch& batch, std::uint32_t count) {
  const std::uint32_t taken = fitting(lanes, batch.ends, count, 0), located = taken == 0 ? 1 : taken;
  const std::uint32_t total = lanes.from(batch.ends, static_cast<int>(located) - 1);
  placed_batch placed;
  if (total > room() || !locate(lanes, batch, at_, located, placed)) return 0;
  if (taken == 0) {
    const std::uint32_t length = lanes.from(batch.match, 0);
    const std::uint32_t offset = lanes.from(batch.offset, 0);
    append(lanes, literal_pointer(lanes.from(batch.literals_at, 0)), batch.literals_step,
           lanes.from(batch.literals, 0));
    if (length != 0) append_long_match(lanes, offset, length);
    return 1;
  }
  PENSTOCK_COUNT(batches, 1);
  begin_batches();
  place_literals(lanes, batch, placed.starts);
  find_sources(lanes, batch, placed);
  copy_matches(lanes, batch, placed, 0);
  at_ += total;
  flush(lanes, false);
  return taken;
}

}  // namespace penstock::inline v0::device
