#pragma once

#include <memory>

#include "base/executor.h"

namespace penstock::inline v0 {

/// Threads that are started when first needed and shared by all work of a context.
///
/// At most `max_threads` threads run jobs that compute. Jobs that wait for storage (`job::waits`) have a thread for
/// each of their workers; later jobs reuse these threads.
///
/// The caller of `run` is worker 0 in addition to the pool, so one worker means no thread at all. A pool thread whose
/// job is idle takes another job; the idle job's waker requests a thread again. While jobs wait for threads, all take
/// turns of about a millisecond: reads of several devices, or a small read after a large one, share the threads.
class pool_executor final : public executor {
 public:
  explicit pool_executor(unsigned max_threads);
  ~pool_executor() override;

  void run(const std::shared_ptr<job>& work, unsigned workers, const std::function<void()>& poll,
           std::chrono::nanoseconds interval) override;
  void start(std::shared_ptr<job> work, unsigned workers) override;

 private:
  struct crew;
  struct state;

 public:
  /// While such an object exists, its thread waits for another job. If the thread is in a step of a computing job of a
  /// pool, as that of a read whose store reads another array, another thread of the pool takes its place: the job that
  /// it waits for may need one.
  class pause {
   public:
    pause() noexcept;
    ~pause();
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;

   private:
    state* of_;  // null: this thread is not in such a step
  };

 private:
  std::shared_ptr<state> state_;
};

}  // namespace penstock::inline v0
