// Guarantees of writes to any store: their reads, their puts, and the state after a failure.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include <penstock/penstock.h>
#include "contract/fault_store.h"
#include "store/store_fixture.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

/// Counts puts and erases, and fails or interrupts by script.
class counting_store final : public store {
 public:
  explicit counting_store(std::shared_ptr<store> under) : under_(std::move(under)) {}

  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& one : reads)
      if (!one.key.ends_with("zarr.json")) {
        read_keys.emplace_back(one.key);
        // A claim is looked up, and does not exist.
        if (!one.key.ends_with(".penstock-append")) read_bytes += one.range.length != 0 ? 1 : 0;
      }
    under_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (before_put) before_put(key);
    if (fail_put && fail_put(key)) return error(errc::io_error, "a scripted fault");
    {
      const std::lock_guard lock(mutex_);
      put_keys.emplace_back(key);
      last_parts = parts.size();
      last_bytes = 0;
      for (const part& each : parts) last_bytes += each.size();
      last_condition = condition;
    }
    return under_->put(key, parts, condition);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    erased_keys.emplace_back(key);
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

  void forget() {
    read_keys.clear();
    read_bytes = 0;
    put_keys.clear();
    erased_keys.clear();
  }

  mutable std::vector<std::string> read_keys;
  mutable std::size_t read_bytes = 0;  // requests for more than a version
  std::vector<std::string> put_keys, erased_keys;
  std::size_t last_parts = 0, last_bytes = 0;
  write_condition last_condition;
  std::function<void(std::string_view)> before_put;
  std::function<bool(std::string_view)> fail_put;

 private:
  std::shared_ptr<store> under_;
  std::mutex mutex_;
};

constexpr const char* kZstd =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";

struct scene {
  explicit scene(model_options with) : options(std::move(with)), memory(make_memory_store()) {
    model = write_model(*memory, "", this->options);
    store = std::make_shared<counting_store>(memory);
    opened.emplace(open_array(std::shared_ptr<const penstock::store>(store)).value());
  }
  /// `int32` values from `first` on.
  result<> write(const basic_selection& which, std::int32_t first, const write_options& with = {}) {
    const auto resolved = resolve(which, options.shape);
    std::uint64_t count = 1;
    for (const std::uint64_t each : resolved->shape) count *= each;
    std::vector<std::int32_t> values(count);
    std::iota(values.begin(), values.end(), first);
    const auto done =
        opened->write(selection(which), tensor_view::contiguous(values.data(), opened->type(), resolved->shape), with);
    if (done.ok()) {
      std::vector<std::byte> items(count * 4);
      std::memcpy(items.data(), values.data(), items.size());
      model.assign(*resolved, items);
    }
    return done.ok() ? result<>() : result<>(done.error().clone());
  }
  std::vector<std::byte> read() {
    std::vector<std::byte> out(model.values.size());
    const auto done = opened->read(tensor_view::contiguous(out.data(), opened->type(), opened->shape()));
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    return out;
  }

  model_options options;
  std::shared_ptr<penstock::store> memory;
  model_array model;
  std::shared_ptr<counting_store> store;
  std::optional<penstock::array> opened;
};

model_options plain(extents shape, extents chunks, std::optional<extents> shards = {}) {
  model_options out;
  out.shape = shape;
  out.chunks = chunks;
  out.shards = shards;
  out.codecs = kZstd;
  return out;
}
basic_selection span_of(std::int64_t begin, std::int64_t end) { return {{slice{begin, end, {}}}}; }

TEST(Write, AnObjectThatIsReplacedIsNotRead) {
  scene s(plain({100}, {10}, {{20}}));
  ASSERT_TRUE(s.write(span_of(20, 60), 1).ok());
  EXPECT_TRUE(s.store->read_keys.empty());
  EXPECT_EQ(s.store->put_keys, (std::vector<std::string>{"c/1", "c/2"}));
  EXPECT_EQ(s.store->last_condition.what, write_condition::kind::none);
  EXPECT_EQ(s.read(), s.model.values);
}

