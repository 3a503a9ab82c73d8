#pragma once

// XXH64 of a frame's content, zstd's checksum (RFC 8878, 3.1.1; the algorithm: github.com/Cyan4973/xxHash, doc/).

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr int kCheckedFramesPerWarp = 8;
inline constexpr int kLanesPerCheckedFrame = kLanes / kCheckedFramesPerWarp;

struct zstd_checksum_shared {
  std::uint64_t accumulators[kLanes];
};

namespace xxh64 {

inline constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu,
                               kPrime3 = 0x165667B19E3779F9u, kPrime4 = 0x85EBCA77C2B2AE63u,
                               kPrime5 = 0x27D4EB2F165667C5u;

PENSTOCK_DEVICE std::uint64_t turn(std::uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

PENSTOCK_DEVICE std::uint64_t round(std::uint64_t accumulator, std::uint64_t lane) {
  return turn(accumulator + lane * kPrime2, 31) * kPrime1;
}

PENSTOCK_DEVICE std::uint64_t load(const std::uint8_t* at) {
  if (misalignment(at, 4) == 0) return load_word(at) | static_cast<std::uint64_t>(load_word(at + 4)) << 32;
  return load_bytes(at, 4) | static_cast<std::uint64_t>(load_bytes(at + 4, 4)) << 32;
}

/// Accumulator `which` (0 to 3) after all whole stripes of 32 bytes.
PENSTOCK_DEVICE std::uint64_t accumulate(byte_view content, int which) {
  std::uint64_t accumulator = which == 0 ? kPrime1 + kPrime2 : which == 1 ? kPrime2 : which == 2 ? 0 : 0 - kPrime1;
  if (content.size < 32) return accumulator;
  const std::uint8_t* at = content.begin + 8 * which;
  for (std::uint32_t stripe = 0; stripe < content.size / 32; ++stripe, at += 32)
    accumulator = round(accumulator, load(at));
  return accumulator;
}

/// The hash, from the four accumulators.
PENSTOCK_DEVICE std::uint64_t finish(byte_view content, const std::uint64_t* accumulators) {
  std::uint64_t hash = kPrime5;
  if (content.size >= 32) {
    hash = turn(accumulators[0], 1) + turn(accumulators[1], 7) + turn(accumulators[2], 12) + turn(accumulators[3], 18);
    for (int i = 0; i < 4; ++i) hash = (hash ^ round(0, accumulators[i])) * kPrime1 + kPrime4;
  }
  hash += content.size;
  const std::uint8_t* at = content.begin + content.size / 32 * 32;
  std::uint32_t left = content.size % 32;
  for (; left >= 8; left -= 8, at += 8) hash = turn(hash ^ round(0, load(at)), 27) * kPrime1 + kPrime4;
  for (; left >= 4; left -= 4, at += 4) hash = turn(hash ^ load_bytes(at, 4) * kPrime1, 23) * kPrime2 + kPrime3;
  for (; left > 0; --left, ++at) hash = turn(hash ^ *at * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace xxh64

/// The work of one warp: eight of the wave's frames whose checksum is verified, four lanes each.
PENSTOCK_DEVICE void zstd_checksum_warp(const zstd_wave& wave, std::uint32_t group, zstd_checksum_shared& shared,
                                        warp lanes) {
  struct work {
    const zstd_frame* frame = nullptr;
    byte_view content{};
  };
  const auto work_of = [&](int lane) -> work {
    const std::uint32_t i = group * kCheckedFramesPerWarp + static_cast<std::uint32_t>(lane / kLanesPerCheckedFrame);
    if (i >= wave.checked_frame_count) return {};
    const std::uint32_t index = pointer<const std::uint32_t>(wave.checked_frames)[i];
    const zstd_frame& frame = pointer<const zstd_frame>(wave.frames)[index];
    const decode_part& part = pointer<const decode_part>(wave.parts)[frame.part];
    if (failed(wave.statuses, part.chunk)) return {};
    const auto* const starts = pointer<const std::uint32_t>(wave.frame_starts);
    const bool last = index + 1 == pointer<const std::uint32_t>(wave.first_frames)[frame.part + 1];
    const std::uint32_t start = starts[index], end = last ? part.target_bytes : starts[index + 1];
    return {&frame, {pointer<const std::uint8_t>(part.target) + start, end - start}};
  };
  lanes.each([&](int lane) {
    const work mine = work_of(lane);
    if (mine.frame != nullptr)
      shared.accumulators[lane] = xxh64::accumulate(mine.content, lane % kLanesPerCheckedFrame);
  });
  per_lane<bool> wrong;
  lanes.each_alone([&](int lane) {
    const work mine = work_of(lane);
    wrong[lane] =
        lane % kLanesPerCheckedFrame == 0 && mine.frame != nullptr &&
        static_cast<std::uint32_t>(xxh64::finish(mine.content, shared.accumulators + lane)) != mine.frame->checksum;
  });
  lanes.each_alone([&](int lane) {
    if (!wrong[lane]) return;
    const work mine = work_of(lane);
    if (mine.frame != nullptr)
      report(wave.statuses, pointer<const decode_part>(wave.parts)[mine.frame->part].chunk,
             chunk_status::wrong_checksum);
  });
}

}  // namespace penstock::inline v0::device
