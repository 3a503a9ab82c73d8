// Writes under a seeded executor: every order of steps and of the store's completions, faults, other writers, and
// cancellations. Each object then has its old value or its new one, and a write that succeeds has written all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include <penstock/penstock.h>
#include "contract/fault_store.h"
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

const std::uint64_t kSeeds = cases_of_one_thread(1500);

// Chunks and shards are read and written through the faults, everything else directly.
class faulty_chunks final : public store {
 public:
  faulty_chunks(std::shared_ptr<store> plain, std::shared_ptr<fault_store> faulty)
      : plain_(std::move(plain)), faulty_(std::move(faulty)) {}
  store_traits traits() const override { return faulty_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    begun += reads[0].key.starts_with("c") ? reads.size() : 0;
    of(reads[0].key).read(reads, sink, std::move(stop));
  }
  void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) override {
    begun += writes.size();
    for (const byte_write& each : writes) {
      most_at_once = std::max(most_at_once, faulty_->pending_count() + 1);
      of(each.key).write({&each, 1}, sink, stop);
    }
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    return of(key).put(key, parts, condition);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    return of(key).erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return plain_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

  std::size_t most_at_once = 0;
  mutable std::size_t begun = 0;  // requests for chunks: a merged object's read comes before its put

 private:
  store& of(std::string_view key) const {
    return key.starts_with("c") ? static_cast<store&>(*faulty_) : static_cast<store&>(*plain_);
  }

  std::shared_ptr<store> plain_;
  std::shared_ptr<fault_store> faulty_;
};

struct scene {
  scene(std::uint64_t seed, fault_script script)
      : random(seed), executor(std::make_shared<deterministic_executor>(seed)) {
    script.seed = seed;
    do {
      options = random_model(random);
    } while (std::find(options.shape.begin(), options.shape.end(), 0u) != options.shape.end());
    memory = make_memory_store();
    before = write_model(*memory, "", options);
    faults = std::make_shared<fault_store>(memory, script);
    executor->pending = [this] { return faults->pending(); };
    executor->deliver = [this](std::uint64_t choice) { faults->deliver_one(choice); };
    context_options with;
    with.threads = 1 + static_cast<unsigned>(random() % 3);
    with.io_concurrency = io_concurrency = 1 + static_cast<unsigned>(random() % 5);
    with.executor = executor;
    open_options where;
    where.context = context::make(with).value();
    store = std::make_shared<faulty_chunks>(memory, faults);
    array.emplace(open_array(std::shared_ptr<const penstock::store>(store), where).value());
    choose();
  }

  void choose() {
    which = random_selection(random, options.shape);
    resolved = *resolve(which, options.shape);
    std::uint64_t bytes = array->type().item_bytes();
    for (const std::uint64_t each : resolved.shape) bytes *= each;
    values.resize(bytes);
    // Occasionally the fill value: then objects are erased.
    const bool fills = random() % 4 == 0;
    for (std::byte& each : values) each = fills ? std::byte{0} : static_cast<std::byte>(random() % 251);
    if (array->type().name() == "bool")
      for (std::byte& each : values) each = static_cast<std::byte>(static_cast<unsigned>(each) % 2);
    after = before;
    after.assign(resolved, values);
  }

  result<> write(const write_options& with = {}) {
    return array->write(selection(which), tensor_view::contiguous(values.data(), array->type(), resolved.shape), with);
  }

  // The content of storage, read without faults.
  std::vector<std::byte> stored() const {
    const auto plain = open_array(std::shared_ptr<const penstock::store>(memory)).value();
    std::vector<std::byte> out(before.values.size());
    const auto done = plain.read(tensor_view::contiguous(out.data(), plain.type(), plain.shape()));
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    return out;
  }

  // Each element is its old value or its new one.
  bool is_old_or_new() const {
    const auto now = stored();
    const std::uint32_t item = before.item_bytes;
    for (std::size_t i = 0; i < now.size(); i += item) {
      const auto same = [&](const std::vector<std::byte>& as) { return std::equal(&now[i], &now[i] + item, &as[i]); };
      if (!same(before.values) && !same(after.values)) return false;
    }
    return true;
  }

  std::mt19937_64 random;
  model_options options;
  model_array before, after;
  std::shared_ptr<penstock::store> memory;
  std::shared_ptr<fault_store> faults;
  std::shared_ptr<faulty_chunks> store;
  std::shared_ptr<deterministic_executor> executor;
  unsigned io_concurrency = 0;
  std::optional<penstock::array> array;
  basic_selection which;
  resolved_basic resolved;
  std::vector<std::byte> values;
};

