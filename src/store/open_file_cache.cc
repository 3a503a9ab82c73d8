#include "store/open_file_cache.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>

#include "base/fork_local.h"

namespace penstock::inline v0 {
namespace {

std::ptrdiff_t half_of_all_descriptors() noexcept {
  struct ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 128;
  return static_cast<std::ptrdiff_t>(limit.rlim_cur / 2);  // also if it is infinite
}

}  // namespace

unsigned open_file_limit(unsigned wanted) noexcept {
  constexpr unsigned kAlwaysFew = 8;
  if (wanted <= kAlwaysFew) return wanted;
  struct ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::min(wanted, 64U);
  return static_cast<unsigned>(std::min<std::uint64_t>(wanted, limit.rlim_cur / 4));
}

/// The caches that hold files, in the order in which they began to hold them. Its lock is taken before those of
/// stripes, never after.
class open_file_cache::holders {
 public:
  /// Never destroyed: arrays may outlive static objects.
  static holders& of_process() {
    static auto* const made = new fork_local<holders>([] { return std::make_unique<holders>(); });
    return made->get();
  }

  void add(open_file_cache& cache) {
    {
      const std::lock_guard lock(mutex_);
      if (!cache.is_holder_) cache.place_ = caches_.insert(caches_.end(), &cache);
      cache.is_holder_ = true;
    }
    if (!has_too_many()) return;
    most_files_ = half_of_all_descriptors();  // the limit may have changed
    while (has_too_many() && clear_first()) {
    }
  }
  void remove(open_file_cache& cache) noexcept {
    const std::lock_guard lock(mutex_);
    if (cache.is_holder_) caches_.erase(cache.place_);
  }
  void clear() noexcept {
    most_files_ = half_of_all_descriptors();
    while (clear_first()) {
    }
  }
  void count(std::ptrdiff_t more) noexcept { files_.fetch_add(more, std::memory_order_relaxed); }

 private:
  bool has_too_many() const noexcept {
    return files_.load(std::memory_order_relaxed) > most_files_.load(std::memory_order_relaxed);
  }
  bool clear_first() noexcept {
    contents closed;  // after the lock: closing may wait for a file server
    const std::lock_guard lock(mutex_);
    if (caches_.empty()) return false;
    open_file_cache& first = *caches_.front();
    caches_.pop_front();
    first.is_holder_ = false;
    closed = first.take_all();
    return true;
  }

  std::mutex mutex_;
  std::list<open_file_cache*> caches_;
  std::atomic<std::ptrdiff_t> most_files_ = half_of_all_descriptors();
  std::atomic<std::ptrdiff_t> files_ = 0;
};

open_file_cache::open_file_cache(unsigned capacity)
    : stripes_(capacity >= 2 * kStripes ? kStripes : 1), most_slots_(capacity / stripes_.size()) {}

open_file_cache::~open_file_cache() {
  holders::of_process().remove(*this);
  take_all();
}

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
  if (put(file)) holders::of_process().add(*this);
}

bool open_file_cache::put(const open_file_ref& file) {
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
  if (to == nullptr) return false;
  evicted = std::exchange(to->file, file);
  to->hash = hash;
  to->used = ++in.now;
  if (evicted) return false;
  holders::of_process().count(1);
  return true;
}

void open_file_cache::drop(const open_file_ref& file) noexcept {
  stripe& in = stripe_of(hash_of(file->key()));
  open_file_ref dropped;
  const std::lock_guard lock(in.mutex);
  for (slot& each : in.slots) {
    if (each.used == 0 || !(each.file == file)) continue;
    dropped = std::exchange(each.file, {});
    each.used = 0;
    holders::of_process().count(-1);
    return;
  }
}

open_file_cache::contents open_file_cache::take_all() noexcept {
  contents taken;
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    const std::lock_guard lock(stripes_[i].mutex);
    taken[i] = std::exchange(stripes_[i].slots, {});
    const auto held = std::ranges::count_if(taken[i], [](const slot& each) { return each.used != 0; });
    holders::of_process().count(-held);
  }
  return taken;
}

void open_file_cache::clear_all() noexcept { holders::of_process().clear(); }

}  // namespace penstock::inline v0
