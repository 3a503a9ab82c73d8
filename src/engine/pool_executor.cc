#include "engine/pool_executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::inline v0 {
namespace {

/// How long a thread of the pool works for a job while others wait for a thread: long compared with a switch, short
/// compared with a read.
constexpr std::chrono::milliseconds kTurn{1};

}  // namespace

// The workers of one job. All fields but `epoch` are guarded by the pool's mutex.
struct pool_executor::crew {
  std::shared_ptr<job> work;
  std::atomic<std::uint64_t> epoch{0};  // increases with each wake: a worker that was idle before checks again
  std::vector<unsigned> parked;         // pool workers that returned because no work was left
  unsigned running = 0;                 // pool threads inside the job
  bool waits = false;                   // whether the job's steps wait
  bool finished = false;
  std::condition_variable changed;  // for the caller of run
};

struct pool_executor::state : std::enable_shared_from_this<state> {
  /// The pool of whose computing job this thread runs a step; null: it does not.
  inline static thread_local state* of_step = nullptr;

  struct entry {
    crew* who;
    unsigned worker;
  };

  unsigned max_threads = 1;
  std::mutex mutex;
  std::condition_variable available;
  std::deque<entry> queue;                     // entries of computing jobs
  std::deque<entry> waiters;                   // entries of waiting jobs
  std::atomic<bool> others_wait{false};        // `queue` is not empty; changes with the mutex held
  std::vector<std::shared_ptr<crew>> started;  // worker groups of `start`, which have no other owner
  std::vector<std::thread> threads;
  unsigned idle = 0;       // threads without a job
  unsigned computing = 0;  // ... in computing jobs
  bool stopping = false;

  // Wakes are called with the job's lock held, so that none can arrive after the job is done.
  void wake(crew& who) {
    const std::lock_guard lock(mutex);
    who.epoch.fetch_add(1, std::memory_order_relaxed);
    for (const unsigned worker : who.parked) push({&who, worker});
    if (!who.parked.empty()) available.notify_all();
    who.parked.clear();
    who.changed.notify_all();
  }

  // Called with the lock held, as the following functions.
  void push(entry what) {
    if (what.who->waits) {
      waiters.push_back(what);
      return;
    }
    queue.push_back(what);
    others_wait.store(true, std::memory_order_relaxed);
  }
  bool can_pop() const noexcept { return !waiters.empty() || (!queue.empty() && computing < max_threads); }
  entry pop() {
    std::deque<entry>& from = waiters.empty() ? queue : waiters;
    const entry out = from.front();
    from.pop_front();
    others_wait.store(!queue.empty(), std::memory_order_relaxed);
    return out;
  }

  // Entries that threads could work on now.
  std::size_t wanted() const noexcept {
    return waiters.size() + std::min<std::size_t>(queue.size(), max_threads - std::min(max_threads, computing));
  }

  // Threads start one by one while there is more work than threads.
  static void start_threads(const std::shared_ptr<state>& self) {
    while (self->idle < self->wanted()) {
      self->threads.emplace_back([self] { serve(*self); });
      ++self->idle;
    }
  }

  // \param first  0: the job has no other worker, so that one thread is needed: if there is none, this throws, and the
  //               job is not in the queue.
  static void enlist(const std::shared_ptr<state>& self, crew& who, unsigned first, unsigned end) {
    for (unsigned worker = first; worker < end; ++worker) self->push({&who, worker});
    try {
      start_threads(self);
    } catch (const std::system_error&) {  // fewer threads need more time
      if (first == 0 && self->threads.empty()) {
        self->dismiss(who);
        throw;
      }
    }
    self->available.notify_all();
  }

  // Called with the lock held. Drops workers that have not begun.
  void dismiss(crew& who) {
    who.finished = true;
    std::erase_if(who.waits ? waiters : queue, [&](const entry& each) { return each.who == &who; });
    others_wait.store(!queue.empty(), std::memory_order_relaxed);
    who.parked.clear();
  }

  static void serve(state& self) {
    std::unique_lock lock(self.mutex);
    for (;;) {
      self.available.wait(lock, [&] { return self.stopping || self.can_pop(); });
      if (self.stopping) return;
      const entry mine = self.pop();
      crew& who = *mine.who;
      const bool computes = !who.waits;
      ++who.running;
      --self.idle;
      self.computing += computes ? 1 : 0;
      lock.unlock();
      std::uint64_t seen = 0;
      of_step = computes ? &self : nullptr;
      const turn_end end = push_forward(self, who, mine.worker, seen);
      of_step = nullptr;
      lock.lock();
      ++self.idle;
      self.computing -= computes ? 1 : 0;
      --who.running;
      if (end == turn_end::done) {
        self.dismiss(who);
      } else if (end == turn_end::turn_over && !who.finished) {
        self.push(mine);
        self.available.notify_one();
      } else if (!who.finished) {
        self.park(who, mine.worker, seen);
      }
      if (who.finished && who.running == 0) {
        who.changed.notify_all();
        self.release(who, lock);
      }
    }
  }