// Reads and writes complete later, or only one of them.
fault_script deferred(std::uint64_t seed) {
  fault_script out;
  out.deferred = seed % 3 != 0;
  out.deferred_writes = seed % 3 != 1;
  out.lends = seed % 2 == 0;
  out.versions = seed % 5 != 0;
  return out;
}

TEST(WriteSchedules, EveryOrderOfCompletionsWritesTheSameArray) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    scene s(seed, deferred(seed));
    for (int again = 0; again < 3; ++again) {
      const auto done = s.write();
      ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
      ASSERT_TRUE(done.ok()) << "seed " << seed << ": " << done.error().to_string();
      ASSERT_EQ(s.stored(), s.after.values) << "seed " << seed;
      s.before = s.after;
      s.choose();
    }
    // Each thread may have one request in addition to the context's: reads that complete later continue at once.
    ASSERT_LE(s.store->most_at_once, std::size_t{s.io_concurrency} + s.array->context()->threads()) << "seed " << seed;
  }
}

// No request is completed before as many are in flight as the context has requests: a waiting thread would hang.
TEST(WriteSchedules, OneThreadHasManyObjectsInFlight) {
  constexpr unsigned kTogether = 6, kObjects = 20;
  for (const bool whole : {true, false}) {
    model_options options;
    options.shape = {kObjects * 10};
    options.chunks = {10};
    const auto memory = make_memory_store();
    model_array expected = write_model(*memory, "", options);
    fault_script script;
    script.deferred = script.deferred_writes = true;
    const auto faults = std::make_shared<fault_store>(memory, script);
    const auto store = std::make_shared<faulty_chunks>(memory, faults);
    const auto executor = std::make_shared<deterministic_executor>(7);
    executor->pending = [&] {
      const std::size_t waiting = faults->pending_count();
      return waiting >= kTogether || (waiting > 0 && store->begun >= kObjects);
    };
    executor->deliver = [&](std::uint64_t choice) { faults->deliver_one(choice); };
    context_options with;
    with.threads = 1;
    with.io_concurrency = kTogether;
    with.executor = executor;
    open_options where;
    where.context = context::make(with).value();
    const auto array = open_array(std::shared_ptr<const penstock::store>(store), where).value();
    std::vector<std::int32_t> values(options.shape[0], 5);
    basic_selection which{{slice{0, {}, whole ? 1 : 2}}};
    const auto resolved = *resolve(which, options.shape);
    values.resize(resolved.shape[0]);
    const auto done =
        array.write(selection(which), tensor_view::contiguous(values.data(), array.type(), resolved.shape));
    ASSERT_FALSE(executor->stuck()) << store->begun << " of " << kObjects << " objects were started";
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(store->most_at_once, kTogether);
    std::vector<std::byte> items(values.size() * 4);
    std::memcpy(items.data(), values.data(), items.size());
    expected.assign(resolved, items);
    std::vector<std::byte> stored(expected.values.size());
    ASSERT_TRUE(open_array(std::shared_ptr<const penstock::store>(memory))
                    ->read(tensor_view::contiguous(stored.data(), array.type(), options.shape))
                    .ok());
    EXPECT_EQ(stored, expected.values);
  }
}

// A part of one shard and three whole ones, with little memory, sequential or in flight.
result<> write_with_memory(std::uint64_t limit_bytes, bool in_flight, std::uint64_t seed, bool reads_later = false) {
  model_options options;
  options.shape = {20 * 16384};
  options.chunks = {16384};
  options.shards = extents{5 * 16384};
  options.codecs =
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";
  const auto memory = make_memory_store();
  model_array expected = write_model(*memory, "", options);
  fault_script script;
  script.deferred_writes = in_flight;
  script.deferred = reads_later;
  const auto faults = std::make_shared<fault_store>(memory, script);
  const auto executor = std::make_shared<deterministic_executor>(seed);
  executor->pending = [&] { return faults->pending(); };
  executor->deliver = [&](std::uint64_t choice) { faults->deliver_one(choice); };
  context_options with;
  with.threads = 1;
  with.memory_limit_bytes = limit_bytes;
  with.executor = executor;
  open_options where;
  where.context = context::make(with).value();
  const auto store = std::make_shared<faulty_chunks>(memory, faults);
  const auto array = open_array(std::shared_ptr<const penstock::store>(store), where).value();
  const basic_selection which{{slice{4 * 16384, {}, {}}}};
  const auto resolved = *resolve(which, options.shape);
  std::vector<std::int32_t> values(resolved.shape[0]);
  std::mt19937 random(static_cast<unsigned>(seed));
  for (std::int32_t& each : values) each = static_cast<std::int32_t>(random());
  auto done = array.write(selection(which), tensor_view::contiguous(values.data(), array.type(), resolved.shape));
  EXPECT_FALSE(executor->stuck());
  if (!done.ok()) return done;
  std::vector<std::byte> items(values.size() * 4);
  std::memcpy(items.data(), values.data(), items.size());
  expected.assign(resolved, items);
  std::vector<std::byte> stored(expected.values.size());
  EXPECT_TRUE(open_array(std::shared_ptr<const penstock::store>(memory))
                  ->read(tensor_view::contiguous(stored.data(), array.type(), options.shape))
                  .ok());
  EXPECT_EQ(stored, expected.values);
  return done;
}

