#include "store/write_out.h"

#include <fcntl.h>

#include <exception>
#include <utility>

#include "store/file_parts.h"

namespace penstock::inline v0 {
namespace {

/// The most waiting files. Their data is memory that the system cannot reuse.
constexpr std::size_t kMaxWaiting = 4;

}  // namespace

write_out::~write_out() {
  if (thread_.joinable()) thread_.join();
}

result<> write_out::ticket::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  if (outcome_->ok()) return {};
  return outcome_->error().clone();
}

std::shared_ptr<write_out::ticket> write_out::start(int file) noexcept {
  try {
    descriptor copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (!copy) return nullptr;
    auto out = std::make_shared<ticket>();
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return nullptr;
    waiting_.push_back({std::move(copy), out});
    if (running_) return out;
    if (thread_.joinable()) thread_.join();  // it has released the lock for the last time
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {
      waiting_.pop_back();
      return nullptr;
    }
    running_ = true;
    return out;
  } catch (const std::exception&) {  // no memory
    return nullptr;
  }
}

void write_out::run() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const waiting_file next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    result<> done = sync_file_bytes(next.file.get());
    {
      const std::lock_guard of(next.of->mutex_);
      next.of->outcome_.emplace(std::move(done));
    }
    next.of->changed_.notify_all();
    lock.lock();
  }
  running_ = false;
}

}  // namespace penstock::inline v0
