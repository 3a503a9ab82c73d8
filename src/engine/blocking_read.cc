#include "engine/blocking_read.h"

#include <condition_variable>
#include <mutex>
#include <optional>

namespace penstock::inline v0 {
namespace {

class waiting_sink final : public completion_sink, public read_buffer {
 public:
  void complete(std::uint64_t, result<read_done> done) override {
    const std::lock_guard lock(mutex_);
    done_.emplace(std::move(done));
    arrived_.notify_all();
  }

  result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    bytes_.resize(static_cast<std::size_t>(bytes));
    return std::span<std::byte>(bytes_);
  }

  result<blocking_read> wait() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return done_.has_value(); });
    if (!done_->ok()) return std::move(*done_).error();
    blocking_read out;
    const std::span<const std::byte> bytes = (*done_)->bytes;
    if (bytes.data() == bytes_.data()) {
      bytes_.resize(bytes.size());
      out.bytes = std::move(bytes_);
    } else {
      out.bytes.assign(bytes.begin(), bytes.end());
    }
    out.seen = std::move((*done_)->seen);
    out.object_size = (*done_)->object_size;
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::byte> bytes_;
  std::optional<result<read_done>> done_;
};

}  // namespace

result<blocking_read> read_and_wait(const store& from, std::string_view key, const byte_range& range,
                                    std::uint64_t max_bytes, const version* expected, bool may_end_early) {
  waiting_sink sink;
  byte_read read;
  read.key = key;
  read.range = range;
  read.max_bytes = max_bytes;
  read.expected = expected;
  read.may_end_early = may_end_early;
  read.buffer = &sink;
  from.read({&read, 1}, sink, {});
  return sink.wait();
}

}  // namespace penstock::inline v0
