#pragma once

// The execute stage: a warp puts the blocks of a part together, in order.

#include "cuda/decode/lz_output.h"
#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {

/// Bytes to append: `step` 0 means the same one again and again.
struct literal_source {
  const std::uint8_t* at;
  std::uint32_t step;
};

/// What a raw or RLE block repeats, or where a compressed block's literals are.
PENSTOCK_DEVICE literal_source literals_of(const zstd_wave& wave, const zstd_block& block) {
  const auto* const source = pointer<const std::uint8_t>(pointer<const decode_part>(wave.parts)[block.part].source);
  if (block.type < 2) return {source + block.content, block.type == 0 ? 1u : 0u};
  if (block.literals_type >= 2) return {pointer<const std::uint8_t>(wave.literals) + block.literals_buffer, 1};
  return {source + block.literals, block.literals_type == 0 ? 1u : 0u};
}

/// Two numbers of which sums are made at once.
struct sequence_sums {
  std::uint32_t literals, all;

#if defined(__CUDA_ARCH__)
  PENSTOCK_DEVICE sequence_sums shuffled_up(int distance) const {
    return {__shfl_up_sync(0xffffffffu, literals, static_cast<unsigned>(distance)),
            __shfl_up_sync(0xffffffffu, all, static_cast<unsigned>(distance))};
  }
#endif
};

/// Appends a block's sequences and the literals in front of each; `used` counts those. False: a match reaches too far.
PENSTOCK_DEVICE bool execute_sequences(const zstd_wave& wave, const zstd_block& block, literal_source literals,
                                       const std::uint32_t* repeats, std::uint32_t& used, lz_output& out, warp lanes) {
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
  for (std::uint32_t i = 0; i < count;) {
    lz_batch batch;
    batch.literals_step = literals.step;
    per_lane<sequence_sums> sums;
    lanes.each_alone([&](int lane) {
      const zstd_sequence sequence = coming[lane];
      batch.literals[lane] = static_cast<std::uint32_t>(sequence) & 0x3ffffu;
      batch.match[lane] = static_cast<std::uint32_t>(sequence >> 18) & 0x3ffffu;
      batch.offset[lane] = resolve_offset(static_cast<std::uint32_t>(sequence >> 36), repeats);
      sums[lane] = {batch.literals[lane], batch.literals[lane] + batch.match[lane]};
    });
    load(i + kLanes);  // nearly always the next ones: their loads overlap what is done with these
    lanes.scan(sums, [](const sequence_sums& before, const sequence_sums& own) {
      return sequence_sums{before.literals + own.literals, before.all + own.all};
    });
    per_lane<std::uint32_t> literal_ends;
    lanes.each_alone([&](int lane) {
      literal_ends[lane] = sums[lane].literals;
      batch.ends[lane] = sums[lane].all;
      const std::uint32_t start = used + literal_ends[lane] - batch.literals[lane];
      batch.literals_at[lane] =
          static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(literals.at)) + start * literals.step;
    });
    const std::uint32_t taken = out.append(lanes, batch, count - i < kLanes ? count - i : kLanes);
    if (taken == 0) return false;
    used += lanes.from(literal_ends, static_cast<int>(taken) - 1);
    i += taken;
    if (taken != kLanes) load(i);
  }
  return true;
}

/// Appends block `index`; what went wrong, or ok.
PENSTOCK_DEVICE chunk_status execute_block(const zstd_wave& wave, std::uint32_t index, std::uint32_t* repeats,
                                           lz_output& out, warp lanes) {
  const zstd_block& block = pointer<const zstd_block>(wave.blocks)[index];
  const literal_source literals = literals_of(wave, block);
  const std::uint32_t count = block.type < 2 ? block.size : block.literals_bytes;
  std::uint32_t used = 0;
  if (block.direct != kNotDirect) {  // is there
    if (count > out.room()) return chunk_status::wrong_size;
    out.skip(lanes, count);
    return chunk_status::ok;
  }
  if (block.type == 2 && block.sequence_count != 0) {
    const zstd_block_result& result = pointer<const zstd_block_result>(wave.results)[index];
    if (count + result.match_bytes > out.room()) return chunk_status::wrong_size;
    if (!execute_sequences(wave, block, literals, repeats, used, out, lanes)) return chunk_status::corrupt_match;
    const std::uint32_t now[3] = {resolve_offset(result.repeats[0], repeats),
                                  resolve_offset(result.repeats[1], repeats),
                                  resolve_offset(result.repeats[2], repeats)};
    for (int i = 0; i < 3; ++i) repeats[i] = now[i];
  }
  if (count - used > out.room()) return chunk_status::wrong_size;
  out.append(lanes, literals.at + used * literals.step, literals.step, count - used);
  return chunk_status::ok;
}

/// What one warp does: the part that is `turn` in the wave's order.
PENSTOCK_DEVICE void zstd_execute_warp(const zstd_wave& wave, std::uint32_t turn, lz_shared& shared, warp lanes) {
  const std::uint32_t index = pointer<const std::uint32_t>(wave.order)[turn];
  const decode_part& part = pointer<const decode_part>(wave.parts)[index];
  if (failed(wave.statuses, part.chunk, lanes)) return;  // tables or sequences of a block may be missing
  lz_output out(shared, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  const auto* const first_frames = pointer<const std::uint32_t>(wave.first_frames);
  chunk_status status = chunk_status::ok;
  for (std::uint32_t f = first_frames[index]; f < first_frames[index + 1] && status == chunk_status::ok; ++f) {
    const zstd_frame& frame = pointer<const zstd_frame>(wave.frames)[f];
    const std::uint32_t start = out.at();
    lanes.once_alone([&] { pointer<std::uint32_t>(wave.frame_starts)[f] = start; });
    out.begin_frame();
    std::uint32_t repeats[3] = {1, 4, 8};
    for (std::uint32_t b = 0; b < frame.blocks && status == chunk_status::ok; ++b)
      status = execute_block(wave, frame.first_block + b, repeats, out, lanes);
    if (status == chunk_status::ok && frame.content_size != kUnknownSize && out.at() - start != frame.content_size)
      status = chunk_status::wrong_size;
  }
  out.finish(lanes);
  if (status == chunk_status::ok && out.room() != 0) status = chunk_status::wrong_size;
  if (status != chunk_status::ok) lanes.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

}  // namespace penstock::inline v0::device