TEST(Write, EdgeChunksAreReplacedWithoutARead) {
  scene s(plain({95}, {10}, {{20}}));
  ASSERT_TRUE(s.write(span_of(80, 95), 1).ok());
  EXPECT_EQ(s.store->read_bytes, 0u);
  EXPECT_EQ(s.store->last_condition.what, write_condition::kind::must_match);
  EXPECT_EQ(s.read(), s.model.values);
  // In reverse, these are the same elements.
  s.store->forget();
  ASSERT_TRUE(s.write({{slice{94, 79, -1}}}, 1).ok());
  EXPECT_EQ(s.store->read_bytes, 0u);
  EXPECT_EQ(s.read(), s.model.values);
}

TEST(Write, AChunkOfAShardIsOneReadAndAConditionalPut) {
  scene s(plain({100}, {10}, {{50}}));
  ASSERT_TRUE(s.write(span_of(0, 100), 1).ok());
  s.store->forget();
  ASSERT_TRUE(s.write(span_of(20, 30), 7).ok());
  EXPECT_EQ(s.store->read_keys, (std::vector<std::string>{"c/0"}));
  EXPECT_EQ(s.store->put_keys, (std::vector<std::string>{"c/0"}));
  EXPECT_EQ(s.store->last_condition.what, write_condition::kind::must_match);
  EXPECT_EQ(s.store->last_parts, 4u);  // kept, new, kept, index: neighbours are one part
  EXPECT_EQ(s.read(), s.model.values);
}

TEST(Write, AnAbsentObjectIsCreatedOnlyIfStillAbsent) {
  model_options options = plain({100}, {10}, {{50}});
  options.missing = 1;
  scene s(options);
  ASSERT_TRUE(s.write(span_of(20, 25), 7).ok());
  EXPECT_EQ(s.store->last_condition.what, write_condition::kind::must_be_absent);
  EXPECT_EQ(s.read(), s.model.values);
}

TEST(Write, FillValuesAreNotStoredAndEmptyObjectsAreErased) {
  scene s(plain({40}, {10}, {{20}}));
  std::vector<std::int32_t> zeros(40);
  const auto put = [&](basic_selection which, std::uint64_t count, write_options with = {}) {
    return s.opened->write(selection(which), tensor_view::contiguous(zeros.data(), s.opened->type(), {count}), with);
  };
  ASSERT_TRUE(s.write(span_of(0, 40), 1).ok());
  const std::size_t full = s.store->last_bytes;
  ASSERT_TRUE(put(span_of(20, 30), 10).ok());
  EXPECT_LT(s.store->last_bytes, full);
  EXPECT_TRUE(s.store->erased_keys.empty());
  ASSERT_TRUE(put(span_of(30, 40), 10).ok());
  EXPECT_EQ(s.store->erased_keys, (std::vector<std::string>{"c/1"}));
  s.store->forget();
  write_options all;
  all.write_empty_chunks = true;
  ASSERT_TRUE(put(span_of(0, 40), 40, all).ok());
  EXPECT_EQ(s.store->put_keys.size(), 2u);
  EXPECT_TRUE(s.store->erased_keys.empty());
}

TEST(Write, AnObjectThatChangedInTheMeantimeIsRetried) {
  scene s(plain({100}, {10}, {{50}}));
  ASSERT_TRUE(s.write(span_of(0, 100), 1).ok());
  int interruptions = 0;
  const auto other = open_array(std::shared_ptr<const penstock::store>(s.memory)).value();
  s.store->before_put = [&](std::string_view) {
    if (interruptions == 5) return;
    ++interruptions;
    std::vector<std::int32_t> values(10, 100 + interruptions);
    ASSERT_TRUE(
        other.write(selection(span_of(40, 50)), tensor_view::contiguous(values.data(), other.type(), {10})).ok());
    std::vector<std::byte> items(40);
    std::memcpy(items.data(), values.data(), 40);
    s.model.assign(*resolve(span_of(40, 50), {100}), items);
  };
  ASSERT_TRUE(s.write(span_of(13, 27), -50).ok());
  EXPECT_EQ(interruptions, 5);
  EXPECT_EQ(s.read(), s.model.values);
}

