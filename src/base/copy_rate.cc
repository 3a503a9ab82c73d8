#include "base/copy_rate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/process_limits.h"

namespace penstock::inline v0 {
namespace {

using clock = std::chrono::steady_clock;

constexpr unsigned kMostThreads = 16;
/// Source and target of all threads: more than the caches of most processors. Touching it takes most of the time.
constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kDuration{6};

/// The memory and the copies of one thread.
class lane {
 public:
  void touch(std::size_t bytes) noexcept {
    memory_.reset(new (std::nothrow) std::byte[2 * bytes]);
    if (memory_ != nullptr) std::memset(memory_.get(), 1, 2 * bytes);
    bytes_ = bytes;
  }
  void copy() noexcept {
    begin = end = clock::now();
    if (memory_ == nullptr) return;
    do {
      std::memcpy(memory_.get(), memory_.get() + bytes_, bytes_);
      copied += bytes_;
      end = clock::now();
    } while (end - begin < kDuration);
  }

  std::uint64_t copied = 0;
  clock::time_point begin, end;

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

double measure(unsigned threads) {
  std::vector<lane> lanes(threads);
  std::vector<std::thread> others;
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> start{false};
  const std::size_t bytes = kBytes / 2 / threads;
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    try {
      others.emplace_back([&, mine = &lanes[i]] {
        mine->touch(bytes);
        ready.fetch_add(1, std::memory_order_release);
        while (!start.load(std::memory_order_acquire)) std::this_thread::yield();
        mine->copy();
      });
    } catch (const std::system_error&) {  // the system allows no more threads
      break;
    }
  }
  lanes[0].touch(bytes);
  while (ready.load(std::memory_order_acquire) < others.size()) std::this_thread::yield();
  start.store(true, std::memory_order_release);
  lanes[0].copy();
  for (std::thread& each : others) each.join();
  std::uint64_t copied = 0;
  clock::time_point begin = lanes[0].begin, end = lanes[0].end;
  for (std::size_t i = 0; i <= others.size(); ++i) {
    copied += lanes[i].copied;
    begin = std::min(begin, lanes[i].begin);
    end = std::max(end, lanes[i].end);
  }
  const double seconds = std::chrono::duration<double>(end - begin).count();
  return seconds > 0 ? static_cast<double>(copied) / seconds : 0;
}

}  // namespace

double copy_rate(unsigned threads) {
  static std::mutex mutex;
  static std::array<double, kMostThreads + 1> known{};
  const unsigned wanted = threads == 0 ? find_process_limits().processors() : threads;
  const unsigned used = std::clamp(wanted, 1U, kMostThreads);
  const std::lock_guard lock(mutex);
  if (known[used] <= 0) known[used] = measure(used);
  return known[used];
}

}  // namespace penstock::inline v0
