#include "cuda/page_locked_ring.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory_node.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kRingAlignment = 256;
constexpr std::uint64_t kSegmentBytes = std::uint64_t{32} << 20;

std::uint64_t room_for(std::uint64_t bytes) { return std::max(kRingAlignment, round_up(bytes, kRingAlignment)); }

}  // namespace

page_locked_ring::page_locked_ring(const driver& with, context_ref context, std::uint64_t limit_bytes,
                                   std::optional<unsigned> node) noexcept
    : driver_(with), context_(context), node_(node), limit_(limit_bytes / kRingAlignment * kRingAlignment) {}

void page_locked_ring::clear() noexcept {
  std::vector<segment> all;
  {
    const mutex_lock lock(mutex_);
    all.swap(segments_);
    held_.store(0, std::memory_order_relaxed);
  }
  if (all.empty()) return;
  const current_context current(driver_, context_);
  for (const segment& each : all) give_page_locked(driver_, each.memory);
}

std::byte* page_locked_ring::take(std::uint64_t bytes) {
  for (;;) {
    if (std::byte* const found = take_held(bytes)) return found;
    if (!grow(bytes)) return nullptr;
  }
}

std::byte* page_locked_ring::take_held(std::uint64_t bytes) {
  if (!can_hold(bytes)) return nullptr;
  bytes = room_for(bytes);
  const mutex_lock lock(mutex_);
  for (segment& each : segments_)
    if (std::byte* const found = take_from(each, bytes)) return found;
  return nullptr;
}

std::byte* page_locked_ring::take_from(segment& in, std::uint64_t bytes) {
  for (std::size_t i = 0; i < in.free.size(); ++i) {
    range& room = in.free[i];
    if (room.end - room.begin < bytes) continue;
    const std::uint64_t begin = room.begin;
    room.begin += bytes;
    if (room.begin == room.end) in.free.erase(in.free.begin() + static_cast<std::ptrdiff_t>(i));
    in.taken.push_back({{begin, begin + bytes}});
    used_.fetch_add(bytes, std::memory_order_relaxed);
    return in.memory.data + begin;
  }
  return nullptr;
}

// Owned by the owner of the block.
page_locked_ring::found_block page_locked_ring::find(const std::byte* block) noexcept {
  const auto in =
      std::find_if(segments_.begin(), segments_.end(), [&](const segment& one) { return one.holds(block); });
  const auto begin = static_cast<std::uint64_t>(block - in->memory.data);
  return {&*in, &*std::find_if(in->taken.begin(), in->taken.end(),
                               [&](const taken_range& one) { return one.begin == begin; })};
}

void page_locked_ring::share(std::byte* block) noexcept {
  const mutex_lock lock(mutex_);
  ++find(block).what->users;
}

void page_locked_ring::give(std::byte* block) noexcept {
  const mutex_lock lock(mutex_);
  const auto [in, what] = find(block);
  if (--what->users != 0) return;
  const range back = *what;
  *what = in->taken.back();
  in->taken.pop_back();
  used_.fetch_sub(back.end - back.begin, std::memory_order_relaxed);
  give_range(*in, back);
}

void page_locked_ring::shrink(std::byte* block, std::uint64_t bytes) noexcept {
  bytes = room_for(bytes);
  const mutex_lock lock(mutex_);
  const auto [in, what] = find(block);
  const range back{what->begin + bytes, what->end};
  if (back.begin >= back.end) return;
  what->end = back.begin;
  used_.fetch_sub(back.end - back.begin, std::memory_order_relaxed);
  give_range(*in, back);
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

bool page_locked_ring::has_room(std::uint64_t bytes) const noexcept {
  return std::any_of(segments_.begin(), segments_.end(), [&](const segment& in) {
    return std::any_of(in.free.begin(), in.free.end(), [&](const range& one) { return one.end - one.begin >= bytes; });
  });
}

// The amount that may still be requested from the driver.
std::uint64_t page_locked_ring::left() const noexcept {
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  return limit - std::min(limit, held_.load(std::memory_order_relaxed));
}

// The amount that would remain if all idle segments were released.
bool page_locked_ring::idle_suffice(std::uint64_t bytes) const noexcept {
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  std::uint64_t busy = held_.load(std::memory_order_relaxed);
  for (const segment& each : segments_)
    if (each.taken.empty()) busy -= each.memory.bytes;
  return busy <= limit && bytes <= limit - busy;
}

bool page_locked_ring::may_grow(std::uint64_t bytes) const {
  if (!can_hold(bytes)) return false;
  bytes = room_for(bytes);
  const mutex_lock lock(mutex_);
  return idle_suffice(bytes);
}

bool page_locked_ring::grow(std::uint64_t bytes) {
  if (!can_hold(bytes)) return false;
  bytes = room_for(bytes);
  const mutex_lock one_by_one(growing_);
  std::vector<page_locked_memory> idle;
  {
    const mutex_lock lock(mutex_);
    // An earlier one in the queue may have released the memory.
    if (has_room(bytes)) return true;
    if (!idle_suffice(bytes)) return false;
    idle = take_idle(bytes);
  }
  const current_context current(driver_, context_);
  for (const page_locked_memory& each : idle) give_page_locked(driver_, each);
  return add_segment(bytes);
}

// The idle segments that must be released before a new one fits.
std::vector<page_locked_memory> page_locked_ring::take_idle(std::uint64_t bytes) {
  std::vector<page_locked_memory> out;
  std::erase_if(segments_, [&](const segment& each) {
    if (!each.taken.empty() || bytes <= left()) return false;
    out.push_back(each.memory);
    held_.fetch_sub(each.memory.bytes, std::memory_order_relaxed);
    return true;
  });
  return out;
}

// Returns false if the machine has no more memory.
bool page_locked_ring::add_segment(std::uint64_t bytes) {
  while (bytes <= left()) {
    std::uint64_t limit = limit_.load(std::memory_order_relaxed);
    const std::uint64_t size = std::max(bytes, std::min(kSegmentBytes, left()));
    const preferred_node near(node_);
    if (const page_locked_memory made = take_page_locked(driver_, size); made.data != nullptr) {
      segment added{made, {}, {}};
      added.free.reserve(256);
      added.taken.reserve(256);
      added.free.push_back({0, size});
      const mutex_lock lock(mutex_);
      segments_.push_back(std::move(added));
      held_.fetch_add(size, std::memory_order_relaxed);
      return true;
    }
    // Threads must not wait for it. A ring that was closed in the meantime remains closed.
    const std::uint64_t less = held_.load(std::memory_order_relaxed) + size / 2 / kRingAlignment * kRingAlignment;
    limit_.compare_exchange_strong(limit, less, std::memory_order_relaxed);
  }
  return false;
}

}  // namespace penstock::inline v0::cuda