// Reads of one chunk use an index that an earlier read has cached, and see the writes of another process.
TEST(Write, AChunkOfAShardIsReadInItsCurrentState) {
  const temporary_folder folder;
  const std::shared_ptr<store> kinds[] = {make_memory_store(), open_file_store(folder.path().string())};
  for (const auto& store : kinds) {
    model_options options = plain({100}, {10}, {{50}});
    model_array model = write_model(*store, "", options);
    const auto read_by = open_array(std::shared_ptr<const penstock::store>(store)).value();
    const auto written_by = open_array(std::shared_ptr<const penstock::store>(store)).value();
    std::mt19937_64 random(7);
    std::vector<std::int32_t> values(100);
    for (int turn = 0; turn < 600; ++turn) {
      const auto chunk = static_cast<std::int64_t>(random() % 10);
      if (random() % 3 == 0) {  // one chunk, a shard, or a shard that is removed because all of it is the fill value
        const std::uint64_t what = random() % 4;
        const std::int64_t begin = what == 0 ? chunk * 10 : chunk / 5 * 50;
        const std::int64_t length = what == 0 ? 10 : 50;
        if (what == 3)
          std::fill(values.begin(), values.end(), 0);
        else
          std::iota(values.begin(), values.end(), turn * 1000);
        const auto done = written_by.write(
            selection(span_of(begin, begin + length)),
            tensor_view::contiguous(values.data(), written_by.type(), {static_cast<std::uint64_t>(length)}));
        ASSERT_TRUE(done.ok()) << done.error().to_string();
        std::memcpy(model.values.data() + begin * 4, values.data(), static_cast<std::size_t>(length) * 4);
      }
      const auto done = read_by.read(selection(span_of(chunk * 10, chunk * 10 + 10)),
                                     tensor_view::contiguous(values.data(), read_by.type(), {10}));
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      ASSERT_EQ(std::memcmp(values.data(), model.values.data() + chunk * 40, 40), 0)
          << store->uri() << ", turn " << turn << ", chunk " << chunk;
    }
  }
}

TEST(Write, AnObjectThatKeepsChangingIsAConflict) {
  scene s(plain({100}, {10}, {{50}}));
  const auto other = open_array(std::shared_ptr<const penstock::store>(s.memory)).value();
  std::int32_t number = 0;
  s.store->before_put = [&](std::string_view) {
    std::vector<std::int32_t> values(10, ++number);
    (void)other.write(selection(span_of(40, 50)), tensor_view::contiguous(values.data(), other.type(), {10}));
  };
  const auto done = s.write(span_of(13, 27), 1);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::conflict);
}

TEST(Write, AFailureNamesTheObjectThatWasNotWritten) {
  scene s(plain({100}, {10}));
  s.store->fail_put = [](std::string_view key) { return key == "c/3"; };
  write_options one;
  one.threads = 1;
  const auto before = s.read();
  const auto done = s.write(span_of(0, 100), 1, one);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::io_error);
  const std::string text = done.error().to_string();
  EXPECT_NE(text.find("writing 'c/3'"), std::string::npos) << text;
  EXPECT_NE(text.find("3 of 10 objects were written before"), std::string::npos) << text;
  EXPECT_NE(text.find("array 'test:'"), std::string::npos) << text;
  // Each object has its old value or its new one.
  const auto after = s.read();
  EXPECT_EQ(std::memcmp(after.data() + 120, before.data() + 120, 280), 0);
  const std::int32_t first = 1;
  EXPECT_EQ(std::memcmp(after.data(), &first, 4), 0);
}

TEST(Write, ACancelledWriteEndsBetweenObjects) {
  scene s(plain({1000}, {10}));
  write_options with;
  with.threads = 1;
  with.poll_interval = std::chrono::nanoseconds(0);
  int asked = 0;
  with.progress = [&](const read_progress& now) {
    EXPECT_LE(now.done_bytes, now.total_bytes);
    return ++asked < 20;
  };
  const auto done = s.write(span_of(0, 1000), 1, with);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::cancelled);
  EXPECT_LT(s.store->put_keys.size(), 30u);
  EXPECT_GT(s.store->put_keys.size(), 2u);
}

TEST(Write, ADamagedShardIsNotOverwritten) {
  scene s(plain({100}, {10}, {{50}}));
  const std::string junk(200, 'x');
  const part bytes(reinterpret_cast<const std::byte*>(junk.data()), junk.size());
  ASSERT_TRUE(s.memory->put("c/1", {&bytes, 1}, {}).ok());
  const auto done = s.write(span_of(60, 70), 1);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::corrupt_data);
  EXPECT_NE(done.error().to_string().find("'c/1'"), std::string::npos) << done.error().to_string();
  ASSERT_TRUE(s.write(span_of(50, 100), 1).ok());  // replaced, it is whole again
}

