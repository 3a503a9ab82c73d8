#pragma once

// The execute stage: the warps of a thread block assemble the blocks of a part, in order. Where a wave has many parts,
// each has one warp.

#include <algorithm>
#include <iterator>

#include "cuda/decode/lz_append_batch.h"
#include "cuda/decode/warp_group.h"
#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {

/// Bytes to append: `step` 0 repeats the same one.
struct literal_source {
  const std::uint8_t* at;
  std::uint32_t step;
};

/// The byte that a raw or RLE block repeats, or the location of a compressed block's literals.
PENSTOCK_DEVICE literal_source literals_of(const zstd_wave& wave, const zstd_block& block) {
  const auto* const source = pointer<const std::uint8_t>(pointer<const decode_part>(wave.parts)[block.part].source);
  if (block.type < 2) return {source + block.content, block.type == 0 ? 1u : 0u};
  if (block.literals_type >= 2) return {pointer<const std::uint8_t>(wave.literals) + block.literals_buffer, 1};
  return {source + block.literals, block.literals_type == 0 ? 1u : 0u};
}

/// Two numbers that are summed at once.
struct sequence_sums {
  std::uint32_t literals, all;

#if defined(__CUDA_ARCH__)
  PENSTOCK_DEVICE sequence_sums shuffled_up(int distance) const {
    return {__shfl_up_sync(0xffffffffu, literals, static_cast<unsigned>(distance)),
            __shfl_up_sync(0xffffffffu, all, static_cast<unsigned>(distance))};
  }
#endif
};

/// Reads sequence number `lane` of a batch. Returns its lengths.
PENSTOCK_DEVICE sequence_sums read_sequence(zstd_sequence sequence, const std::uint32_t* repeats, lz_batch& batch,
                                            int lane) {
  batch.literals[lane] = static_cast<std::uint32_t>(sequence) & 0x3ffffu;
  batch.match[lane] = static_cast<std::uint32_t>(sequence >> 18) & 0x3ffffu;
  batch.offset[lane] = resolve_offset(static_cast<std::uint32_t>(sequence >> 36), repeats);
  return {batch.literals[lane], batch.literals[lane] + batch.match[lane]};
}

PENSTOCK_DEVICE void sum_up(per_lane<sequence_sums>& sums, warp lanes) {
  lanes.scan(sums, [](const sequence_sums& before, const sequence_sums& own) {
    return sequence_sums{before.literals + own.literals, before.all + own.all};
  });
}

/// The location of a literal, counted from the block's first.
PENSTOCK_DEVICE std::uint64_t address_of(literal_source literals, std::uint32_t number) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(literals.at)) + number * literals.step;
}

/// The number of warps for a part, and the ring that they share: for most arrays, their batches fit into half of it.
inline constexpr int kExecuteWarps = 8;
inline constexpr std::uint32_t kExecuteRingBytes = 8192;
using execute_group = warp_group<kExecuteWarps>;
template <class T>
using of_warps = per_warp<T, kExecuteWarps>;

/// What a warp publishes about its batch.
struct offered_batch {
  sequence_sums sums;  ///< of all its sequences
  std::uint32_t far;   ///< whether it has matches that are not near
};
struct alignas(16) taken_batch {
  std::uint32_t sequences;  ///< the number of them that fits into the ring
  sequence_sums sums;       ///< of the sequences that fit
  std::uint32_t state;      ///< a batch_state
};
enum batch_state : std::uint32_t { kCopied, kWaiting, kWrong };

struct zstd_execute_shared {
  lz_ring<kExecuteRingBytes> ring;
  byte_window windows[kExecuteWarps];  ///< the effect of each batch in a chain
  std::uint64_t front;                 ///< the eight bytes before the first batch
  offered_batch offered[kExecuteWarps];
  taken_batch taken[kExecuteWarps];
  std::uint32_t stopped;
};

#if !defined(__CUDACC__)
/// Counts work that warps do at the same time once, with the time of the slowest.
class same_time {
 public:
  void warp_done(int number) {
    for (const auto count : kCounts) work_[number].*count += host_lz_work.*count - before_.*count;
    before_ = host_lz_work;
  }
  void step_done() {
    const auto weight = [](const lz_work& work) {  // in proportion to the cycles of kernels.md
      return 4 * (work.searches + work.turns) + 3 * work.shared_turns + 11 * work.chains;
    };
    const lz_work* most = work_;
    for (const lz_work& each : work_)
      if (weight(each) > weight(*most)) most = &each;
    for (const auto count : kCounts) host_lz_depth.*count += most->*count;
    std::fill(std::begin(work_), std::end(work_), lz_work{});
  }

