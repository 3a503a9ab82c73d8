#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/result.h>
#include "cuda/device_tables.h"
#include "cuda/device_wave.h"
#include "cuda/driver.h"

namespace penstock::inline v0::cuda {

/// Cells of a wave: enough to fill the device, and few enough that reading and decoding overlap.
inline constexpr std::size_t kMostCells = 2048;

/// The waves of a device and their memory.
///
/// All waves have the same size, the largest needed so far. Idle waves grow to it. So the allocated size depends on the
/// reads, not on which waves are idle when the next one is opened. Memory is kept until `trim`.
///
/// Not thread-safe; the context must be current. Memory is counted in a `counted_bytes`, which any thread may read.
class wave_arena {
 public:
  struct counted_bytes {
    std::atomic<std::uint64_t> device{0}, page_locked{0};
  };

  /// \param limit_bytes  Of one wave's device memory.
  /// \param counts       Outlives the arena.
  wave_arena(const driver& with, std::uint64_t limit_bytes, counted_bytes& counts) noexcept
      : driver_(with), limit_(limit_bytes), counts_(counts), most_bytes_(limit_bytes / 2) {}
  result<> start(unsigned waves, const device::library_use& by_library);
  /// Called before the context is destroyed. No work may be queued.
  void clear() noexcept;
  /// Releases the memory of waves that nothing queued uses.
  void trim() noexcept;

  std::uint64_t limit_bytes() const noexcept { return limit_; }
  bool any_queued() const noexcept;

  /// A free wave with space for a cell of this size, of which about `likely_cells` will follow. Null: none is free.
  /// \error resource_exhausted  The device has no such memory.
  result<device_wave*> open(std::uint64_t cell_bytes, std::uint64_t likely_cells);
  /// Called when a wave's bytes were full before its cells: waves should have more memory.
  void note_full(const device_wave& wave) noexcept;
  /// For a wave without cells, if its tables do not fit next to its bytes: reserves only the memory for `cell_bytes`.
  /// Returns false if it has no more memory than that.
  result<bool> shrink(device_wave& wave, std::uint64_t cell_bytes);
  /// Computes and writes the wave's tables. It takes no more cells then.
  /// \error resource_exhausted  No memory for them.
  result<wave_layout> write_tables(device_wave& wave);

  /// Memory of another kind that counts with the waves'. Its content is lost; nothing queued may use it.
  result<> resize(wave_memory& memory, std::uint64_t bytes);

 private:
  result<> grow(device_wave& wave);
  void grow_free() noexcept;
  result<> grow_tables(device_wave& wave, std::uint64_t uploaded, std::uint64_t total);

  const driver& driver_;
  const std::uint64_t limit_;
  counted_bytes& counts_;
  // Bytes of a wave that cells may take; the rest is for tables and workspace. Less if a cell needed more of that.
  std::uint64_t most_bytes_;
  // The size that each wave should have.
  std::uint64_t bytes_ = 0, tail_bytes_ = 0, uploaded_bytes_ = 0;
  std::vector<std::unique_ptr<device_wave>> waves_;
};

}  // namespace penstock::inline v0::cuda
