#include "engine/index_cache.h"

#include <iterator>

namespace penstock::inline v0 {
namespace {

std::uint64_t mix(std::uint64_t value) noexcept {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29);
}

}  // namespace

std::size_t index_cache::hash::operator()(const key_type& key) const noexcept {
  return static_cast<std::size_t>(mix(mix(mix(key.uid) + key.object) + key.node));
}

bool index_cache::find(std::uint64_t uid, const index_key& key, index_entry& out) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find({uid, key.object, key.node});
  if (found == by_key_.end()) {
    ++misses_;
    return false;
  }
  ++hits_;
  if (found->second != order_.begin()) order_.splice(order_.begin(), order_, found->second);
  out = found->second->entry;
  return true;
}

void index_cache::insert(std::uint64_t uid, const index_key& key, const index_entry& entry) {
  const std::lock_guard lock(mutex_);
  const key_type name{uid, key.object, key.node};
  if (const auto found = by_key_.find(name); found != by_key_.end()) remove(found->second);
  const std::uint64_t bytes = sizeof(slot) + (entry.block ? entry.block->memory_bytes() : 0);
  if (!ledger_.take(memory_use::index, bytes).ok()) return;  // no space: the next read requests it from storage again
  order_.push_front({name, entry, bytes});
  by_key_.emplace(name, order_.begin());
  ++entries_of_[uid];
  bytes_ += bytes;
  while (bytes_ > limit_bytes_ && order_.size() > 1) remove(std::prev(order_.end()));
}

void index_cache::drop(std::uint64_t uid, object_id object) {
  const std::lock_guard lock(mutex_);
  drop_where(uid, [&](const key_type& key) { return key.object == object; });
}

void index_cache::drop_all(std::uint64_t uid) {
  const std::lock_guard lock(mutex_);
  drop_where(uid, [](const key_type&) { return true; });
}

template <class Which>
void index_cache::drop_where(std::uint64_t uid, const Which& which) {
  const auto own = entries_of_.find(uid);
  std::size_t left = own == entries_of_.end() ? 0 : own->second;
  for (auto at = order_.begin(); left > 0;) {
    const auto next = std::next(at);
    if (at->key.uid == uid) {
      --left;
      if (which(at->key)) remove(at);
    }
    at = next;
  }
}

void index_cache::clear() {
  const std::lock_guard lock(mutex_);
  while (!order_.empty()) remove(order_.begin());
}

std::uint64_t index_cache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

std::uint64_t index_cache::misses() const {
  const std::lock_guard lock(mutex_);
  return misses_;
}

void index_cache::remove(slots::iterator at) {
  bytes_ -= at->bytes;
  ledger_.give(memory_use::index, at->bytes);
  by_key_.erase(at->key);
  const auto own = entries_of_.find(at->key.uid);
  if (--own->second == 0) entries_of_.erase(own);
  order_.erase(at);
}

std::size_t index_table::probe(std::uint32_t source, const index_key& key) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(mix(mix(key.object + source) + key.node)) & mask;
  while (slots_[at].entry != nullptr && !(slots_[at].source == source && slots_[at].key == key)) at = (at + 1) & mask;
  return at;
}

const index_entry* index_table::find(std::uint32_t source, const index_key& key) const noexcept {
  return used_.empty() ? nullptr : slots_[probe(source, key)].entry;
}

index_entry& index_table::insert(std::uint32_t source, const index_key& key) {
  if (used_.size() * 2 >= slots_.size()) grow();
  const std::size_t at = probe(source, key);
  slot& place = slots_[at];
  if (place.entry == nullptr) {
    if (used_.size() == entries_.size()) entries_.push_back(std::make_unique<index_entry>());
    place = {key, source, entries_[used_.size()].get()};
    used_.push_back(static_cast<std::uint32_t>(at));
  }
  *place.entry = index_entry();
  return *place.entry;
}

void index_table::clear() noexcept {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    slots_[used_[i]].entry = nullptr;
    *entries_[i] = index_entry();  // releases blocks and versions
  }
  used_.clear();
}

void index_table::grow() {
  const std::vector<slot> old = std::move(slots_);
  slots_.assign(old.empty() ? 8 : old.size() * 2, slot());
  for (std::uint32_t& at : used_) {
    const slot& each = old[at];
    const std::size_t to = probe(each.source, each.key);
    slots_[to] = each;
    at = static_cast<std::uint32_t>(to);
  }
}

}  // namespace penstock::inline v0
