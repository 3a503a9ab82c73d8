#pragma once

#include <memory>
#include <utility>

#include "engine/context_state.h"

namespace penstock::inline v0 {

/// Up to this size, passing a read's work to another thread costs more than it saves if chunks are only copied.
inline constexpr std::uint64_t kMinParallelReadBytes = std::uint64_t{512} << 10;

/// Returns a job to its context when the read or write is over, however it ends.
template <class Job>
class borrowed_job {
 public:
  borrowed_job(context_state& state, std::shared_ptr<Job> job) : state_(state), job_(std::move(job)) {}
  ~borrowed_job() { state_.give_job(std::move(job_)); }
  borrowed_job(const borrowed_job&) = delete;
  borrowed_job& operator=(const borrowed_job&) = delete;
  Job& operator*() const noexcept { return *job_; }
  Job* operator->() const noexcept { return job_.get(); }
  const std::shared_ptr<Job>& shared() const noexcept { return job_; }

 private:
  context_state& state_;
  std::shared_ptr<Job> job_;
};

}  // namespace penstock::inline v0
