// Rows that are appended in the background, over stores that wait, fail and record the order of writes.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include <penstock/variable.h>
#include "base/waiting.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

using std::chrono::milliseconds;

/// Calls a function before each put, which may wait or fail; counts puts by key.
class watched_store final : public store {
 public:
  explicit watched_store(std::shared_ptr<store> under) : under_(std::move(under)) {}
  store_traits traits() const override {
    store_traits out = under_->traits();
    out.lends_bytes = false;
    out.writable = writable;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    under_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (before_put) {
      if (auto fine = before_put(key); !fine.ok()) return std::move(fine).error();
    }
    auto done = under_->put(key, parts, condition);
    if (done.ok()) {
      const std::lock_guard lock(mutex_);
      ++puts_[std::string(key)];
    }
    return done;
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

  int puts_of(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = puts_.find(key);
    return found == puts_.end() ? 0 : found->second;
  }

  std::function<result<>(std::string_view)> before_put;
  bool writable = true;

 private:
  std::shared_ptr<store> under_;
  mutable std::mutex mutex_;
  std::map<std::string, int> puts_;
};

/// Puts of chunks wait here until it is opened.
class gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

bool is_chunk(std::string_view key) { return key.substr(0, 2) == "c/"; }

struct target {
  std::shared_ptr<watched_store> store;
  std::optional<array> at;
};

target make_target(extents shape, extents chunks, std::optional<extents> shards = {},
                   const std::string& type = "int32") {
  const auto memory = make_memory_store();
  model_options options;
  options.shape = std::move(shape);
  options.chunks = std::move(chunks);
  options.shards = std::move(shards);
  options.dtype = type;
  options.missing = 1;
  write_model(*memory, "", options);
  target out;
  out.store = std::make_shared<watched_store>(memory);
  context_options two;
  two.threads = 2;
  open_options where;
  where.context = context::make(two).value();
  out.at = open_array(std::shared_ptr<const store>(out.store), where).value();
  return out;
}

/// `count` rows of `width` int32: element (r, k) is first + r.
std::vector<std::int32_t> rows_from(std::int32_t first, std::size_t count, std::size_t width) {
  std::vector<std::int32_t> out(count * width);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<std::int32_t>(i / width);
  return out;
}

tensor_view view_of(std::vector<std::int32_t>& of, const dtype& type, std::size_t width) {
  return tensor_view::contiguous(reinterpret_cast<std::byte*>(of.data()), type, {of.size() / width, width});
}

std::vector<std::int32_t> all_of(const array& from) {
  std::vector<std::int32_t> out(from.shape()[0] * from.shape()[1]);
  const auto done =
      from.read(tensor_view::contiguous(reinterpret_cast<std::byte*>(out.data()), from.type(), from.shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

std::uint64_t stored_rows(const target& of) {
  open_options where;
  where.context = of.at->context();
  return open_array(std::shared_ptr<const store>(of.store), where).value().shape()[0];
}

TEST(Appender, PutsEachChunkOnceForAnyBatchOfRows) {
  for (const bool sharded : {false, true}) {
    const target to = make_target({0, 6}, {5, 2}, sharded ? std::optional(extents{10, 6}) : std::nullopt);
    appender_options options;
    options.publish_interval = milliseconds(5);
    appender by = appender::make(*to.at, 0, options).value();
    for (std::int32_t r = 0; r < 203; ++r) {
      auto row = rows_from(r, 1, 6);
      ASSERT_TRUE(by.append(view_of(row, to.at->type(), 6)).ok());
      std::fill(row.begin(), row.end(), -1);  // the appender has copied the row
    }
    const auto after = by.close();
    ASSERT_TRUE(after.ok()) << after.error().to_string();
    EXPECT_EQ(all_of(*after), rows_from(0, 203, 6));
    EXPECT_EQ(by.stored_rows(), 203U);
    for (int i = 0; i < (sharded ? 21 : 41); ++i)
      EXPECT_EQ(to.store->puts_of("c/" + std::to_string(i) + "/0"), 1) << i << " sharded " << sharded;
    EXPECT_TRUE(by.close().ok());
    EXPECT_EQ(by.append(tensor_view()).error().code(), errc::invalid_argument);
  }
}

TEST(Appender, DoesNotWaitForStorageUntilTheQueueIsFull) {
  const target to = make_target({0, 256}, {4, 256});  // rows of 1 KiB
  gate closed;
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (is_chunk(key)) closed.wait();
    return {};
  };
  appender_options options;
  options.queue_bytes = 64 << 10;
  appender by = appender::make(*to.at, 0, options).value();
  auto row = rows_from(0, 1, 256);
  // 56 rows fit whatever the sizes of slabs are; no put has ended when they are taken.
  for (std::int32_t r = 0; r < 56; ++r) {
    std::fill(row.begin(), row.end(), r);
    ASSERT_TRUE(by.append(view_of(row, to.at->type(), 256)).ok());
  }
  closed.wait_for_visitor();
  EXPECT_EQ(by.stored_rows(), 0U);
  std::int32_t taken = 56;
  for (; taken < 100; ++taken) {
    std::fill(row.begin(), row.end(), taken);
    const auto done = by.try_append(view_of(row, to.at->type(), 256));
    ASSERT_TRUE(done.ok());
    if (!*done) break;
  }
  EXPECT_LE(taken, 64);
  EXPECT_LE(by.queued_bytes(), options.queue_bytes);
  std::atomic<bool> came_back{false};
  std::thread next([&] {
    auto block = rows_from(taken, 40, 256);
    EXPECT_TRUE(by.append(view_of(block, to.at->type(), 256)).ok());
    came_back = true;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(came_back);
  closed.open();
  next.join();
  const auto after = by.close();
  ASSERT_TRUE(after.ok()) << after.error().to_string();
  EXPECT_EQ(all_of(*after), rows_from(0, static_cast<std::size_t>(taken) + 40, 256));
}

// The time from an append to the first put of a chunk, in milliseconds, without a flush.
double first_put_after(std::size_t rows, std::uint64_t queue_bytes) {
  using clock = std::chrono::steady_clock;
  const target to = make_target({0, 256}, {4, 256});  // rows of 1 KiB
  gate put;
  std::atomic<clock::time_point> at{clock::time_point()};
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (is_chunk(key) && at.load() == clock::time_point()) {
      at = clock::now();
      put.open();
    }
    return {};
  };
  appender_options options;
  options.queue_bytes = queue_bytes;
  appender by = appender::make(*to.at, 0, options).value();
  auto block = rows_from(0, rows, 256);
  const auto begin = clock::now();
  EXPECT_TRUE(by.append(view_of(block, to.at->type(), 256)).ok());
  put.wait();
  EXPECT_TRUE(by.close().ok());
  return std::chrono::duration<double, std::milli>(at.load() - begin).count();
}

TEST(Appender, GathersSmallAppendsUntilTheQueueIsHalfFull) {
  double least = 1e9;
  for (int round = 0; round < 20; ++round) {
    EXPECT_GE(first_put_after(4, 64 << 10), 20);
    least = std::min(least, first_put_after(40, 64 << 10));
  }
  EXPECT_LT(least, 20);
}

TEST(Appender, TheShapeNeverIncludesRowsThatAreNotStored) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 12; ++round) {
    const target to = make_target({3, 4}, {4, 4}, round % 2 == 1 ? std::optional(extents{8, 4}) : std::nullopt);
    const std::uint64_t unit = round % 2 == 1 ? 8 : 4;
    int puts_of_shape = 0;
    to.store->before_put = [&](std::string_view key) -> result<> {
      if (key == "zarr.json") ++puts_of_shape;
      return {};
    };
    appender_options options;
    options.publish_interval = milliseconds(round % 3);
    appender by = appender::make(*to.at, 0, options).value();
    std::atomic<bool> ended{false};
    std::thread reader([&] {
      while (!ended) {
        const std::uint64_t rows = stored_rows(to);
        for (std::uint64_t i = 1; i < rows / unit; ++i)
          EXPECT_GT(to.store->puts_of("c/" + std::to_string(i) + "/0"), 0) << rows;
      }
    });
    std::int32_t next = 1;
    for (int i = 0; i < 60; ++i) {
      const auto count = static_cast<std::size_t>(random() % 9);
      auto block = rows_from(next, count, 4);
      next += static_cast<std::int32_t>(count);
      EXPECT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
      if (random() % 10 == 0) {
        const auto flushed = by.flush();
        EXPECT_TRUE(flushed.ok());
        if (flushed.ok()) {
          EXPECT_EQ(flushed->shape()[0], static_cast<std::uint64_t>(next) + 2);
        }
      }
    }
    const auto after = by.close();
    ended = true;
    reader.join();
    ASSERT_TRUE(after.ok()) << after.error().to_string();
    auto wanted = std::vector<std::int32_t>(12, 0);
    const auto rest = rows_from(1, static_cast<std::size_t>(next) - 1, 4);
    wanted.insert(wanted.end(), rest.begin(), rest.end());
    EXPECT_EQ(all_of(*after), wanted);
  }
}

TEST(Appender, PutsTheShapeAtABoundedRate) {
  const target to = make_target({0, 4}, {2, 4});
  appender_options options;
  options.publish_interval = std::chrono::hours(1);
  appender by = appender::make(*to.at, 0, options).value();
  for (std::int32_t r = 0; r < 500; ++r) {
    auto row = rows_from(r, 1, 4);
    ASSERT_TRUE(by.append(view_of(row, to.at->type(), 4)).ok());
  }
  EXPECT_EQ(to.store->puts_of("zarr.json"), 0);
  ASSERT_TRUE(by.flush().ok());
  EXPECT_EQ(to.store->puts_of("zarr.json"), 1);
}

// Another thread closes the appender while rows are copied.
TEST(Appender, CloseStoresEveryRowThatAnAppendTook) {
  constexpr std::size_t kWidth = 16'384;
  for (int round = 0; round < 60; ++round) {
    const target to = make_target({0, kWidth}, {3, kWidth});
    appender by = appender::make(*to.at, 0).value();
    std::atomic<std::int32_t> taken{0};
    std::thread adding([&] {
      for (std::int32_t r = 0;; ++r) {
        auto row = rows_from(r, 1, kWidth);
        const auto done = by.append(view_of(row, to.at->type(), kWidth));
        if (!done.ok()) {
          EXPECT_EQ(done.error().code(), errc::invalid_argument) << done.error().to_string();
          return;
        }
        taken = r + 1;
      }
    });
    while (taken <= round % 7) std::this_thread::yield();
    const auto after = by.close();
    adding.join();
    ASSERT_TRUE(after.ok()) << after.error().to_string();
    ASSERT_EQ(after->shape()[0], static_cast<std::uint64_t>(taken.load()));
    EXPECT_EQ(by.rows(), by.stored_rows());
    EXPECT_TRUE(all_of(*after) == rows_from(0, static_cast<std::size_t>(taken.load()), kWidth));
  }
}

// As after Ctrl-C.
bool stops_at_once() noexcept { return false; }

TEST(Appender, ASecondCloseWaitsForTheFirst) {
  const target to = make_target({0, 4}, {2, 4});
  gate door;
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (is_chunk(key)) door.wait();
    return {};
  };
  appender by = appender::make(*to.at, 0).value();
  auto rows = rows_from(0, 4, 4);
  ASSERT_TRUE(by.append(view_of(rows, to.at->type(), 4)).ok());
  std::thread first([&] { EXPECT_TRUE(by.close().ok()); });
  while (!by.closed()) std::this_thread::yield();
  {
    const interruptible_waits stopped(stops_at_once);
    const auto second = by.close();
    EXPECT_TRUE(!second.ok() && second.error().code() == errc::cancelled);
    const auto flushed = by.flush();
    EXPECT_TRUE(!flushed.ok() && flushed.error().code() == errc::cancelled);
  }
  std::thread opens([&] { door.open(); });
  const auto third = by.close();
  opens.join();
  first.join();
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->shape()[0], 4U);
}

