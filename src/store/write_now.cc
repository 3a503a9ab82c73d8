#include "store/write_now.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/waiting.h"

namespace penstock::inline v0 {
namespace {

class outcome_of_one final : public write_sink {
 public:
  void complete(std::uint64_t, result<version> done) override {
    const std::lock_guard lock(mutex_);
    done_.emplace(std::move(done));
    arrived_.notify_all();
  }
  result<version> wait(std::stop_source& stop) {
    std::unique_lock lock(mutex_);
    wait_until(lock, arrived_, stop, [&] { return done_.has_value(); });
    return std::move(*done_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<result<version>> done_;
};

}  // namespace

result<version> write_now(store& to, const byte_write& what) {
  outcome_of_one sink;
  std::stop_source stop = stop_of_wait();
  to.write({&what, 1}, sink, stop.get_token());
  return sink.wait(stop);
}

}  // namespace penstock::inline v0
