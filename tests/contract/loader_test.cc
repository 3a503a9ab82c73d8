#include <penstock/loader.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <penstock/create.h>
#include <penstock/open.h>
#include "contract/fault_store.h"
#include "support/cases.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr std::uint64_t kRows = 96, kColumns = 10;

// Rows that begin with their number, four to a chunk.
array rows_in(const std::shared_ptr<store>& to, unsigned threads = 2) {
  model_options options;
  options.shape = {kRows, kColumns};
  options.chunks = {4, 5};
  auto made = write_model(*to, "", options);
  context_options with;
  with.threads = threads;
  open_options how;
  how.context = context::make(with).value();
  auto opened = open_array(to, how);
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  std::vector<std::int32_t> values(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  EXPECT_TRUE(
      opened->write(basic_selection{}, tensor_view::contiguous(values.data(), opened->type(), opened->shape())).ok());
  return *opened;
}

result<loader> rows_of(const array& from, loader_options options = {}) {
  loader_array part{from, {0}, {}, {}, {}, 0, {}};
  return loader::make({part}, {loader_axis{1, false, 0, 0, 0}}, std::move(options));
}

// The rows' numbers, until the end or an error.
result<std::vector<std::int32_t>> take_all(loader& from) {
  std::vector<std::int32_t> out;
  while (true) {
    PENSTOCK_ASSIGN(const auto batch, from.next());
    if (!batch) return out;
    for (std::uint64_t i = 0; i < batch->samples; ++i) {
      std::int32_t first = 0, last = 0;
      std::memcpy(&first, batch->values[0].view.data + i * kColumns * 4, 4);
      std::memcpy(&last, batch->values[0].view.data + ((i + 1) * kColumns - 1) * 4, 4);
      EXPECT_EQ(last, first + static_cast<std::int32_t>(kColumns) - 1);
      out.push_back(first / static_cast<std::int32_t>(kColumns));
    }
  }
}

/// Delivers the deferred requests of a store, in a random order, on a thread of its own.
class deliveries {
 public:
  explicit deliveries(std::shared_ptr<fault_store> of)
      : of_(std::move(of)), thread_([this](const std::stop_token& stop) {
          std::mt19937_64 random(1);
          while (!stop.stop_requested()) {
            std::this_thread::yield();
            of_->deliver_one(random());
          }
        }) {}

 private:
  std::shared_ptr<fault_store> of_;
  std::jthread thread_;
};

std::vector<std::int32_t> numbers_to(std::int32_t end) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = 0; i < end; ++i) out.push_back(i);
  return out;
}

TEST(Loader, ReturnsEachSampleOnceForAnyWindowAndThreads) {
  std::mt19937_64 random(1);
  for (std::uint64_t round = 0; round < cases(40); ++round) {
    const array from = rows_in(make_memory_store(), 1 + random() % 4);
    loader_options options;
    options.window_bytes = 4 * 5 * 4 * (2 + random() % 40);
    options.batch = 1 + random() % 20;
    options.depth = random() % 4;
    options.seed = random();
    auto made = rows_of(from, options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int32_t> seen;
      const std::uint64_t ranks = 1 + random() % 3;
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        ASSERT_TRUE(made->start({epoch, 0, rank, ranks}).ok());
        const auto got = take_all(*made);
        ASSERT_TRUE(got.ok()) << got.error().to_string();
        seen.insert(seen.end(), got->begin(), got->end());
        EXPECT_LE(made->counts().peak_window_bytes, options.window_bytes);
        EXPECT_LE(made->counts().chunks_again, ranks == 1 && options.window_bytes > 16 * 80 ? 0u : ~0u);
      }
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, numbers_to(kRows));
    }
  }
}

void stop_and_start_at_any_moment(const array& from, const loader_options& options) {
  for (int round = 0; round < 60; ++round) {
    auto made = rows_of(from, options);
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(made->start({}).ok());
    for (int i = 0; i < round % 5; ++i) ASSERT_TRUE(made->next().ok());
    if (round % 2 == 0) continue;
    ASSERT_TRUE(made->start({1, 0, 0, 1}).ok());
    const auto got = take_all(*made);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->size(), kRows);
  }
}

TEST(Loader, CanBeStoppedAndStartedAtAnyMoment) { stop_and_start_at_any_moment(rows_in(make_memory_store()), {}); }

