#include "cuda/wave_arena.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

/// Small reads share a wave.
constexpr std::uint64_t kFewestBytes = std::uint64_t{4} << 20;

bool is_free(const std::unique_ptr<device_wave>& wave) noexcept { return wave->now == device_wave::phase::free; }

// The size of a wave's table if the wave were full; a quarter more, because cells differ.
std::uint64_t when_full(const device_wave& wave, std::uint64_t bytes) noexcept {
  const double of_cells = static_cast<double>(kMostCells) / static_cast<double>(std::max<std::size_t>(wave.cells(), 1));
  const std::uint64_t used = wave.used_bottom + wave.used_top;
  const double of_bytes = used == 0 ? of_cells : static_cast<double>(wave.memory.bytes) / static_cast<double>(used);
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * std::max(1.0, std::min(of_cells, of_bytes)) * 1.25);
}

}  // namespace

result<> wave_arena::start(unsigned waves, const device::library_use& by_library) {
  for (unsigned i = 0; i < waves; ++i) {
    waves_.push_back(std::make_unique<device_wave>());
    device_wave& wave = *waves_.back();
    wave.by_library = by_library;
    wave.limit_bytes = limit_;
    PENSTOCK_TRY(driver_.check(driver_.event_create(&wave.done, kEventDisableTiming), "cuEventCreate"));
    for (event_ref& each : wave.marks) PENSTOCK_TRY(driver_.check(driver_.event_create(&each, 0), "cuEventCreate"));
  }
  return {};
}

void wave_arena::clear() noexcept {
  for (const auto& each : waves_) each->now = device_wave::phase::free;
  trim();
  for (const auto& each : waves_)
    for (const event_ref event : {each->done, each->marks[0], each->marks[1], each->marks[2]})
      if (event != nullptr) driver_.event_destroy(event);
  for (const auto& each : waves_)
    for (const event_ref event : each->launch_ends) driver_.event_destroy(event);
  waves_.clear();
}

void wave_arena::trim() noexcept {
  bytes_ = tail_bytes_ = uploaded_bytes_ = 0;
  for (const auto& each : waves_) {
    if (!is_free(each)) continue;
    (void)resize(each->memory, 0);
    (void)resize(each->tail, 0);
    if (each->tables != nullptr) driver_.mem_free_host(each->tables);
    counts_.page_locked.fetch_sub(each->tables_bytes, std::memory_order_relaxed);
    each->tables = nullptr;
    each->tables_bytes = 0;
  }
}

bool wave_arena::any_queued() const noexcept {
  return std::any_of(waves_.begin(), waves_.end(), [](const auto& each) {
    return each->now == device_wave::phase::queued || each->now == device_wave::phase::closing;
  });
}

result<> wave_arena::resize(wave_memory& memory, std::uint64_t bytes) {
  if (memory.address != 0) {
    driver_.mem_free(memory.address);
    counts_.device.fetch_sub(memory.bytes, std::memory_order_relaxed);
    memory = {};
  }
  if (bytes == 0) return {};
  device_address made = 0;
  const driver_status status = driver_.mem_alloc(&made, bytes);
  if (status != kSuccess)
    return driver_.failure(status, "cuMemAlloc")
        .note(fmt::format("taking {} bytes of device memory for a wave", bytes));
  counts_.device.fetch_add(bytes, std::memory_order_relaxed);
  memory = {made, bytes};
  return {};
}

result<device_wave*> wave_arena::open(std::uint64_t cell_bytes, std::uint64_t likely_cells) {
  const auto found = std::find_if(waves_.begin(), waves_.end(), is_free);
  if (found == waves_.end()) return static_cast<device_wave*>(nullptr);
  device_wave& wave = **found;
  wave.clear();
  if (cell_bytes != 0) {
    const std::uint64_t cells = std::clamp<std::uint64_t>(likely_cells, 1, kMostCells);
    const std::uint64_t likely = cells * (cell_bytes + cell_bytes / 8);
    bytes_ = std::max({bytes_, cell_bytes, std::min(most_bytes_, std::max(kFewestBytes, likely))});
  }
  auto grown = grow(wave);
  // If other libraries hold the device's memory, waves are smaller.
  while (!grown.ok() && bytes_ > cell_bytes) {
    most_bytes_ = bytes_ = std::max(cell_bytes, bytes_ / 2);
    grown = grow(wave);
  }
  PENSTOCK_TRY(std::move(grown));
  wave.now = device_wave::phase::open;
  grow_free();
  return &wave;
}

void wave_arena::note_full(const device_wave& wave) noexcept {
  bytes_ = std::max(bytes_, std::min(most_bytes_, wave.memory.bytes * 2));
}

result<bool> wave_arena::shrink(device_wave& wave, std::uint64_t cell_bytes) {
  if (wave.memory.bytes <= cell_bytes) return false;
  most_bytes_ = std::min(most_bytes_, std::max(cell_bytes, limit_ / 8));
  bytes_ = std::min(bytes_, most_bytes_);
  PENSTOCK_TRY(resize(wave.memory, cell_bytes));
  return true;
}

// Memory of a wave that nothing uses.
result<> wave_arena::grow(device_wave& wave) {
  if (wave.memory.bytes < bytes_) {
    if (bytes_ + wave.tail.bytes > limit_) PENSTOCK_TRY(resize(wave.tail, 0));
    PENSTOCK_TRY(resize(wave.memory, bytes_));
  }
  return grow_tables(wave, uploaded_bytes_, tail_bytes_);
}

// The thread that opens one of these waves reports failures.
void wave_arena::grow_free() noexcept {
  for (const auto& each : waves_)
    if (is_free(each) && !grow(*each).ok()) return;
}

result<> wave_arena::grow_tables(device_wave& wave, std::uint64_t uploaded, std::uint64_t total) {
  if (wave.tables_bytes < uploaded) {
    void* made = nullptr;
    const driver_status status = driver_.mem_host_alloc(&made, uploaded, kHostAllocPortable);
    if (status != kSuccess) return driver_.failure(status, "cuMemHostAlloc");
    if (wave.tables != nullptr) driver_.mem_free_host(wave.tables);
    counts_.page_locked.fetch_add(uploaded - wave.tables_bytes, std::memory_order_relaxed);
    wave.tables = static_cast<std::byte*>(made);
    wave.tables_bytes = uploaded;
  }
  total = std::min(total, limit_ - std::min(limit_, wave.memory.bytes));
  if (wave.tail.bytes < total) PENSTOCK_TRY(resize(wave.tail, total));
  return {};
}

result<wave_layout> wave_arena::write_tables(device_wave& wave) {
  const wave_layout layout = lay_out(wave);
  if (wave.tables_bytes < layout.uploaded || wave.tail.bytes < layout.total) {
    uploaded_bytes_ = std::max(uploaded_bytes_, when_full(wave, layout.uploaded));
    tail_bytes_ = std::max(tail_bytes_, when_full(wave, layout.total));
    // The memory suffices for every added cell; a larger allocation is useful, but not necessary.
    if (!grow_tables(wave, uploaded_bytes_, tail_bytes_).ok())
      PENSTOCK_TRY(grow_tables(wave, layout.uploaded, layout.total));
    grow_free();
  }
  write(wave, layout);
  return layout;
}

}  // namespace penstock::inline v0::cuda
