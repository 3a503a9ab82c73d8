#include "cuda/read_slots.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

constexpr std::size_t kAtOnce = 64;

}  // namespace

void read_slots::clear() noexcept {
  for (const auto& each : all_) driver_.event_destroy(each->done);
  for (const record_block& each : blocks_) {
    driver_.mem_free(each.device);
    driver_.mem_free_host(each.host);
  }
}

void read_slot::begin() noexcept {
  used = false;
  state_.starts.clear();
  state_.memory_ready = nullptr;
  state_.waited = 0;
  state_.end_stream.reset();
  state_.failure.reset();
  recorded_as = {};
  likely_cells = 0;
}

// A record without failures is still zero.
read_slot* read_slots::take_zero() {
  if (!has_free() || free_.front()->host->failed != 0) return nullptr;
  read_slot* const slot = free_.front();
  free_.pop_front();
  slot->begin();
  return slot;
}

// Zeroed by a copy: a memset could be a kernel, which waits for resources of the device, and all later copies would
// wait for it.
result<read_slot*> read_slots::take(stream_ref stream) {
  if (!has_free()) PENSTOCK_TRY(make_more(stream));
  if (read_slot* const first = free_.front(); first->host->failed != 0) {
    *first->host = {};
    PENSTOCK_TRY(driver_.check(driver_.copy_to_device(first->device, first->host, sizeof(failure_report), stream),
                               "cuMemcpyHtoDAsync"));
  }
  return take_zero();
}

// Inserts them before all others.
result<> read_slots::make_more(stream_ref stream) {
  constexpr std::size_t kBytes = kAtOnce * sizeof(failure_report);
  record_block block;
  PENSTOCK_TRY(driver_.check(driver_.mem_alloc(&block.device, kBytes), "cuMemAlloc"));
  if (const driver_status status = driver_.mem_host_alloc(&block.host, kBytes, kHostAllocPortable);
      status != kSuccess) {
    driver_.mem_free(block.device);
    return driver_.failure(status, "cuMemHostAlloc");
  }
  blocks_.push_back(block);
  auto* const records = static_cast<failure_report*>(block.host);
  std::uninitialized_default_construct_n(records, kAtOnce);
  PENSTOCK_TRY(driver_.check(driver_.copy_to_device(block.device, records, kBytes, stream), "cuMemcpyHtoDAsync"));
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    auto made = std::make_unique<read_slot>();
    made->device = block.device + i * sizeof(failure_report);
    made->host = records + i;
    PENSTOCK_TRY(driver_.check(driver_.event_create(&made->done, kEventDisableTiming), "cuEventCreate"));
    free_.push_front(made.get());
    all_.push_back(std::move(made));
  }
  return {};
}

void read_slots::give(read_slot* slot) noexcept {
  const auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const auto& each) { return each.slot == slot; });
  if (found != watched_.end()) {
    found->left = true;
  } else {
    free_.push_back(slot);
  }
}

void read_slots::watch(read_slot* slot, std::function<error(const failure_report&)> describe) {
  watched_.push_back({slot, std::move(describe)});
}

void read_slots::unwatch(read_slot* slot) noexcept {
  std::erase_if(watched_, [&](const auto& each) { return each.slot == slot; });
}

void read_slots::query_watched() noexcept {
  for (const watched_report& each : watched_) {
    bool& queued = each.slot->state_.queued;
    queued = queued && driver_.event_query(each.slot->done) != kSuccess;
  }
}

std::vector<event_ref> read_slots::watched_ends() const {
  std::vector<event_ref> out;
  for (const watched_report& each : watched_) out.push_back(each.slot->done);
  return out;
}

result<> read_slots::outcome() {
  while (!watched_.empty() && !watched_.front().slot->state_.queued) {
    const watched_report seen = std::move(watched_.front());
    watched_.pop_front();
    if (seen.left) free_.push_back(seen.slot);
    if (seen.slot->host->failed == 0) continue;
    ++failures_;
    if (!failure_) failure_.emplace(seen.describe(*seen.slot->host));
  }
  if (!failure_) [[likely]]
    return {};
  error out = std::move(*failure_);
  failure_.reset();
  if (const std::uint64_t failures = std::exchange(failures_, 0); failures > 1)
    out.note(fmt::format("{} reads failed like this; this was the first", failures));
  out.note("of an earlier read, whose values were exported and whose outcome was not queried (check=True does)");
  return out;
}

}  // namespace penstock::inline v0::cuda