// 48 chunks, in a window of 16.
loader_options small_window() {
  loader_options out;
  out.window_bytes = 16 * 4 * 5 * 4;
  return out;
}

array deferred_rows(const std::shared_ptr<fault_store>& in) {
  context_options with;
  with.threads = 2;
  open_options how;
  how.context = context::make(with).value();
  return open_array(in, how).value();
}

// A store of the rows whose requests wait for `deliveries`.
std::shared_ptr<fault_store> late_rows() {
  const auto inner = make_memory_store();
  rows_in(inner);
  fault_script script;
  script.deferred = true;
  return std::make_shared<fault_store>(inner, script);
}

TEST(Loader, CanBeStoppedAndStartedWithRequestsInFlight) {
  const auto late = late_rows();
  const deliveries running(late);
  stop_and_start_at_any_moment(deferred_rows(late), small_window());
}

TEST(Loader, RequestsEachChunkOfARemoteStoreOnce) {
  const auto late = late_rows();
  const deliveries running(late);
  auto made = rows_of(deferred_rows(late), small_window());
  ASSERT_TRUE(made.ok());
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    late->reset_counts();
    ASSERT_TRUE(made->start({epoch, 0, 0, 1}).ok());
    auto got = take_all(*made);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    std::sort(got->begin(), got->end());
    EXPECT_EQ(*got, numbers_to(kRows));
    EXPECT_EQ(late->total().requests, made->counts().chunks_read);
    EXPECT_EQ(made->counts().chunks_again, 0U);
  }
}

TEST(Loader, AFaultFailsItsBatchAndTheNextEpochIsComplete) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto inner = make_memory_store();
    rows_in(inner);
    fault_script script;
    script.seed = seed;
    script.fail = 100;
    script.cut = 50;
    script.most = 1 + seed % 3;
    script.lends = seed % 2 == 0;
    script.deferred = seed % 4 < 2;
    context_options with;
    with.threads = 2;
    open_options how;
    how.context = context::make(with).value();
    const auto store = std::make_shared<fault_store>(inner, script);
    const deliveries running(store);
    auto from = open_array(store, how);
    if (!from.ok()) continue;  // the fault hit the metadata
    auto made = rows_of(*from, small_window());
    ASSERT_TRUE(made.ok());
    bool whole = false;
    for (std::uint64_t epoch = 0; epoch < 5 && !whole; ++epoch) {
      ASSERT_TRUE(made->start({epoch, 0, 0, 1}).ok());
      auto got = take_all(*made);
      whole = got.ok();
      if (!whole) {
        EXPECT_FALSE(made->next().ok());  // the same again
        continue;
      }
      std::sort(got->begin(), got->end());
      EXPECT_EQ(*got, numbers_to(kRows));
    }
    EXPECT_TRUE(whole);
  }
}

TEST(Loader, ThreadsMayShareOne) {
  const array from = rows_in(make_memory_store());
  auto made = rows_of(from);
  ASSERT_TRUE(made.ok());
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&made, i] {
      for (std::uint64_t round = 0; round < 20; ++round) {
        ASSERT_TRUE(made->start({round, 0, 0, 1 + (i + round) % 2}).ok());
        for (int batch = 0; batch < 4; ++batch) {
          const auto got = made->next();
          if (!got.ok()) {
            EXPECT_EQ(got.error().code(), errc::cancelled) << got.error().to_string();
          }
        }
        EXPECT_GE(made->counts().lanes, 1U);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  ASSERT_TRUE(made->start({}).ok());
  auto got = take_all(*made);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  std::sort(got->begin(), got->end());
  EXPECT_EQ(*got, numbers_to(kRows));
}

TEST(Loader, SeveralShareOneContext) {
  const array from = rows_in(make_memory_store(), 3);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&from, i] {
      loader_options options;
      options.seed = i;
      options.window_bytes = 4 * 5 * 4 * 9;
      auto made = rows_of(from, options);
      ASSERT_TRUE(made.ok() && made->start({}).ok());
      auto got = take_all(*made);
      ASSERT_TRUE(got.ok()) << got.error().to_string();
      std::sort(got->begin(), got->end());
      EXPECT_EQ(*got, numbers_to(kRows));
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace penstock::test
