#include "store/open_file_cache.h"

namespace penstock::inline v0 {
namespace {

/// Threads that look up different files seldom wait for each other, and a scan stays short.
constexpr unsigned kStripes = 8;

}  // namespace

open_file_cache::open_file_cache(unsigned capacity)
    : stripes_(capacity >= 2 * kStripes ? kStripes : 1), most_slots_(capacity / stripes_.size()) {}

open_file_ref open_file_cache::find(std::string_view key) noexcept {
  const std::uint64_t hash = hash_of(key);
  stripe& in = stripe_of(hash);
  const std::lock_guard lock(in.mutex);
  for (slot& each : in.slots) {
    if (each.used == 0 || each.hash != hash || each.file->key() != key) continue;
    each.used = ++in.now;
    return each.file;
  }
  return {};
}

void open_file_cache::insert(const open_file_ref& file) {
  const std::uint64_t hash = hash_of(file->key());
  stripe& in = stripe_of(hash);
  open_file_ref evicted;  // closed after the lock: closing may wait for a file server
  const std::lock_guard lock(in.mutex);
  slot* to = nullptr;
  slot* oldest = nullptr;
  for (slot& each : in.slots) {
    if (each.used != 0 && each.hash == hash && each.file->key() == file->key()) {
      to = &each;
      break;
    }
    if (oldest == nullptr || each.used < oldest->used) oldest = &each;
  }
  if (to == nullptr) {
    const bool is_full = oldest == nullptr || oldest->used != 0;
    to = is_full && in.slots.size() < most_slots_ ? &in.slots.emplace_back() : oldest;
  }
  if (to == nullptr) return;
  evicted = std::exchange(to->file, file);
  to->hash = hash;
  to->used = ++in.now;
}

void open_file_cache::drop(const open_file_ref& file) noexcept {
  stripe& in = stripe_of(hash_of(file->key()));
  open_file_ref dropped;
  const std::lock_guard lock(in.mutex);
  for (slot& each : in.slots) {
    if (each.used == 0 || !(each.file == file)) continue;
    dropped = std::exchange(each.file, {});
    each.used = 0;
    return;
  }
}

void open_file_cache::clear() noexcept {
  for (stripe& each : stripes_) {
    const std::lock_guard lock(each.mutex);
    for (slot& one : each.slots) {
      one.file = {};
      one.used = 0;
    }
  }
}

}  // namespace penstock::inline v0
