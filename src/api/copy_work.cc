#include "api/copy_work.h"

#include <thread>
#include <utility>

namespace penstock::inline v0 {

result<> copy_work::run(std::size_t count, const std::function<result<>(std::size_t, std::uint64_t&)>& piece) {
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads_ && i < count; ++i) others.emplace_back([&] { work(count, piece); });
    work(count, piece);
  }
  if (reported_bytes_ != done_bytes_) report();
  if (failure_) return std::move(*failure_);
  return {};
}

void copy_work::work(std::size_t count, const std::function<result<>(std::size_t, std::uint64_t&)>& piece) {
  while (!failed_) {
    const std::size_t i = next_++;
    if (i >= count) return;
    std::uint64_t bytes = 0;
    if (auto done = piece(i, bytes); !done.ok()) return fail(std::move(done).error());
    done_bytes_ += bytes;
    report();
  }
}

void copy_work::report() {
  if (!options_.progress) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a skipped report is made up for by the next one or by `run`
  if (!lock.owns_lock() || failed_) return;
  reported_bytes_ = done_bytes_;
  if (options_.progress({path_, reported_bytes_, total_bytes_})) return;
  failed_ = true;
  failure_ = std::make_unique<error>(errc::cancelled, "the copy was stopped");
}

void copy_work::fail(error why) {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  if (!failure_) failure_ = std::make_unique<error>(std::move(why));
}

}  // namespace penstock::inline v0
