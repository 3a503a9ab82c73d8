// An appender that is stopped at each of its steps while another one takes over and appends.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "base/waiting.h"
#include "engine/blocking_read.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

/// Stops the user of a store before one of its operations, including its other threads, as SIGSTOP does.
class stopping_store final : public store {
 public:
  /// \param guards  False: the store cannot check a guard together with a write, like an object store.
  stopping_store(std::shared_ptr<store> under, bool guards, int stop_at)
      : under_(std::move(under)), guards_(guards), stop_at_(stop_at) {}

  store_traits traits() const override {
    store_traits out = under_->traits();
    out.guards = guards_;
    out.lends_bytes = false;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    step();
    under_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    step();
    if (before_put) before_put(key);
    return under_->put(key, parts, checked(condition));
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    step();
    return under_->erase(key, checked(condition));
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    step();
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

  std::function<void(std::string_view)> before_put;

  /// Returns true if the user is stopped, false if it ended before.
  bool wait_until_stopped() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || ended_; });
    return stopped_;
  }
  void resume() {
    const std::lock_guard lock(mutex_);
    resumed_ = true;
    changed_.notify_all();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  write_condition checked(const write_condition& condition) const {
    write_condition out = condition;
    if (!guards_) out.guard = nullptr;
    return out;
  }
  void step() const {
    std::unique_lock lock(mutex_);
    if (steps_++ == stop_at_) stopped_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !stopped_ || resumed_; });
  }

  std::shared_ptr<store> under_;
  const bool guards_;
  const int stop_at_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int steps_ = 0;
  mutable bool stopped_ = false;
  bool resumed_ = false, ended_ = false;
};

struct schedule {
  bool guards, sharded;
  std::uint64_t first_rows;  // rows that the array has at first
  std::uint64_t a_rows, b_rows;
  std::int32_t b_value;
  int stop_at;
  bool by_appender = false;  // A appends its rows in several turns
};

result<array> open_in(std::shared_ptr<store> from) {
  context_options one;
  one.threads = 1;
  open_options where;
  where.context = context::make(one).value();
  return open_array(std::shared_ptr<const store>(std::move(from)), where);
}

result<array> append(const array& to, std::uint64_t rows, std::int32_t value) {
  const tensor_view block{reinterpret_cast<std::byte*>(&value), to.type(), {rows, 3}, {0, 0}};
  return to.append(block, 0);
}

// The same rows by an appender, which stores them in turns.
result<array> append_some_at_a_time(const array& to, std::uint64_t rows, std::int32_t value) {
  appender_options options;
  options.publish_interval = std::chrono::milliseconds(0);
  PENSTOCK_ASSIGN(appender by, appender::make(to, 0, options));
  while (rows > 0) {
    const std::uint64_t some = std::min<std::uint64_t>(rows, 7);
    PENSTOCK_TRY(by.append({reinterpret_cast<std::byte*>(&value), to.type(), {some, 3}, {0, 0}}));
    rows -= some;
  }
  return by.close();
}