TEST(Write, AReadOnlyStoreIsReported) {
  class only_read final : public store {
   public:
    explicit only_read(std::shared_ptr<store> under) : under_(std::move(under)) {}
    store_traits traits() const override {
      store_traits out = under_->traits();
      out.writable = false;
      return out;
    }
    void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
      under_->read(reads, sink, stop);
    }
    std::string uri() const override { return "only-read:"; }

   private:
    std::shared_ptr<store> under_;
  };
  scene s(plain({100}, {10}));
  EXPECT_FALSE(s.opened->read_only());
  const auto a = open_array(std::shared_ptr<const store>(std::make_shared<only_read>(s.memory))).value();
  EXPECT_TRUE(a.read_only());
  std::int32_t value = 3;
  tensor_view one{reinterpret_cast<std::byte*>(&value), a.type(), {100}, {0}};
  EXPECT_EQ(a.write(basic_selection(), one).error().code(), errc::read_only);
  EXPECT_EQ(a.resize({50}).error().code(), errc::read_only);
  EXPECT_EQ(a.append(one, 0).error().code(), errc::read_only);
}

// --- resize and append ---

TEST(Resize, ErasesChunksOutsideAndKeepsTheEdge) {
  scene s(plain({10, 10}, {3, 4}));
  ASSERT_TRUE(s.write({}, 1).ok());
  s.store->forget();
  const array smaller = s.opened->resize({4, 3}).value();
  EXPECT_EQ(smaller.shape(), (extents{4, 3}));
  EXPECT_EQ(s.store->put_keys, (std::vector<std::string>{".penstock-append", "zarr.json"}));
  EXPECT_EQ(s.store->erased_keys.size(), 12u - 2u + 1u);  // and the claim
  const array larger = smaller.resize({10, 10}).value();
  std::vector<std::int32_t> values(100);
  ASSERT_TRUE(larger.read(tensor_view::contiguous(values.data(), larger.type(), larger.shape())).ok());
  for (int i = 0; i < 10; ++i)
    for (int k = 0; k < 10; ++k)
      EXPECT_EQ(values[static_cast<std::size_t>(10 * i + k)], i < 6 && k < 4 ? 1 + 10 * i + k : 0) << i << " " << k;
}

