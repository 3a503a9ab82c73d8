#include "engine/blocking_read.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

#include "base/counted.h"
#include "base/thrown.h"
#include "base/waiting.h"
#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

struct answer final : read_buffer {
  std::vector<std::byte> room;
  std::optional<result<blocking_read>> what;
  bool is_complete = false;

  result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    constexpr std::uint64_t kAddressableBytes = std::uint64_t{1} << 47;  // a server may claim more
    if (bytes >= kAddressableBytes)
      return error(errc::resource_exhausted, fmt::format("the system has no memory for {}", counted(bytes, "byte")));
    room.resize(static_cast<std::size_t>(bytes));
    return std::span<std::byte>(room);
  }

  void take(result<read_done> done) {
    if (!done.ok()) {
      what.emplace(std::move(done).error());
      return;
    }
    blocking_read out;
    const std::span<const std::byte> bytes = done->bytes;
    if (bytes.data() == room.data()) {
      room.resize(bytes.size());
      out.bytes = std::move(room);
    } else {
      out.bytes.assign(bytes.begin(), bytes.end());
    }
    out.seen = std::move(done->seen);
    out.object_size = done->object_size;
    out.sent_all = done->sent_all;
    what.emplace(std::move(out));
  }
};

class waiting_sink final : public completion_sink {
 public:
  explicit waiting_sink(std::span<answer> answers) noexcept : answers_(answers), missing_(answers.size()) {}

  void complete(std::uint64_t tag, result<read_done> done) override {
    answers_[tag].take(std::move(done));
    const std::lock_guard lock(mutex_);
    answers_[tag].is_complete = true;
    if (--missing_ == 0) arrived_.notify_all();
  }

  // Waits for the answers. If the store throws an exception, it is the error of all that are not complete by then.
  void read(const store& from, std::span<const byte_read> reads) {
    try {
      if (!reads.empty()) from.read(reads, *this, stop_.get_token());
    } catch (const std::exception& thrown) {
      refuse(thrown_error("the store", thrown));
    }
    wait();
  }

 private:
  void refuse(const error& why) {
    const std::lock_guard lock(mutex_);
    for (answer& each : answers_)
      if (!each.is_complete) each.what.emplace(why.clone());
    missing_ = 0;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    wait_until(lock, arrived_, stop_, [&] { return missing_ == 0; });
  }

  const std::span<answer> answers_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::size_t missing_;
  std::stop_source stop_ = stop_of_wait();
};

}  // namespace

result<blocking_read> read_and_wait(const store& from, std::string_view key, const byte_range& range,
                                    std::uint64_t max_bytes, const version* expected, bool may_end_early,
                                    bool same_handle) {
  answer only;
  waiting_sink sink({&only, 1});
  byte_read read;
  read.key = key;
  read.range = range;
  read.max_bytes = max_bytes;
  read.expected = expected;
  read.may_end_early = may_end_early;
  read.same_handle = same_handle;
  read.buffer = &only;
  sink.read(from, {&read, 1});
  return std::move(*only.what);
}

std::vector<result<blocking_read>> read_all_and_wait(const store& from, std::span<const std::string> keys,
                                                     const byte_range& range, std::uint64_t max_bytes) {
  std::vector<answer> answers(keys.size());
  waiting_sink sink(answers);
  std::vector<byte_read> reads(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    reads[i].key = keys[i];
    reads[i].range = range;
    reads[i].max_bytes = max_bytes;
    reads[i].buffer = &answers[i];
    reads[i].tag = i;
  }
  sink.read(from, reads);
  std::vector<result<blocking_read>> out;
  out.reserve(answers.size());
  for (answer& each : answers) out.push_back(std::move(*each.what));
  return out;
}

result<std::vector<blocking_read>> read_ranges_and_wait(const store& from, std::string_view key,
                                                        std::span<const byte_range> ranges, const version* expected) {
  std::vector<answer> answers(ranges.size());
  waiting_sink sink(answers);
  std::vector<byte_read> reads(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    reads[i].key = key;
    reads[i].range = ranges[i];
    reads[i].max_bytes = ranges[i].length;
    reads[i].expected = expected;
    reads[i].buffer = &answers[i];
    reads[i].tag = i;
  }
  sink.read(from, reads);
  std::vector<blocking_read> out;
  out.reserve(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].what->ok()) return std::move(*answers[i].what).error().note(read_note(key, ranges[i]));
    out.push_back(std::move(**answers[i].what));
  }
  return out;
}

}  // namespace penstock::inline v0