std::vector<std::int32_t> column_of(const array& from) {
  std::vector<std::int32_t> all(from.shape()[0] * 3), out;
  const auto done = from.read(tensor_view::contiguous(all.data(), from.type(), from.shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  for (std::size_t i = 0; i < all.size(); i += 3) {
    EXPECT_TRUE(all[i] == all[i + 1] && all[i] == all[i + 2]);
    out.push_back(all[i]);
  }
  return out;
}

// Returns false if A has fewer steps than the number of the step at which it was to be stopped.
bool run(const schedule& with) {
  const auto memory = make_memory_store();
  model_options options;
  options.shape = {with.first_rows, 3};
  options.chunks = {4, 3};
  if (with.sharded) options.shards = extents{8, 3};
  options.missing = 1;
  write_model(*memory, "", options);
  const auto quick = [&] { return std::make_shared<stopping_store>(memory, with.guards, -1); };
  {
    const array first = open_in(quick()).value();
    std::int32_t one = 1;
    EXPECT_TRUE(first
                    .write(selection(basic_selection()),
                           {reinterpret_cast<std::byte*>(&one), first.type(), first.shape(), {0, 0}})
                    .ok());
  }
  const auto slow = std::make_shared<stopping_store>(memory, with.guards, with.stop_at);
  std::optional<bool> a_done;
  std::string why;
  std::thread a([&] {
    const auto mine = open_in(slow);
    if (mine.ok()) {
      const auto done =
          with.by_appender ? append_some_at_a_time(*mine, with.a_rows, 77) : append(*mine, with.a_rows, 77);
      a_done = done.ok();
      if (!done.ok()) why = done.error().to_string();
    }
    slow->end();
  });
  const bool stopped = slow->wait_until_stopped();
  bool b_done = true;
  if (stopped) {
    const array mine = open_in(quick()).value();
    const auto done = append(mine, with.b_rows, with.b_value);
    b_done = done.ok();
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    slow->resume();
  }
  a.join();
  if (!stopped) return false;

  const array after = open_in(quick()).value();
  std::vector<std::int32_t> wanted(with.first_rows, 1), other;
  const std::vector<std::int32_t> a_rows(a_done.value_or(false) ? with.a_rows : 0, 77),
      b_rows(with.b_rows, with.b_value);
  other = wanted;
  wanted.insert(wanted.end(), a_rows.begin(), a_rows.end());
  wanted.insert(wanted.end(), b_rows.begin(), b_rows.end());
  other.insert(other.end(), b_rows.begin(), b_rows.end());
  other.insert(other.end(), a_rows.begin(), a_rows.end());
  const auto values = column_of(after);
  const auto b_at = std::search(values.begin(), values.end(), b_rows.begin(), b_rows.end());
  const auto of_a = static_cast<std::uint64_t>(std::count(values.begin(), values.end(), 77));
  // Rows of an appender that received an error may exist or not; all others exist exactly once.
  const bool fine = with.by_appender ? b_at != values.end() &&
                                           (of_a == with.a_rows || (!a_done.value_or(false) && of_a < with.a_rows)) &&
                                           values.size() == with.first_rows + of_a + with.b_rows
                                     : values == wanted || values == other;
  EXPECT_TRUE(fine) << "guards " << with.guards << " sharded " << with.sharded << " step " << with.stop_at << " of A's "
                    << with.a_rows << " and B's " << with.b_rows << " rows of " << with.b_value << ", A "
                    << a_done.value_or(false) << " " << why << ": " << ::testing::PrintToString(values);
  // Elements of A outside its rows are not visible after a resize.
  const array grown = after.resize({after.shape()[0] + 60, 3}).value();
  const auto all = column_of(grown);
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), std::accumulate(values.begin(), values.end(), 0))
      << "guards " << with.guards << " sharded " << with.sharded << " step " << with.stop_at << " " << with.first_rows
      << " " << with.a_rows << " " << with.b_rows << " " << with.b_value << " " << why;
  return b_done;
}

// 2 kinds of store x 2 layouts x 2 array lengths x 3 lengths of B's rows x 2 values x every step: about 500 schedules.
TEST(AppendFence, AnAppenderStoppedAtAnyStepDamagesNothing) {
  ::setenv("PENSTOCK_APPEND_LEASE", "0.05", 1);
  std::vector<schedule> all;
  for (const bool guards : {true, false})
    for (const bool sharded : {true, false})
      for (const std::uint64_t first : {8, 5})
        for (const std::uint64_t b_rows : {2, 21, 40})
          for (const std::int32_t value : {0, 9}) all.push_back({guards, sharded, first, 21, b_rows, value, 0});
  // An appender stores its rows in several turns, and others may append between them.
  for (const bool guards : {true, false})
    for (const bool sharded : {true, false})
      for (const std::uint64_t b_rows : {2, 21}) all.push_back({guards, sharded, 5, 21, b_rows, 9, 0, true});
  std::atomic<std::size_t> next{0}, schedules{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 16; ++i) {
    workers.emplace_back([&] {
      for (std::size_t at = next++; at < all.size(); at = next++) {
        schedule one = all[at];
        for (one.stop_at = 0; one.stop_at < 200 && run(one); ++one.stop_at) ++schedules;
      }
    });
  }
  for (std::thread& each : workers) each.join();
  ::unsetenv("PENSTOCK_APPEND_LEASE");
  EXPECT_GT(schedules.load(), all.size() * 8);
  RecordProperty("schedules", static_cast<int>(schedules.load()));
}