 private:
  static constexpr std::uint64_t lz_work::* kCounts[] = {&lz_work::rounds, &lz_work::searches, &lz_work::turns,
                                                         &lz_work::shared_turns, &lz_work::chains};
  lz_work work_[kExecuteWarps] = {}, before_ = host_lz_work;
};
#else
class same_time {
 public:
  PENSTOCK_DEVICE void warp_done(int) {}
  PENSTOCK_DEVICE void step_done() {}
};
#endif

/// A block's sequences, a batch of 32 per warp: as many as fit into the ring are appended at the same time.
///
/// A warp knows where its batch begins when all have published their lengths. Matches that repeat bytes of batches in
/// progress wait: the warps take turns at those. If all matches are near, they form one chain, and the warps exchange
/// the effects of theirs on the last eight bytes, as the lanes of a warp do.
class sequence_batches {
 public:
  PENSTOCK_DEVICE sequence_batches(const zstd_sequence* sequences, std::uint32_t count, literal_source literals,
                                   const std::uint32_t* repeats, zstd_execute_shared& shared)
      : sequences_(sequences), count_(count), literals_(literals), repeats_(repeats), shared_(shared) {}

  /// Appends all. False: a match reaches too far, or a sequence exceeds the target.
  PENSTOCK_DEVICE bool append_all(lz_output& out, execute_group warps) {
    load(warps);
    while (next_ < count_) {
      const std::uint32_t first = next_;
      PENSTOCK_COUNT(sets, 1);
      add_up(warps);
      place(out, warps);
      if (is_chain()) {
        copy_chain(out, warps);
      } else {
        copy_in_turns(out, warps);
      }
      if (!end(out, warps)) return false;
      if (next_ == first && !append_long(out, warps)) return false;
      if (next_ - first != warps.lanes()) load(warps);
    }
    return true;
  }

  /// The number of literals in all sequences so far.
  PENSTOCK_DEVICE std::uint32_t literals_used() const { return used_; }

 private:
  PENSTOCK_DEVICE void load(execute_group warps) {
    warps.each_warp_alone([&](int number, warp lanes) { load(number, lanes, next_); });
  }
  PENSTOCK_DEVICE void load(int number, warp lanes, std::uint32_t from) {
    lanes.each_alone([&](int lane) {
      const std::uint32_t i = from + static_cast<std::uint32_t>(kLanes * number + lane);
      coming_[number][lane] = i < count_ ? sequences_[i] : 0;
    });
  }
  PENSTOCK_DEVICE void add_up(execute_group warps);
  PENSTOCK_DEVICE void place(lz_output& out, execute_group warps);
  PENSTOCK_DEVICE bool is_chain() const;
  PENSTOCK_DEVICE void copy_chain(lz_output& out, execute_group warps);
  PENSTOCK_DEVICE void copy_in_turns(lz_output& out, execute_group warps);
  PENSTOCK_DEVICE bool end(lz_output& out, execute_group warps);
  PENSTOCK_DEVICE bool append_long(lz_output& out, execute_group warps);

  const zstd_sequence* sequences_;
  std::uint32_t count_;
  literal_source literals_;
  const std::uint32_t* repeats_;
  zstd_execute_shared& shared_;
  std::uint32_t next_ = 0;  ///< the first sequence that is not appended
  std::uint32_t used_ = 0;  ///< number of literals in the appended ones
  of_warps<per_lane<zstd_sequence>> coming_;
  of_warps<per_lane<std::uint32_t>> literal_ends_;
  of_warps<lz_batch> batches_;
  of_warps<placed_batch> placed_;
  of_warps<taken_batch> taken_;
  same_time counted_;
};

/// Every warp reads its batch and publishes its length.
PENSTOCK_DEVICE void sequence_batches::add_up(execute_group warps) {
  warps.each_warp([&](int number, warp lanes) {
    lz_batch& batch = batches_[number];
    per_lane<sequence_sums> sums;
    per_lane<bool> far;
    batch.literals_step = literals_.step;
    lanes.each_alone([&](int lane) {
      sums[lane] = read_sequence(coming_[number][lane], repeats_, batch, lane);
      far[lane] = batch.match[lane] != 0 && batch.offset[lane] > kNearOffset;
    });
    // Nearly always the next ones: loading them overlaps with processing the current ones.
    load(number, lanes, next_ + warps.lanes());
    sum_up(sums, lanes);
    const std::uint32_t any_far = lanes.ballot(far);
    lanes.each_alone([&](int lane) {
      literal_ends_[number][lane] = sums[lane].literals;
      batch.ends[lane] = sums[lane].all;
      if (lane == kLanes - 1) shared_.offered[number] = {sums[lane], any_far};
    });
  });
}

