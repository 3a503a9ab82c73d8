#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/result.h>
#include "cuda/decode/wave.h"
#include "cuda/device_pool.h"
#include "cuda/driver.h"
#include "cuda/move/move.h"
#include "engine/profiler.h"

namespace penstock::inline v0::cuda {

class read_slot;

/// Cells of one chain, of any reads.
struct wave_batch {
  std::vector<device::device_step> steps;
  device::decode_wave decoder;
  std::uint32_t first_status = 0;
  std::uint64_t descriptors = 0, workspace = 0;  ///< their position in the tail
};

/// The batch of the wave that a batch of a scan is added to.
struct taken_batch {
  std::uint32_t batch = kNoStatus, first_status = 0;
  device::decode_wave::mark before;
};

/// The share of one read in a wave.
struct wave_share {
  read_slot* read = nullptr;  ///< until the wave is queued
  recorded_read recorded_as;
  std::uint64_t encoded_bytes = 0, decoded_bytes = 0, moved_bytes = 0;
};

/// Memory of one kind that only grows; used by one wave at a time.
struct wave_memory {
  device_address address = 0;
  std::uint64_t bytes = 0;
};

/// Cells of any reads that are decoded and scattered together: one set of launches.
///
/// From the bottom up, its memory holds encoded bytes (unless the device reads them where they are, in the ring's
/// blocks); from the top down, decoded cells that are still to be scattered. Tables and workspace have memory of their
/// own, because their size is known only when the wave is closed. A run of cells is not added if that would leave no
/// space for its tables and workspace. A wave is `free`, `open` (it accepts cells, whose bytes are already being
/// copied), `closing` (it accepts no more, but headers of some are still read), or `queued` (until the host has seen
/// that the device is done with it).
class device_wave {
 public:
  enum class phase : std::uint8_t { free, open, closing, queued };

  /// Whether there is space for this many more encoded and scratch bytes.
  bool fits(std::uint64_t bottom, std::uint64_t top) const noexcept {
    const std::uint64_t room = memory.bytes - used_bottom - used_top;
    return bottom <= room && top <= room - bottom;
  }
  std::size_t cells() const noexcept { return items.size(); }
  bool is_empty() const noexcept { return items.empty() && coming == 0; }
  void clear() noexcept;

  phase now = phase::free;
  device::library_use by_library;  ///< decodes the codecs that it supports; this library decodes all others
  std::uint64_t limit_bytes = 0;   ///< of `memory` and `tail` together
  wave_memory memory, tail;
  std::byte* tables = nullptr;  ///< page-locked; the beginning of `tail`
  std::uint64_t tables_bytes = 0;
  std::uint64_t used_bottom = 0, used_top = 0;
  std::size_t coming = 0;        ///< cells that have space, but whose headers are still being read
  std::uint64_t tile_count = 0;  ///< number of entries of `tiles`
  unsigned stream = 0;           ///< which decode stream it was queued on
  std::uint32_t statuses = 0;

  std::vector<move_item> items;
  std::vector<move_axis> axes;
  std::vector<move_run> runs;
  std::vector<move_tile> tiles;
  std::vector<failure_note> notes;
  std::vector<std::byte> patterns;                   ///< fill values, 16 bytes or a multiple each
  std::vector<std::unique_ptr<wave_batch>> batches;  ///< some may be empty: they are cached
  std::vector<taken_batch> taken;                    ///< batches of the scan that is being added; reused
  std::vector<std::uint32_t> item_batches;           ///< for each item; kNoStatus: none
  std::vector<device::kernel_launch> launches;
  std::vector<std::uint32_t> fills;  ///< items whose `from` counts from the first pattern
  std::vector<wave_share> shares;    ///< shares of the reads that have cells here
  std::vector<std::byte*> blocks;    ///< blocks of the ring: kernels read encoded bytes there
  std::uint64_t block_bytes = 0;
  std::uint64_t decoded_bytes = 0, moved_bytes = 0;  ///< by the device

  event_ref done = nullptr;
  // With timing, for profiles: begin of decoding, begin of the scatter, end.
  event_ref marks[3] = {nullptr, nullptr, nullptr};
  std::vector<event_ref> launch_ends;  ///< with timing, for each launch; reused
  std::size_t timed_launches = 0;      ///< how many were recorded for this wave
};

}  // namespace penstock::inline v0::cuda