// The shard of an unfinished append changes while its rows are cleared: a chunk that had no rows has some then.
TEST(AppendFence, RowsThatAppearDuringARepairAreCleared) {
  const auto memory = make_memory_store();
  model_options options;
  options.shape = {8, 3};
  options.chunks = {2, 3};
  options.shards = extents{8, 3};
  options.missing = 1;
  write_model(*memory, "", options);
  const std::string shard = "c/0/0";
  const auto put = [&](const std::string& key, std::span<const std::byte> bytes) {
    const part whole(bytes);
    EXPECT_TRUE(memory->put(key, {&whole, 1}, {}).ok());
  };
  const array whole = open_in(memory).value();
  const auto write = [&](std::int64_t begin, std::int64_t end, std::int32_t value) {
    const tensor_view rows{
        reinterpret_cast<std::byte*>(&value), whole.type(), {static_cast<std::uint64_t>(end - begin), 3}, {0, 0}};
    EXPECT_TRUE(whole.write(selection(basic_selection{{slice{begin, end, {}}}}), rows).ok());
    return read_and_wait(*memory, shard, {}, byte_range::kAll - 1).value().bytes;
  };
  write(0, 5, 1);
  const std::vector<std::byte> early = write(5, 6, 9), late = write(6, 8, 7);
  ASSERT_TRUE(whole.resize({5, 3}).ok());
  put(shard, early);
  // The claim of an owner along axis 0 that no longer renews it, with a lease of 50 ms.
  const std::string claim = "penstock-append 2 0123456789abcdef 50 1 - 0 0\n";
  put(".penstock-append", std::as_bytes(std::span(claim)));
  const auto between = std::make_shared<stopping_store>(memory, true, -1);
  int puts = 0;
  between->before_put = [&](std::string_view key) {
    if (key == shard && puts++ == 0) put(shard, late);
  };
  const auto done = append(open_in(between).value(), 1, 5);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_GT(puts, 1);
  const array grown = open_in(memory).value().resize({8, 3}).value();
  EXPECT_EQ(column_of(grown), (std::vector<std::int32_t>{1, 1, 1, 1, 1, 5, 0, 0}));
}

TEST(AppendFence, ARenewedClaimIsNotTakenOver) {
  ::setenv("PENSTOCK_APPEND_LEASE", "0.1", 1);
  const auto memory = make_memory_store();
  model_options options;
  options.shape = {8, 3};
  options.chunks = {4, 3};
  write_model(*memory, "", options);
  const auto slow = std::make_shared<stopping_store>(memory, true, -1);
  std::atomic<bool> second{false};
  std::thread other;
  slow->before_put = [&](std::string_view key) {
    if (key != "c/3/0") return;
    other = std::thread([&] {
      EXPECT_TRUE(append(open_in(memory).value(), 3, 6).ok());
      second = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    EXPECT_FALSE(second);
  };
  const auto done = append(open_in(slow).value(), 20, 5);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  ASSERT_TRUE(other.joinable());
  other.join();
  ::unsetenv("PENSTOCK_APPEND_LEASE");
  EXPECT_EQ(open_in(memory).value().shape()[0], 8u + 20u + 3u);
}

/// Another store, of which some operations are replaced.
class altered_store final : public store {
 public:
  explicit altered_store(std::shared_ptr<store> under) : under_(std::move(under)) {}

  bool lists = true;
  bool has_other_writers = false;  ///< a claim exists when it is requested, and is released when it is read

  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    under_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (has_other_writers && condition.what == write_condition::kind::must_be_absent)
      return error(errc::version_changed, "it exists");
    return under_->put(key, parts, condition);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    if (!lists) return error(errc::unsupported, "this store does not list");
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

 private:
  std::shared_ptr<store> under_;
};

TEST(AppendClaim, WaitsForShortLivedClaimsCanBeCancelled) {
  const auto memory = make_memory_store();
  model_options options;
  options.shape = {8, 3};
  options.chunks = {4, 3};
  write_model(*memory, "", options);
  const auto busy = std::make_shared<altered_store>(memory);
  const array to = open_in(busy).value();
  busy->has_other_writers = true;
  const interruptible_waits asks([]() noexcept { return false; });
  const auto done = append(to, 3, 6);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::cancelled);
  EXPECT_NE(done.error().to_string().find("the wait for another writer was cancelled"), std::string::npos)
      << done.error().to_string();
}

TEST(Resize, ManyChunksNeedAListing) {
  const auto memory = make_memory_store();
  const std::string text = R"({"zarr_format": 3, "node_type": "array", "shape": [2097152], "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "fill_value": 0,
    "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})";
  const part bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  ASSERT_TRUE(memory->put("zarr.json", {&bytes, 1}, {}).ok());
  const auto from = std::make_shared<altered_store>(memory);
  from->lists = false;
  const auto refused = open_in(from).value().resize({2 * 2097152});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  from->lists = true;
  EXPECT_TRUE(open_in(from).value().resize({2 * 2097152}).ok());
}

}  // namespace
}  // namespace penstock::test