TEST(Appender, AWaitForTheAppendOfAnotherThreadCanBeCancelled) {
  const target to = make_target({0, 4}, {1, 4});
  gate door;
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (is_chunk(key)) door.wait();
    return {};
  };
  appender_options options;
  options.queue_bytes = 1;
  appender by = appender::make(*to.at, 0, options).value();
  auto many = rows_from(0, 20, 4), one = rows_from(20, 1, 4);
  std::thread first([&] { EXPECT_TRUE(by.append(view_of(many, to.at->type(), 4)).ok()); });
  while (by.rows() == 0) std::this_thread::yield();
  EXPECT_FALSE(by.try_append(view_of(one, to.at->type(), 4)).value());
  {
    const interruptible_waits stopped(stops_at_once);
    const auto second = by.append(view_of(one, to.at->type(), 4));
    EXPECT_TRUE(!second.ok() && second.error().code() == errc::cancelled);
  }
  door.open();
  first.join();
  EXPECT_TRUE(by.append(view_of(one, to.at->type(), 4)).ok());
  const auto after = by.close();
  ASSERT_TRUE(after.ok());
  EXPECT_TRUE(all_of(*after) == rows_from(0, 21, 4));
}

TEST(Appender, ReturnsEachErrorOnceAndRetries) {
  const target to = make_target({0, 4}, {2, 4});
  std::atomic<bool> broken{true};
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (broken && key == "c/3/0") return error(errc::io_error, "no space left");
    return {};
  };
  appender by = appender::make(*to.at, 0).value();
  auto block = rows_from(0, 13, 4);
  ASSERT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
  const auto first = by.flush();
  ASSERT_FALSE(first.ok());
  const std::string text = first.error().to_string();
  for (const char* const part : {"no space left", "'c/3/0'", "rows [", "array 'test:", "of 13 appended rows are not"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  const std::uint64_t before = stored_rows(to);
  EXPECT_LE(before, 6U);
  broken = false;
  const auto second = by.flush();
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(all_of(*second), rows_from(0, 13, 4));

  // An error that no call has returned is returned by the next `append`, which then takes nothing.
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (is_chunk(key)) return error(errc::io_error, "no space left");
    return {};
  };
  auto more = rows_from(13, 2, 4);
  ASSERT_TRUE(by.append(view_of(more, to.at->type(), 4)).ok());
  result<> refused;
  auto later = rows_from(15, 2, 4);
  for (int i = 0; i < 2000 && refused.ok(); ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    const std::uint64_t taken = by.rows();
    refused = by.append(view_of(later, to.at->type(), 4));
    if (!refused.ok()) {
      EXPECT_EQ(by.rows(), taken);
    }
  }
  ASSERT_FALSE(refused.ok());
  const std::uint64_t taken = by.rows();
  const auto closed = by.close();
  ASSERT_FALSE(closed.ok());
  const std::string lost =
      std::to_string(taken - 13) + " of " + std::to_string(taken) + " appended rows are not stored";
  EXPECT_NE(closed.error().to_string().find(lost), std::string::npos) << closed.error().to_string();
  EXPECT_EQ(stored_rows(to), 13U);
  EXPECT_TRUE(by.close().ok());
}