// Memory for one whole shard, but not for an adjacent partial one, which is first.
TEST(WriteSchedules, ObjectsWaitForMemoryThatIsInFlight) {
  int written = 0, refused = 0;
  const int limits = static_cast<int>(cases_of_one_thread(80));
  for (std::uint64_t limit = 400'000; limit < 1'200'000; limit += 800'000U / static_cast<unsigned>(limits)) {
    const bool alone = write_with_memory(limit, false, limit).ok();
    ++(alone ? written : refused);
    for (std::uint64_t seed = 0; seed < (alone ? 3U : 1U); ++seed) {
      const auto done = write_with_memory(limit, true, seed);
      ASSERT_TRUE(done.ok() || !alone) << limit << " bytes, seed " << seed << ": " << done.error().to_string();
    }
  }
  EXPECT_GT(written, limits / 4);
  EXPECT_GT(refused, limits / 16) << "the limits should begin below the size of one object";
}

// Reads are asynchronous, puts are not. While the first shard's old bytes are read, memory for the next is exhausted.
TEST(WriteSchedules, AWaitForMemoryEndsWithTheReadInFlight) {
  const int limits = static_cast<int>(cases_of_one_thread(80));
  for (std::uint64_t limit = 300'000; limit < 1'200'000; limit += 900'000U / static_cast<unsigned>(limits)) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const auto done = write_with_memory(limit, false, seed, true);  // it must not be stuck
      ASSERT_TRUE(done.ok() || done.error().code() == errc::resource_exhausted)
          << limit << " bytes, seed " << seed << ": " << done.error().to_string();
    }
  }
}

TEST(WriteSchedules, AFailureIsAnErrorThatNamesItsObject) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script = deferred(seed);
    script.fail = 30;
    script.fail_write = 60;
    scene s(seed, script);
    const auto done = s.write();
    ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
    ASSERT_FALSE(s.faults->pending()) << "seed " << seed << ": objects in flight end before the write";
    ASSERT_TRUE(s.is_old_or_new()) << "seed " << seed;
    if (done.ok()) {
      ASSERT_EQ(s.stored(), s.after.values) << "seed " << seed;
      continue;
    }
    ++failed;
    ASSERT_GT(s.faults->total().faults, 0u) << "seed " << seed << ": " << done.error().to_string();
    const std::string text = done.error().to_string();
    ASSERT_NE(text.find("writing 'c"), std::string::npos) << text;
    ASSERT_NE(text.find("objects were written before"), std::string::npos) << text;
  }
  EXPECT_GT(failed, kSeeds / 10);
}

TEST(WriteSchedules, AnObjectThatChangesIsMergedAgain) {
  std::uint64_t changed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script = deferred(seed);
    script.versions = true;
    script.change = 150;
    scene s(seed, script);
    const auto done = s.write();
    ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
    ASSERT_TRUE(done.ok()) << "seed " << seed << ": " << done.error().to_string();
    ASSERT_EQ(s.stored(), s.after.values) << "seed " << seed;
    changed += s.faults->total().faults;
  }
  EXPECT_GT(changed, kSeeds / 20);
}

TEST(WriteSchedules, ACancelledWriteEndsAndTheNextSucceeds) {
  std::uint64_t cancelled = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    scene s(seed, deferred(seed));
    const std::uint64_t stop_at = s.random() % 20;
    std::uint64_t asked = 0;
    write_options with;
    with.progress = [&](const read_progress&) { return asked++ != stop_at; };
    const auto done = s.write(with);
    ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
    ASSERT_FALSE(s.faults->pending()) << "seed " << seed;
    if (!done.ok()) {
      ASSERT_EQ(done.error().code(), errc::cancelled) << done.error().to_string();
      ++cancelled;
      ASSERT_TRUE(s.is_old_or_new()) << "seed " << seed;
    } else {
      ASSERT_EQ(s.stored(), s.after.values) << "seed " << seed;
    }
    const auto again = s.write();
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_EQ(s.stored(), s.after.values) << "seed " << seed;
  }
  EXPECT_GT(cancelled, kSeeds / 10);
}

}  // namespace
}  // namespace penstock::test