/// Every warp writes its literals, and finds the sources of its matches.
PENSTOCK_DEVICE void sequence_batches::place(lz_output& out, execute_group warps) {
  out.begin_batches();
  warps.each_warp_alone([&](int number, warp lanes) {
    lz_batch& batch = batches_[number];
    sequence_sums before{0, 0};
    for (int i = 0; i < kExecuteWarps; ++i) {  // over the largest number, so that the loops have no branches
      const sequence_sums sums = shared_.offered[i].sums;
      if (i < number) before = {before.literals + sums.literals, before.all + sums.all};
    }
    const std::uint32_t first = next_ + static_cast<std::uint32_t>(kLanes * number);
    const std::uint32_t sequences = out.fitting(lanes, batch.ends, first < count_ ? count_ - first : 0, before.all);
    lanes.each_alone([&](int lane) {
      const std::uint32_t start = used_ + before.literals + literal_ends_[number][lane] - batch.literals[lane];
      batch.literals_at[lane] = address_of(literals_, start);
    });
    const int last = sequences == 0 ? 0 : static_cast<int>(sequences) - 1;
    const sequence_sums sums = {lanes.from(literal_ends_[number], last), lanes.from(batch.ends, last)};
    const bool wrong = !out.locate(lanes, batch, out.at() + before.all, sequences, placed_[number]) ||
                       (sequences != 0 && before.all + sums.all > out.room());
    taken_[number] = {sequences, sequences == 0 ? sequence_sums{0, 0} : sums, wrong ? kWrong : kCopied};
    if (wrong) {
      placed_[number].left = 0;
    } else {
      out.place_literals(lanes, batch, placed_[number].starts);
    }
    if (sequences != 0) PENSTOCK_COUNT(batches, 1);
  });
}

PENSTOCK_DEVICE bool sequence_batches::is_chain() const {
  std::uint32_t far = 0;
  for (int i = 0; i < kExecuteWarps; ++i) far |= shared_.offered[i].far;
  return far == 0;
}

/// Resolves all matches at once.
PENSTOCK_DEVICE void sequence_batches::copy_chain(lz_output& out, execute_group warps) {
  PENSTOCK_COUNT(chain_sets, 1);
  of_warps<near_windows> windows;
  warps.each_warp([&](int number, warp lanes) {
    const placed_batch& placed = placed_[number];
    const std::uint32_t chain = placed.left;
    if (chain != 0)
      windows[number] =
          out.find_windows(lanes, batches_[number], placed, chain, static_cast<std::uint32_t>(highest_bit(chain)) + 1);
    const std::uint64_t front = number == 0 ? out.last_bytes(placed.start) : 0;
    lanes.each_alone([&](int lane) {
      if (lane != kLanes - 1) return;
      shared_.windows[number] = chain != 0 ? windows[number].all[lane] : byte_window{0, byte_window::kSame};
      shared_.taken[number] = taken_[number];
      if (number == 0) shared_.front = front;
    });
  });
  warps.each_warp([&](int number, warp lanes) {
    const std::uint32_t chain = placed_[number].left;
    if (chain != 0) {
      PENSTOCK_COUNT(rounds, 1);
      PENSTOCK_COUNT(chains, 1);
      std::uint64_t front = shared_.front;
      PENSTOCK_SMALL_LOOP
      for (int i = 0; i < number; ++i) front = shared_.windows[i].of(front);
      out.copy_chain(lanes, batches_[number], placed_[number], chain, windows[number], front);
    }
    counted_.warp_done(number);
  });
  counted_.step_done();
}