  // Called with the lock held, as wakes are, so a wake between the last check of a worker and `park` is not lost.
  void park(crew& who, unsigned worker, std::uint64_t seen) {
    if (who.epoch.load(std::memory_order_relaxed) != seen) {
      push({&who, worker});
      available.notify_one();
    } else {
      who.parked.push_back(worker);
    }
  }

  enum class turn_end : std::uint8_t { done, idle, turn_over };

  // Idle: `seen` is the epoch before the job returned idle. A turn ends if others wait and its time is over: a job does
  // not keep the threads until it ends.
  static turn_end push_forward(const state& self, crew& who, unsigned worker, std::uint64_t& seen) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      seen = who.epoch.load(std::memory_order_relaxed);
      switch (who.work->step(worker)) {
        case job::progress::worked:
          if (!who.waits && self.others_wait.load(std::memory_order_relaxed) &&
              std::chrono::steady_clock::now() - begin >= kTurn)
            return turn_end::turn_over;
          break;
        case job::progress::done:
          return turn_end::done;
        case job::progress::idle:
          if (who.epoch.load(std::memory_order_relaxed) == seen) return turn_end::idle;
      }
    }
  }

  // Releases a worker group of `start`; without the lock, because its job may hold the last reference to large objects.
  void release(crew& who, std::unique_lock<std::mutex>& lock) {
    const auto found =
        std::find_if(started.begin(), started.end(), [&](const auto& each) { return each.get() == &who; });
    if (found == started.end()) return;
    std::shared_ptr<crew> last = std::move(*found);
    started.erase(found);
    lock.unlock();
    last.reset();
    lock.lock();
  }
};

pool_executor::pause::pause() noexcept : of_(std::exchange(state::of_step, nullptr)) {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex);
  --of_->computing;
  try {
    state::start_threads(of_->shared_from_this());
  } catch (const std::exception&) {  // another thread may still take the place
  }
  of_->available.notify_all();
}

pool_executor::pause::~pause() {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex);
  ++of_->computing;
  state::of_step = of_;
}

pool_executor::pool_executor(unsigned max_threads) : state_(std::make_shared<state>()) {
  state_->max_threads = std::max(1U, max_threads);
}

pool_executor::~pool_executor() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->available.notify_all();
  }
  for (std::thread& each : state_->threads) {
    // The last owner of a context may be a job that ends on a thread of this pool.
    if (each.get_id() == std::this_thread::get_id()) {
      each.detach();
    } else {
      each.join();
    }
  }
  state_->threads.clear();
}

void pool_executor::run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
                        std::chrono::nanoseconds interval) {
  crew mine;
  mine.work = work;
  mine.waits = work->waits();
  work->set_waker([shared = state_.get(), who = &mine] { shared->wake(*who); });
  if (workers > 1) {
    const std::lock_guard lock(state_->mutex);
    state::enlist(state_, mine, 1, workers);
  }
  std::chrono::steady_clock::time_point next_poll;
  if (poll) next_poll = std::chrono::steady_clock::now() + interval;
  std::exception_ptr thrown;  // by `poll`: other workers have the job, so it is thrown at the end
  for (;;) {
    const std::uint64_t before = mine.epoch.load(std::memory_order_relaxed);
    const job::progress progress = work->step(0);
    if (progress == job::progress::done) break;
    if (progress == job::progress::idle) {
      std::unique_lock lock(state_->mutex);
      const auto woken = [&] { return mine.epoch.load(std::memory_order_relaxed) != before; };
      if (poll && !thrown) {
        mine.changed.wait_until(lock, next_poll, woken);
      } else {
        mine.changed.wait(lock, woken);
      }
    }
    if (poll && !thrown && std::chrono::steady_clock::now() >= next_poll) {
      try {
        poll();
      } catch (const std::exception&) {
        thrown = std::current_exception();
      }
      next_poll = std::chrono::steady_clock::now() + interval;
    }
  }
  if (workers > 1) {  // otherwise the pool does not have it, and no further wakes follow
    std::unique_lock lock(state_->mutex);
    state_->dismiss(mine);
    mine.changed.wait(lock, [&] { return mine.running == 0; });
  }
  if (thrown) std::rethrow_exception(thrown);
}

void pool_executor::start(std::shared_ptr<job> work, unsigned workers) {
  auto mine = std::make_shared<crew>();
  mine->work = std::move(work);
  mine->waits = mine->work->waits();
  mine->work->set_waker([shared = state_.get(), who = mine.get()] { shared->wake(*who); });
  const std::lock_guard lock(state_->mutex);
  state::enlist(state_, *mine, 0, std::max(1U, workers));
  state_->started.push_back(mine);
}

}  // namespace penstock::inline v0