TEST(Appender, RetriesAFailedPutOfTheShape) {
  const target to = make_target({0, 4}, {2, 4});
  std::atomic<int> failures{2};
  to.store->before_put = [&](std::string_view key) -> result<> {
    if (key == "zarr.json" && failures-- > 0) return error(errc::io_error, "the network is down");
    return {};
  };
  appender by = appender::make(*to.at, 0).value();
  auto block = rows_from(0, 7, 4);
  ASSERT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
  for (int i = 0; i < 2; ++i) {
    const auto failed = by.flush();
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().to_string().find("naming rows [0, 7)"), std::string::npos) << failed.error().to_string();
    EXPECT_EQ(stored_rows(to), 0U);
  }
  const auto done = by.close();
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(all_of(*done), rows_from(0, 7, 4));
}

TEST(Appender, RowsThatAnotherWriterCutOffAreReported) {
  const target to = make_target({0, 4}, {2, 4});
  const array before = *to.at;
  std::atomic<bool> done_once{false};
  to.store->before_put = [&](std::string_view key) -> result<> {
    // Another program replaces the metadata while the rows are written.
    if (key == "c/1/0" && !done_once.exchange(true)) {
      model_options other;
      other.shape = {9, 4};
      other.chunks = {2, 4};
      other.missing = 1;
      write_model(*to.store, "", other);
    }
    return {};
  };
  appender by = appender::make(before, 0).value();
  auto block = rows_from(0, 8, 4);
  ASSERT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
  const auto failed = by.flush();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::conflict) << failed.error().to_string();
  EXPECT_EQ(by.append(view_of(block, to.at->type(), 4)).error().code(), errc::conflict);
  EXPECT_EQ(by.close().error().code(), errc::conflict);
  EXPECT_EQ(stored_rows(to), 9U);
}