/// First, all warps copy the sequences that need no other batch. Then they copy the others, one warp after another.
PENSTOCK_DEVICE void sequence_batches::copy_in_turns(lz_output& out, execute_group warps) {
  of_warps<std::uint32_t> blocked;
  warps.each_warp_alone([&](int number, warp lanes) {
    out.find_sources(lanes, batches_[number], placed_[number]);
    blocked[number] = number == 0 ? 0 : out.reaching_out(lanes, placed_[number]);
    counted_.warp_done(number);
  });
  PENSTOCK_SMALL_LOOP
  for (int turn = 0; turn < warps.warps(); ++turn) {
    if (turn != 0 && shared_.taken[turn].state != kWaiting) continue;
    PENSTOCK_COUNT(alone, turn == 0 ? 0 : 1);
    warps.each_warp([&](int number, warp lanes) {
      if (turn != 0 && turn != number) return;
      placed_batch& placed = placed_[number];
      out.copy_matches(lanes, batches_[number], placed, turn == 0 ? blocked[number] : 0);
      if (placed.left != 0) taken_[number].state = kWaiting;
      if (turn == 0) lanes.once_alone([&] { shared_.taken[number] = taken_[number]; });
      counted_.warp_done(number);
    });
    counted_.step_done();
  }
}

/// Ends the appended sequences. False: a match of theirs reaches too far, or a sequence exceeds the target.
PENSTOCK_DEVICE bool sequence_batches::end(lz_output& out, execute_group warps) {
  std::uint32_t bytes = 0;
  bool wrong = false;
  for (int i = 0; i < kExecuteWarps; ++i) {
    const taken_batch taken = shared_.taken[i];
    next_ += taken.sequences;
    used_ += taken.sums.literals;
    bytes += taken.sums.all;
    wrong = wrong || taken.state == kWrong;
  }
  if (wrong) return false;
  out.end_batches(warps, bytes);
  return true;
}

/// Appends the next sequence, which is longer than half of the ring.
PENSTOCK_DEVICE bool sequence_batches::append_long(lz_output& out, execute_group warps) {
  const zstd_sequence sequence = sequences_[next_];
  const std::uint32_t literals = static_cast<std::uint32_t>(sequence) & 0x3ffffu,
                      match = static_cast<std::uint32_t>(sequence >> 18) & 0x3ffffu,
                      offset = resolve_offset(static_cast<std::uint32_t>(sequence >> 36), repeats_);
  if (literals + match > out.room() || (match != 0 && !out.reaches(out.at() + literals, offset))) return false;
  out.append(warps, literals_.at + used_ * literals_.step, literals_.step, literals);
  if (match != 0) out.append_long_match(warps, offset, match);
  used_ += literals;
  ++next_;
  return true;
}

/// Appends the sequences of `block`, by the warps of a thread block. `used`: the number of their literals. False: a
/// match reaches too far, or a sequence exceeds the target.
PENSTOCK_DEVICE bool append_sequences(const zstd_wave& wave, const zstd_block& block, literal_source literals,
                                      const std::uint32_t* repeats, std::uint32_t& used, lz_output& out,
                                      zstd_execute_shared& shared, execute_group warps) {
  sequence_batches batches(pointer<const zstd_sequence>(wave.sequences) + block.sequences_buffer, block.sequence_count,
                           literals, repeats, shared);
  if (!batches.append_all(out, warps)) return false;
  used = batches.literals_used();
  return true;
}

/// The same by one warp, which publishes nothing and takes two thirds of the cycles for a batch.
PENSTOCK_DEVICE bool append_sequences(const zstd_wave& wave, const zstd_block& block, literal_source literals,
                                      const std::uint32_t* repeats, std::uint32_t& used, lz_output& out,
                                      zstd_execute_shared&, warp lanes) {
  const auto* const sequences = pointer<const zstd_sequence>(wave.sequences) + block.sequences_buffer;
  const std::uint32_t count = block.sequence_count;
  per_lane<zstd_sequence> coming;
  const auto load = [&](std::uint32_t from) {
    lanes.each_alone([&](int lane) {
      const std::uint32_t i = from + static_cast<std::uint32_t>(lane);
      coming[lane] = i < count ? sequences[i] : 0;
    });
  };
  load(0);
  used = 0;
  for (std::uint32_t next = 0; next < count;) {
    lz_batch batch;
    per_lane<sequence_sums> sums;
    batch.literals_step = literals.step;
    lanes.each_alone([&](int lane) { sums[lane] = read_sequence(coming[lane], repeats, batch, lane); });
    load(next + kLanes);  // nearly always the next ones: loading them overlaps with processing the current ones
    sum_up(sums, lanes);
    per_lane<std::uint32_t> literal_ends;
    lanes.each_alone([&](int lane) {
      literal_ends[lane] = sums[lane].literals;
      batch.ends[lane] = sums[lane].all;
      batch.literals_at[lane] = address_of(literals, used + literal_ends[lane] - batch.literals[lane]);
    });
    const std::uint32_t taken = out.append(lanes, batch, count - next < kLanes ? count - next : kLanes);
    if (taken == 0) return false;
    used += lanes.from(literal_ends, static_cast<int>(taken) - 1);
    next += taken;
    if (taken != kLanes) load(next);
  }
  return true;
}

