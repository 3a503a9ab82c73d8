#include "engine/cell_cache.h"

#include <iterator>
#include <utility>

namespace penstock::inline v0 {
namespace {

/// A cell was read recently if fewer bytes were read since then than this multiple of the cache's size.
constexpr std::uint64_t kMemory = 2;
/// The fraction of recently requested parts above which cells are cached. A fifth: every fourth cell is requested
/// twice, and caching one uselessly costs at most a fifth of decoding it.
constexpr std::int32_t kAll = 1 << 16, kOften = kAll / 5;
/// About this many parts count as recent.
constexpr std::int32_t kLately = 32;

std::uint64_t mixed(std::uint64_t uid, cell_id cell) noexcept {
  std::uint64_t value = (uid * 0x9e3779b97f4a7c15ULL) ^ cell;
  value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93ULL;
  return value ^ (value >> 29);
}

}  // namespace

std::size_t cell_cache::hash::operator()(const key_type& key) const noexcept {
  return static_cast<std::size_t>(mixed(key.uid, key.cell));
}

std::shared_ptr<const kept_cell> cell_cache::find(std::uint64_t uid, cell_id cell, const version& expected) {
  if (empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find({uid, cell});
  if (found == by_key_.end()) return nullptr;
  if (expected.known() && !(expected == found->second->cell->seen)) {
    remove(found->second);
    return nullptr;
  }
  order_.splice(order_.begin(), order_, found->second);
  hits_.fetch_add(1, std::memory_order_relaxed);
  note_return(true);
  return found->second->cell;
}

bool cell_cache::is_worth_keeping(std::uint64_t uid, cell_id cell, std::uint64_t decoded_bytes) noexcept {
  if (decoded_bytes == 0 || decoded_bytes > limit_bytes_) return false;
  const std::uint64_t name = mixed(uid, cell) | 1;
  const std::uint64_t now = read_in_part_.fetch_add(decoded_bytes, std::memory_order_relaxed) + decoded_bytes;
  trace& mine = traces_[(name >> 1) % traces_.size()];
  const std::uint64_t before = mine.when.exchange(now, std::memory_order_relaxed);
  const bool returns =
      mine.cell.exchange(name, std::memory_order_relaxed) == name && now - before <= kMemory * limit_bytes_;
  note_return(returns);
  return returns || returns_.load(std::memory_order_relaxed) > kOften;
}

// A moving average. Two threads may lose one of their updates.
void cell_cache::note_return(bool returns) noexcept {
  const std::int32_t before = returns_.load(std::memory_order_relaxed);
  returns_.store(before + ((returns ? kAll : 0) - before) / kLately, std::memory_order_relaxed);
}

std::shared_ptr<kept_cell> cell_cache::make_room(std::uint64_t decoded_bytes) {
  auto made = std::make_shared<kept_cell>(kept_cell{{}, {}, buffer(&ledger_, memory_use::cells)});
  const auto room = made->memory.reserve(decoded_bytes);
  if (!room.ok() || made->memory.capacity() > limit_bytes_) return nullptr;
  made->items = room->first(static_cast<std::size_t>(decoded_bytes));
  return made;
}

void cell_cache::insert(std::uint64_t uid, cell_id cell, std::shared_ptr<const kept_cell> made) {
  const std::lock_guard lock(mutex_);
  const key_type name{uid, cell};
  if (const auto found = by_key_.find(name); found != by_key_.end()) remove(found->second);
  bytes_.fetch_add(made->memory.capacity(), std::memory_order_relaxed);
  order_.push_front({name, std::move(made)});
  by_key_.emplace(name, order_.begin());
  while (bytes_.load(std::memory_order_relaxed) > limit_bytes_) remove(std::prev(order_.end()));
}

void cell_cache::drop(std::uint64_t uid, cell_id cell) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find({uid, cell}); found != by_key_.end()) remove(found->second);
}

void cell_cache::drop_all(std::uint64_t uid) {
  if (empty()) return;
  const std::lock_guard lock(mutex_);
  for (auto at = order_.begin(); at != order_.end();) {
    const auto next = std::next(at);
    if (at->key.uid == uid) remove(at);
    at = next;
  }
}

void cell_cache::clear() {
  const std::lock_guard lock(mutex_);
  while (!order_.empty()) remove(order_.begin());
}

void cell_cache::remove(slots::iterator at) {
  bytes_.fetch_sub(at->cell->memory.capacity(), std::memory_order_relaxed);
  by_key_.erase(at->key);
  order_.erase(at);
}

}  // namespace penstock::inline v0
