#include "store/write_out.h"

#include <fcntl.h>

#include <exception>
#include <utility>

#include "store/file_parts.h"

namespace penstock::inline v0 {
namespace {

/// Files that wait at most. What they hold is memory that the system cannot reuse.
constexpr std::size_t kMaxWaiting = 4;

}  // namespace

write_out::~write_out() {
  if (thread_.joinable()) thread_.join();
}

void write_out::start(int file) noexcept {
  try {
    if (hand_over(file)) return;
  } catch (const std::exception&) {  // no memory, no thread
  }
  start_writing_out(file);
}

bool write_out::hand_over(int file) {
  descriptor copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!copy) return false;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMaxWaiting) return false;
  if (!running_) {
    if (thread_.joinable()) thread_.join();  // it has let go of the lock for the last time
    thread_ = std::thread([this] { run(); });
    running_ = true;
  }
  waiting_.push_back(std::move(copy));
  return true;
}

void write_out::run() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const descriptor file = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    start_writing_out(file.get());
    lock.lock();
  }
  running_ = false;
}

}  // namespace penstock::inline v0
