#include "base/output_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/fork_local.h"
#include "base/system_calls.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
/// From this size on memory is requested in huge pages: one page fault instead of 512.
constexpr std::uint64_t kHugeFrom = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostPooledBytes = std::uint64_t{1} << 56;

// Sixteen sizes to each power of two: results of similar sizes reuse each other's memory. Untouched memory of the last
// step costs nothing.
std::uint64_t size_class(std::uint64_t bytes) noexcept {
  const std::uint64_t power = std::uint64_t{1} << (63 - __builtin_clzll(bytes));
  return round_up(round_up(bytes, std::max(power / 16, kPage)), bytes >= kHugeFrom ? kHugePage : kPage);
}

void unmap(std::byte* data, std::uint64_t bytes) noexcept { munmap(data, static_cast<std::size_t>(bytes)); }

std::byte* map(std::uint64_t bytes) noexcept {
  const bool huge = bytes >= kHugeFrom;
  const std::uint64_t slack = huge ? kHugePage - kPage : 0;
  void* const at = mmap(nullptr, static_cast<std::size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(at);
  if (!huge) return first;
  const std::uint64_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
  std::byte* const data = first + before;
  if (before != 0) unmap(first, before);
  if (slack != before) unmap(data + bytes, slack - before);
  use_huge_pages(data, static_cast<std::size_t>(bytes));  // small pages work as well
  return data;
}

/// Idle memory in small pages up to this size is kept; more is offered to the system.
///
/// The cost of MADV_FREE, on an EPYC with Linux 6.18, for 400 MB: in huge pages 0.1 ms, and writing to them again is as
/// fast as before (18 ms); in 4 KiB pages 24 ms, and writing again takes 90 ms instead of 33. Fresh memory takes 139 ms
/// in huge pages and 600 ms in small ones. So huge pages are always offered, small ones only above this size.
constexpr std::uint64_t kMaxUnoffered = std::uint64_t{64} << 20;

// Lets the system take the pages until they are written again. Only for memory that is not in use.
void offer(std::byte* data, std::uint64_t bytes) noexcept { madvise(data, static_cast<std::size_t>(bytes), MADV_FREE); }

}  // namespace

/// Shared by the pool and its blocks; lives until the last of them is destroyed.
class output_pool_state {
 public:
  explicit output_pool_state(ledger& accounts) noexcept : accounts_(&accounts) {}

  void share() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void unshare() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// False in a forked child: the lock may be held by a thread that does not exist here, the lists may be inconsistent.
  bool mine() const noexcept { return generation_ == fork_clock::now(); }

  /// The smallest idle region of at least `bytes` that wastes at most a quarter of them, or a new one from `map`.
  std::byte* take(std::uint64_t bytes, std::uint64_t& mapped) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end() || found->first > std::max(bytes + bytes / 4, size_class(bytes))) return nullptr;
    mapped = found->first;
    const auto chosen = by_age_.find(~found->second);
    std::byte* const data = chosen->second.data;
    by_size_.erase(found);
    forget(chosen->second);
    by_age_.erase(chosen);
    return data;
  }

  void keep(std::byte* data, std::uint64_t bytes) noexcept {
    regions gone;
    bool kept = bytes < kHugeFrom && file({data, bytes, false}, gone);
    if (!kept) {
      offer(data, bytes);  // before it is added: from then on another thread may write to it
      kept = file({data, bytes, true}, gone);
    }
    if (!kept) unmap(data, bytes);
    unmap_all(gone);
  }

  void clear() noexcept {
    regions gone;
    {
      const std::lock_guard lock(mutex_);
      while (!by_age_.empty()) drop_oldest(gone);
    }
    unmap_all(gone);
  }

  /// The pool and its ledger are being destroyed; blocks that are returned later are unmapped.
  void close() noexcept {
    clear();
    const std::lock_guard lock(mutex_);
    accounts_ = nullptr;
  }

 private:
  struct region {
    std::byte* data;
    std::uint64_t bytes;
    bool offered;
  };
  using regions = std::map<std::uint64_t, region>;

  // Returns false if the memory is not kept. Regions that were removed to make space are moved to `gone`.
  bool file(const region& idle, regions& gone) noexcept {
    const std::uint64_t bytes = idle.bytes;
    const std::lock_guard lock(mutex_);
    if (accounts_ == nullptr || bytes > accounts_->output_limit()) return false;
    if (!idle.offered && unoffered_ + bytes > kMaxUnoffered) return false;
    const std::uint64_t room = accounts_->output_limit() - bytes;
    while (!by_age_.empty() && accounts_->held(memory_use::output_pool) > room) drop_oldest(gone);
    if (!accounts_->take(memory_use::output_pool, bytes).ok()) return false;
    const std::uint64_t number = next_number_++;
    try {
      by_age_.emplace(number, idle);
      by_size_.emplace(bytes, ~number);
    } catch (const std::bad_alloc&) {
      by_age_.erase(number);
      accounts_->give(memory_use::output_pool, bytes);
      return false;
    }
    if (!idle.offered) unoffered_ += bytes;
    return true;
  }

  // Unmapping gigabytes takes long, so the caller unmaps without the lock. Moving a node allocates nothing.
  void drop_oldest(regions& gone) noexcept {
    const auto oldest = by_age_.begin();
    by_size_.erase({oldest->second.bytes, ~oldest->first});
    forget(oldest->second);
    gone.insert(by_age_.extract(oldest));
  }
  void forget(const region& idle) noexcept {
    if (!idle.offered) unoffered_ -= idle.bytes;
    accounts_->give(memory_use::output_pool, idle.bytes);
  }
  static void unmap_all(const regions& gone) noexcept {
    for (const auto& each : gone) unmap(each.second.data, each.second.bytes);
  }

  const std::uint64_t generation_ = fork_clock::now();
  std::atomic<std::size_t> owners_{1};
  std::mutex mutex_;  // protects the members below
  ledger* accounts_;
  std::uint64_t unoffered_ = 0;
  std::uint64_t next_number_ = 0;
  regions by_age_;
  /// Keys are sizes with the complement of the region's number: among equal sizes the newest, still in the caches, is
  /// first.
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

output_block::~output_block() {
  if (pool_ == nullptr) return;
  if (pool_->mine()) {
    pool_->keep(data_, mapped_bytes_);
    pool_->unshare();
  } else {
    unmap(data_, mapped_bytes_);  // this process's copy; the parent's pool is leaked with the parent's state
  }
}

output_pool::output_pool(ledger& accounts) {
  fork_clock::start();
  state_ = new output_pool_state(accounts);
}

output_pool::~output_pool() {
  if (!state_->mine()) return;
  state_->close();
  state_->unshare();
}

result<output_block> output_pool::take(std::uint64_t bytes) {
  if (bytes == 0) return output_block();
  const bool mine = state_->mine();
  std::byte* data = nullptr;
  std::uint64_t mapped = 0;
  if (bytes <= kMostPooledBytes) {
    if (mine) data = state_->take(bytes, mapped);
    if (data == nullptr) {
      mapped = size_class(bytes);
      data = map(mapped);
      if (data == nullptr && mine) {
        state_->clear();
        data = map(mapped);
      }
    }
  }
  if (data == nullptr)
    return error(errc::resource_exhausted, fmt::format("the system has no memory for a result of {} bytes", bytes));
  if (mine) state_->share();
  return output_block(data, bytes, mapped, state_);
}

void output_pool::clear() noexcept {
  if (state_->mine()) state_->clear();
}

}  // namespace penstock::inline v0