TEST(Appender, SeveralTakeTurnsAndKeepTheirRowsTogether) {
  const target to = make_target({0, 4}, {4, 4}, extents{8, 4});
  constexpr std::int32_t kAppenders = 3, kBlocks = 40, kRows = 3;
  std::vector<std::thread> threads;
  for (std::int32_t a = 0; a < kAppenders; ++a) {
    threads.emplace_back([&, a] {
      appender_options options;
      options.publish_interval = milliseconds(1);
      appender by = appender::make(*to.at, 0, options).value();
      for (std::int32_t b = 0; b < kBlocks; ++b) {
        auto block = rows_from((a * kBlocks + b) * 10, kRows, 4);
        EXPECT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
      }
      const auto done = by.close();
      EXPECT_TRUE(done.ok()) << done.error().to_string();
    });
  }
  for (std::thread& each : threads) each.join();
  open_options where;
  where.context = to.at->context();
  const auto values = all_of(open_array(std::shared_ptr<const store>(to.store), where).value());
  ASSERT_EQ(values.size(), static_cast<std::size_t>(kAppenders * kBlocks * kRows * 4));
  std::vector<std::vector<std::int32_t>> of(kAppenders);
  for (std::size_t i = 0; i < values.size(); i += 4)
    of[static_cast<std::size_t>(values[i] / 10 / kBlocks)].push_back(values[i]);
  for (std::int32_t a = 0; a < kAppenders; ++a) {
    std::vector<std::int32_t> wanted;
    for (std::int32_t b = 0; b < kBlocks; ++b)
      for (std::int32_t r = 0; r < kRows; ++r) wanted.push_back((a * kBlocks + b) * 10 + r);
    EXPECT_EQ(of[static_cast<std::size_t>(a)], wanted);
  }
}