TEST(Resize, ManyChunksOutsideAreFoundByListing) {
  model_options options = plain({1000, 1000}, {1, 1});
  options.missing = 1;
  options.shape = {20, 20};
  scene s(options);
  const array large = s.opened->resize({100'000, 100'000}).value();
  std::int32_t value = 5;
  const tensor_view one{reinterpret_cast<std::byte*>(&value), large.type(), {}, {}};
  const auto put = [&](std::int64_t i, std::int64_t k) { return large.write(selection(basic_selection{{i, k}}), one); };
  ASSERT_TRUE(put(3, 3).ok());
  ASSERT_TRUE(put(3, 99'999).ok());
  ASSERT_TRUE(put(50'000, 3).ok());
  s.store->forget();
  const array small = large.resize({10, 10}).value();
  std::sort(s.store->erased_keys.begin(), s.store->erased_keys.end());
  EXPECT_EQ(s.store->erased_keys, (std::vector<std::string>{".penstock-append", "c/3/99999", "c/50000/3"}));
  std::vector<std::int32_t> values(100);
  ASSERT_TRUE(small.read(tensor_view::contiguous(values.data(), small.type(), small.shape())).ok());
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 5);
}

TEST(Resize, AnotherRankIsRefused) {
  scene s(plain({10}, {3}));
  EXPECT_EQ(s.opened->resize({3, 3}).error().code(), errc::invalid_argument);
}

TEST(Append, RowsAreWrittenBeforeTheMetadata) {
  scene s(plain({25, 6}, {5, 6}, {{10, 6}}));
  ASSERT_TRUE(s.write({}, 1).ok());
  s.store->forget();
  std::vector<std::int32_t> rows(17 * 6);
  std::iota(rows.begin(), rows.end(), 151);
  const array longer = s.opened->append(tensor_view::contiguous(rows.data(), s.opened->type(), {17, 6}), 0).value();
  EXPECT_EQ(longer.shape(), (extents{42, 6}));
  EXPECT_EQ(s.store->put_keys, (std::vector<std::string>{".penstock-append", "c/2/0", "c/3/0", "c/4/0", "zarr.json"}));
  EXPECT_EQ(s.store->erased_keys, (std::vector<std::string>{".penstock-append"}));
  std::vector<std::int32_t> values(42 * 6);
  ASSERT_TRUE(longer.read(tensor_view::contiguous(values.data(), longer.type(), longer.shape())).ok());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 1 + static_cast<std::int32_t>(i));
}

TEST(Append, ManyAppendersTakeTurns) {
  for (const bool in_files : {false, true}) {
    const auto folder = std::filesystem::temp_directory_path() / ("penstock-append-" + std::to_string(::getpid()));
    model_options options = plain({0, 3}, {4, 3}, {{8, 3}});
    const std::shared_ptr<store> to = in_files ? open_file_store(folder.string()) : make_memory_store();
    write_model(*to, "a/", options);
    open_options where;
    where.path = "a";
    constexpr std::int32_t kThreads = 6, kRows = 5, kTimes = 4;
    std::vector<std::thread> threads;
    for (std::int32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const array mine = open_array(std::shared_ptr<const store>(to), where).value();
        for (std::int32_t i = 0; i < kTimes; ++i) {
          std::vector<std::int32_t> rows(kRows * 3, 1 + t * kTimes + i);
          const auto done = mine.append(tensor_view::contiguous(rows.data(), mine.type(), {kRows, 3}), 0);
          EXPECT_TRUE(done.ok()) << done.error().to_string();
        }
      });
    }
    for (std::thread& each : threads) each.join();
    const array whole = open_array(std::shared_ptr<const store>(to), where).value();
    ASSERT_EQ(whole.shape(), (extents{kThreads * kTimes * kRows, 3}));
    std::vector<std::int32_t> values(kThreads * kTimes * kRows * 3);
    ASSERT_TRUE(whole.read(tensor_view::contiguous(values.data(), whole.type(), whole.shape())).ok());
    std::vector<int> seen(1 + kThreads * kTimes);
    for (std::size_t i = 0; i < values.size(); i += kRows * 3) {
      for (std::size_t k = 1; k < kRows * 3; ++k) ASSERT_EQ(values[i + k], values[i]) << i;
      ++seen[static_cast<std::size_t>(values[i])];
    }
    for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_EQ(seen[i], 1) << i;
    std::filesystem::remove_all(folder);
  }
}

// --- many writers ---

TEST(Write, EightWritersOfOneShardLoseNothing) {
  for (const bool in_files : {false, true}) {
    const auto folder = std::filesystem::temp_directory_path() / ("penstock-writers-" + std::to_string(::getpid()));
    constexpr std::int32_t kWriters = 8, kChunks = 12, kItems = 50;
    model_options options = plain({kWriters * kChunks * kItems}, {kItems}, {{kWriters * kChunks * kItems}});
    options.missing = 1;
    const std::shared_ptr<store> to = in_files ? open_file_store(folder.string()) : make_memory_store();
    write_model(*to, "", options);
    std::vector<std::thread> threads;
    for (std::int32_t t = 0; t < kWriters; ++t) {
      threads.emplace_back([&, t] {
        const array mine = open_array(std::shared_ptr<const store>(to)).value();
        for (std::int32_t i = 0; i < kChunks; ++i) {
          const std::int64_t first = (i * kWriters + t) * kItems;  // next to each other's
          std::vector<std::int32_t> values(kItems);
          std::iota(values.begin(), values.end(), static_cast<std::int32_t>(first) + 1);
          const auto done = mine.write(selection(span_of(first, first + kItems)),
                                       tensor_view::contiguous(values.data(), mine.type(), {kItems}));
          EXPECT_TRUE(done.ok()) << done.error().to_string();
        }
      });
    }
    for (std::thread& each : threads) each.join();
    const array whole = open_array(std::shared_ptr<const store>(to)).value();
    std::vector<std::int32_t> values(kWriters * kChunks * kItems);
    ASSERT_TRUE(whole.read(tensor_view::contiguous(values.data(), whole.type(), whole.shape())).ok());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 1 + static_cast<std::int32_t>(i)) << in_files;
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace penstock::test
