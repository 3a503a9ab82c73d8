#include "engine/idle_reads.h"

#include <algorithm>
#include <utility>

#include "engine/read_job.h"

namespace penstock::inline v0 {

std::shared_ptr<read_job> idle_reads::take() {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& each) { return each.use_count() == 1; });
  if (found == jobs_.end()) return nullptr;
  std::swap(*found, jobs_.back());
  std::shared_ptr<read_job> out = std::move(jobs_.back());
  jobs_.pop_back();
  // `use_count` orders nothing; dropping a reference comes after all that the thread that dropped its own has done.
  std::shared_ptr<read_job>(out).reset();
  return out;
}

void idle_reads::give(std::shared_ptr<read_job> job) {
  if (job->total_cells() > kMostCells) return;
  job->reset();
  const std::lock_guard lock(mutex_);
  if (jobs_.size() < kMost) jobs_.push_back(std::move(job));
}

void idle_reads::clear() {
  std::vector<std::shared_ptr<read_job>> dropped;  // after the lock
  dropped.reserve(kMost);
  const std::lock_guard lock(mutex_);
  dropped.swap(jobs_);
}

}  // namespace penstock::inline v0