TEST(Appender, ThreadsMayShareAnAppender) {
  const target to = make_target({0, 4}, {4, 4});
  appender by = appender::make(*to.at, 0).value();
  std::vector<std::thread> threads;
  for (std::int32_t a = 0; a < 3; ++a) {
    threads.emplace_back([&, a] {
      for (std::int32_t b = 0; b < 50; ++b) {
        auto block = rows_from((a * 50 + b) * 10, 3, 4);
        EXPECT_TRUE(by.append(view_of(block, to.at->type(), 4)).ok());
        if (b % 20 == 0) {
          EXPECT_TRUE(by.flush().ok());
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  const auto after = by.close();
  ASSERT_TRUE(after.ok());
  const auto values = all_of(*after);
  ASSERT_EQ(values.size(), 450U * 4);
  for (std::size_t i = 0; i < values.size(); i += 12) EXPECT_EQ(values[i] + 2, values[i + 8]);
}

TEST(Appender, RefusesArraysThatCannotGrow) {
  const target to = make_target({4, 4}, {2, 4});
  EXPECT_EQ(appender::make(*to.at, 2).error().code(), errc::out_of_range);
  to.store->writable = false;
  const target only_read = make_target({4, 4}, {2, 4});
  only_read.store->writable = false;
  open_options where;
  where.context = only_read.at->context();
  const array at = open_array(std::shared_ptr<const store>(only_read.store), where).value();
  EXPECT_EQ(appender::make(at, 0).error().code(), errc::read_only);

  to.store->writable = true;
  appender by = appender::make(*to.at, 0).value();
  auto wrong = rows_from(0, 2, 5);
  EXPECT_EQ(by.append(view_of(wrong, to.at->type(), 5)).error().code(), errc::invalid_argument);
  auto fine = rows_from(0, 2, 4);
  EXPECT_EQ(by.append(view_of(fine, dtype::from_name("float32").value(), 4)).error().code(), errc::invalid_argument);
  EXPECT_EQ(by.rows(), 0U);
  EXPECT_EQ(appender().append(view_of(fine, to.at->type(), 4)).error().code(), errc::invalid_argument);
}

TEST(Appender, AppendsAlongAnyAxis) {
  for (const bool sharded : {false, true}) {
    const target to = make_target({6, 1}, {3, 2}, sharded ? std::optional(extents{6, 4}) : std::nullopt);
    appender by = appender::make(*to.at, 1).value();
    std::vector<std::int32_t> all(6 * 30);
    std::iota(all.begin(), all.end(), 1);
    const auto whole = tensor_view::contiguous(reinterpret_cast<std::byte*>(all.data()), to.at->type(), {6, 30});
    for (std::uint64_t at = 0; at < 30;) {
      const std::uint64_t some = std::min<std::uint64_t>(1 + at % 4, 30 - at);
      tensor_view rows = whole;
      rows.data += static_cast<std::int64_t>(at) * rows.strides[1];
      rows.extents[1] = some;
      ASSERT_TRUE(by.append(rows).ok());
      at += some;
    }
    const auto after = by.close();
    ASSERT_TRUE(after.ok()) << after.error().to_string();
    const auto got = all_of(*after);
    for (std::size_t r = 0; r < 6; ++r)
      for (std::size_t c = 0; c < 31; ++c) EXPECT_EQ(got[r * 31 + c], c == 0 ? 0 : all[r * 30 + c - 1]);
  }
}

}  // namespace
}  // namespace penstock::test
