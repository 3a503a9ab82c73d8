#include "cuda/device_pool.h"

#include <algorithm>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kSmall = 512;
constexpr std::uint64_t kLarge = std::uint64_t{2} << 20;

// A small number of sizes, so that returned blocks fit later requests.
constexpr std::uint64_t size_class(std::uint64_t bytes) {
  const std::uint64_t unit = bytes < kLarge ? kSmall : kLarge;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

}  // namespace

device_pool::~device_pool() { clear(); }

// The peer's allocator may run any code, and may be slow: no lock is held while it is called.
result<device_block> device_pool::take_of_peer(std::uint64_t bytes) {
  const current_context current(driver_, context_);
  device_block made;
  made.bytes = bytes;
  {
    const mutex_lock lock(mutex_);
    if (!idle_events_.empty()) {
      made.ready = idle_events_.back();
      idle_events_.pop_back();
    }
  }
  const auto keep_event = [&] {
    const mutex_lock lock(mutex_);
    idle_events_.push_back(made.ready);
  };
  PENSTOCK_TRY(event_of(made));
  auto address = peer_->allocate(bytes, device_, reinterpret_cast<std::uintptr_t>(peer_stream_));
  if (!address.ok() || *address == 0) {
    keep_event();
    error why =
        address.ok() ? error(errc::resource_exhausted, "the allocator returned no memory") : std::move(address).error();
    return std::move(why).note(
        fmt::format("taking {} bytes of device memory for a result from the context's allocator", bytes));
  }
  made.address = *address;
  {
    const mutex_lock lock(mutex_);
    held_ += bytes;
  }
  // Earlier work on the peer's memory may still be queued there.
  auto recorded = driver_.check(driver_.event_record(made.ready, peer_stream_), "cuEventRecord");
  if (!recorded.ok()) {
    give_to_peer(made);
    return std::move(recorded).error();
  }
  return made;
}

void device_pool::give_to_peer(const device_block& block) noexcept {
  const current_context current(driver_, context_);
  if (block.ready != nullptr) driver_.stream_wait_event(peer_stream_, block.ready, 0);
  peer_->release(block.address, block.bytes, device_, reinterpret_cast<std::uintptr_t>(peer_stream_));
  const mutex_lock lock(mutex_);
  held_ -= block.bytes;
  if (block.ready != nullptr) idle_events_.push_back(block.ready);
}

result<device_block> device_pool::take(std::uint64_t bytes) {
  if (peer_) return take_of_peer(bytes);
  const std::uint64_t size = size_class(bytes);
  const mutex_lock lock(mutex_);
  const auto best = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& each) { return each.bytes == size; });
  if (best != idle_.rend()) {
    const device_block found = *best;
    idle_.erase(std::next(best).base());
    idle_bytes_ -= found.bytes;
    return found;
  }
  const current_context current(driver_, context_);
  device_block made;
  made.bytes = size;
  driver_status status = driver_.mem_alloc(&made.address, size);
  if (status == kOutOfMemory && !idle_.empty()) {
    for (const device_block& each : idle_) free(each);
    idle_.clear();
    idle_bytes_ = 0;
    status = driver_.mem_alloc(&made.address, size);
  }
  if (status != kSuccess)
    return driver_.failure(status, "cuMemAlloc")
        .note(fmt::format("taking {} bytes of device memory for a result", bytes));
  held_ += size;
  return made;
}

void device_pool::give(const device_block& block) noexcept {
  if (peer_) return give_to_peer(block);
  const mutex_lock lock(mutex_);
  if (block.bytes > kept_limit_) return free(block);
  while (idle_bytes_ + block.bytes > kept_limit_) {
    free(idle_.front());
    idle_bytes_ -= idle_.front().bytes;
    idle_.erase(idle_.begin());
  }
  idle_.push_back(block);
  idle_bytes_ += block.bytes;
}

result<event_ref> device_pool::event_of(device_block& block) {
  if (block.ready != nullptr) return block.ready;
  const current_context current(driver_, context_);
  PENSTOCK_TRY(driver_.check(driver_.event_create(&block.ready, kEventDisableTiming), "cuEventCreate"));
  return block.ready;
}

void device_pool::clear() noexcept {
  const mutex_lock lock(mutex_);
  if (idle_.empty() && idle_events_.empty()) return;
  const current_context current(driver_, context_);
  for (const device_block& each : idle_) free(each);
  idle_.clear();
  idle_bytes_ = 0;
  for (const event_ref each : idle_events_) driver_.event_destroy(each);
  idle_events_.clear();
}

// cuMemFree waits for the device, so that no queued work loses its memory.
void device_pool::free(const device_block& block) noexcept {
  const current_context current(driver_, context_);
  driver_.mem_free(block.address);
  if (block.ready != nullptr) driver_.event_destroy(block.ready);
  held_ -= block.bytes;
}

std::uint64_t device_pool::held_bytes() const noexcept {
  const mutex_lock lock(mutex_);
  return held_;
}

std::uint64_t device_pool::idle_bytes() const noexcept {
  const mutex_lock lock(mutex_);
  return idle_bytes_;
}

}  // namespace penstock::inline v0::cuda
