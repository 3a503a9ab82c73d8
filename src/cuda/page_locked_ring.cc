#include "cuda/page_locked_ring.h"

#include <algorithm>

#include "base/checked.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kRingAlignment = 256;
constexpr std::uint64_t kSegmentBytes = std::uint64_t{32} << 20;

std::uint64_t room_for(std::uint64_t bytes) { return std::max(kRingAlignment, round_up(bytes, kRingAlignment)); }

}  // namespace

page_locked_ring::page_locked_ring(const driver& with, context_ref context, std::uint64_t limit_bytes) noexcept
    : driver_(with), context_(context), limit_(limit_bytes / kRingAlignment * kRingAlignment) {}

void page_locked_ring::clear() noexcept {
  const std::lock_guard lock(mutex_);
  if (segments_.empty()) return;
  const current_context current(driver_, context_);
  for (const segment& each : segments_) driver_.mem_free_host(each.data);
  segments_.clear();
  held_.store(0, std::memory_order_relaxed);
}

std::byte* page_locked_ring::take(std::uint64_t bytes) {
  if (!can_hold(bytes)) return nullptr;
  bytes = room_for(bytes);
  const std::lock_guard lock(mutex_);
  for (segment& each : segments_)
    if (std::byte* const found = take_from(each, bytes)) return found;
  if (!grow(bytes)) return nullptr;
  return take_from(segments_.back(), bytes);
}

std::byte* page_locked_ring::take_from(segment& in, std::uint64_t bytes) {
  for (std::size_t i = 0; i < in.free.size(); ++i) {
    range& room = in.free[i];
    if (room.end - room.begin < bytes) continue;
    const std::uint64_t begin = room.begin;
    room.begin += bytes;
    if (room.begin == room.end) in.free.erase(in.free.begin() + static_cast<std::ptrdiff_t>(i));
    in.taken.push_back({begin, begin + bytes});
    used_.fetch_add(bytes, std::memory_order_relaxed);
    return in.data + begin;
  }
  return nullptr;
}

void page_locked_ring::give(std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  for (segment& each : segments_) {
    if (block < each.data || block >= each.data + each.bytes) continue;
    const auto begin = static_cast<std::uint64_t>(block - each.data);
    const auto taken =
        std::find_if(each.taken.begin(), each.taken.end(), [&](const range& one) { return one.begin == begin; });
    const range back = *taken;
    *taken = each.taken.back();
    each.taken.pop_back();
    used_.fetch_sub(back.end - back.begin, std::memory_order_relaxed);
    return give_range(each, back);
  }
}

void page_locked_ring::shrink(std::byte* block, std::uint64_t bytes) noexcept {
  bytes = room_for(bytes);
  const std::lock_guard lock(mutex_);
  for (segment& each : segments_) {
    if (block < each.data || block >= each.data + each.bytes) continue;
    const auto begin = static_cast<std::uint64_t>(block - each.data);
    const auto taken =
        std::find_if(each.taken.begin(), each.taken.end(), [&](const range& one) { return one.begin == begin; });
    const range back{begin + bytes, taken->end};
    if (back.begin >= back.end) return;
    taken->end = back.begin;
    used_.fetch_sub(back.end - back.begin, std::memory_order_relaxed);
    return give_range(each, back);
  }
}

void page_locked_ring::give_range(segment& in, range back) noexcept {
  auto after = std::find_if(in.free.begin(), in.free.end(), [&](const range& one) { return one.begin >= back.end; });
  after = in.free.insert(after, back);
  if (const auto next = after + 1; next != in.free.end() && next->begin == after->end) {
    after->end = next->end;
    in.free.erase(next);
  }
  if (after != in.free.begin() && (after - 1)->end == after->begin) {
    (after - 1)->end = after->end;
    in.free.erase(after);
  }
}

// False: `bytes` will never fit, or blocks that others have are in the way.
bool page_locked_ring::grow(std::uint64_t bytes) {
  const current_context current(driver_, context_);
  for (;;) {
    const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
    const auto left = [&] { return limit - std::min(limit, held_.load(std::memory_order_relaxed)); };
    if (bytes > left()) free_idle(bytes, limit);
    if (bytes > left()) return false;
    const std::uint64_t size = std::max(bytes, std::min(kSegmentBytes, left()));
    void* made = nullptr;
    if (driver_.mem_host_alloc(&made, size, kHostAllocPortable) == kSuccess) {
      segment& added = segments_.emplace_back();
      added.data = static_cast<std::byte*>(made);
      added.bytes = size;
      added.free.reserve(256);
      added.taken.reserve(256);
      added.free.push_back({0, size});
      held_.fetch_add(size, std::memory_order_relaxed);
      return true;
    }
    // The machine has no more: nobody is to wait for it.
    const std::uint64_t held = held_.load(std::memory_order_relaxed);
    limit_.store(held + size / 2 / kRingAlignment * kRingAlignment, std::memory_order_relaxed);
  }
}

// Gives the machine as many idle segments as a new one of so many bytes needs, or none where they are too few.
void page_locked_ring::free_idle(std::uint64_t bytes, std::uint64_t limit) {
  std::uint64_t held = held_.load(std::memory_order_relaxed), idle = 0;
  for (const segment& each : segments_)
    if (each.taken.empty()) idle += each.bytes;
  if (held - idle > limit || bytes > limit - (held - idle)) return;
  std::erase_if(segments_, [&](const segment& each) {
    if (!each.taken.empty() || (held <= limit && bytes <= limit - held)) return false;
    driver_.mem_free_host(each.data);
    held -= each.bytes;
    return true;
  });
  held_.store(held, std::memory_order_relaxed);
}

}  // namespace penstock::inline v0::cuda