/// Appends block `index`. Returns its status.
template <class Lanes>
PENSTOCK_DEVICE chunk_status execute_block(const zstd_wave& wave, std::uint32_t index, std::uint32_t* repeats,
                                           lz_output& out, zstd_execute_shared& shared, Lanes warps) {
  const zstd_block& block = pointer<const zstd_block>(wave.blocks)[index];
  const literal_source literals = literals_of(wave, block);
  const std::uint32_t count = block.type < 2 ? block.size : block.literals_bytes;
  std::uint32_t used = 0;
  if (block.direct != kNotDirect) {  // it is in the target already
    if (count > out.room()) return chunk_status::wrong_size;
    out.skip(warps, count);
    return chunk_status::ok;
  }
  if (block.type == 2 && block.sequence_count != 0) {
    const zstd_block_result& result = pointer<const zstd_block_result>(wave.results)[index];
    if (count + result.match_bytes > out.room()) return chunk_status::wrong_size;
    if (!append_sequences(wave, block, literals, repeats, used, out, shared, warps)) return chunk_status::corrupt_match;
    const std::uint32_t now[3] = {resolve_offset(result.repeats[0], repeats),
                                  resolve_offset(result.repeats[1], repeats),
                                  resolve_offset(result.repeats[2], repeats)};
    for (int i = 0; i < 3; ++i) repeats[i] = now[i];
  }
  if (count - used > out.room()) return chunk_status::wrong_size;
  out.append(warps, literals.at + used * literals.step, literals.step, count - used);
  return chunk_status::ok;
}

template <class Lanes>
PENSTOCK_DEVICE void execute_part(const zstd_wave& wave, std::uint32_t turn, zstd_execute_shared& shared, Lanes warps) {
  const std::uint32_t index = pointer<const std::uint32_t>(wave.order)[turn];
  const decode_part& part = pointer<const decode_part>(wave.parts)[index];
  // Read by one lane for all: another thread block may report a failure at the same time.
  warps.once([&] {
    shared.stopped = failed(wave.statuses, part.chunk) ? 1 : 0;
    for (int i = 0; i < kExecuteWarps; ++i) {  // also of warps that do not exist
      shared.offered[i] = {};
      shared.taken[i] = {};
    }
  });
  if (shared.stopped != 0) return;  // tables or sequences of a block may be missing
  lz_output out(shared.ring, pointer<std::uint8_t>(part.target), part.target_bytes, warps);
  const auto* const first_frames = pointer<const std::uint32_t>(wave.first_frames);
  chunk_status status = chunk_status::ok;
  for (std::uint32_t f = first_frames[index]; f < first_frames[index + 1] && status == chunk_status::ok; ++f) {
    const zstd_frame& frame = pointer<const zstd_frame>(wave.frames)[f];
    const std::uint32_t start = out.at();
    warps.once_alone([&] { pointer<std::uint32_t>(wave.frame_starts)[f] = start; });
    out.begin_frame();
    std::uint32_t repeats[3] = {1, 4, 8};
    for (std::uint32_t b = 0; b < frame.blocks && status == chunk_status::ok; ++b)
      status = execute_block(wave, frame.first_block + b, repeats, out, shared, warps);
    if (status == chunk_status::ok && frame.content_size != kUnknownSize && out.at() - start != frame.content_size)
      status = chunk_status::wrong_size;
  }
  out.finish(warps);
  if (status == chunk_status::ok && out.room() != 0) status = chunk_status::wrong_size;
  if (status != chunk_status::ok) warps.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

/// The work of a thread block of `lanes`: the part with index `turn` in the wave's order.
PENSTOCK_DEVICE void zstd_execute_part(const zstd_wave& wave, std::uint32_t turn, zstd_execute_shared& shared,
                                       std::uint32_t lanes) {
  if (lanes == kLanes) {
    execute_part(wave, turn, shared, warp{});
  } else {
    execute_part(wave, turn, shared, execute_group{lanes});
  }
}

}  // namespace penstock::inline v0::device
