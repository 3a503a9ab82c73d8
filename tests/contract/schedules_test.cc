// The engine under a seeded executor: every order of steps and completions, cancellations, faults. A read ends with the
// right values or with an error; it never hangs, and a failure never looks like data.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include <penstock/penstock.h>
#include "api/read_source.h"
#include "array/strided_copy.h"
#include "contract/fault_store.h"
#include "engine/array_state.h"
#include "engine/context_state.h"
#include "engine/read_job.h"
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

const std::uint64_t kSeeds = cases_of_one_thread(1500);

// Metadata is read from the store itself, so that opening needs no schedule; chunks and indexes are read through the
// faults.
class faulty_chunks final : public store {
 public:
  faulty_chunks(std::shared_ptr<store> plain, std::shared_ptr<fault_store> faulty)
      : plain_(std::move(plain)), faulty_(std::move(faulty)) {}
  store_traits traits() const override { return faulty_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    const bool metadata = reads[0].key.ends_with("zarr.json");
    static_cast<const store&>(metadata ? *plain_ : *faulty_).read(reads, sink, std::move(stop));
  }
  std::string uri() const override { return "test:"; }

 private:
  std::shared_ptr<store> plain_;
  std::shared_ptr<fault_store> faulty_;
};

struct scene {
  scene(std::uint64_t seed, fault_script script)
      : random(seed), executor(std::make_shared<deterministic_executor>(seed)) {
    script.seed = seed;
    script.request_bytes = seed % 5 < 2 ? std::uint64_t{1} << 20 : 0;  // then shards and indexes are read together
    do {
      options = random_model(random);
    } while (std::find(options.shape.begin(), options.shape.end(), 0u) != options.shape.end());
    memory = make_memory_store();
    model = write_model(*memory, "", options);
    faults = std::make_shared<fault_store>(memory, script);
    executor->pending = [this] { return faults->pending(); };
    executor->deliver = [this](std::uint64_t choice) { faults->deliver_one(choice); };
    context_options with;
    with.threads = 3;
    with.io_concurrency = 1 + static_cast<unsigned>(random() % 5);
    with.executor = executor;
    open_options where;
    where.context = context::make(with).value();
    array.emplace(open_array(std::make_shared<faulty_chunks>(memory, faults), where).value());
    which = random_selection(random, options.shape);
    resolved = *resolve(which, options.shape);
  }

  result<> read(const read_options& with = {}) {
    std::uint64_t bytes = array->type().item_bytes();
    for (const std::uint64_t each : resolved.shape) bytes *= each;
    values.assign(bytes, std::byte{0xEE});
    return array->read(selection(which), tensor_view::contiguous(values.data(), array->type(), resolved.shape), with);
  }

  std::mt19937_64 random;
  model_options options;
  model_array model;
  std::shared_ptr<penstock::store> memory;
  std::shared_ptr<fault_store> faults;
  std::shared_ptr<deterministic_executor> executor;
  std::optional<penstock::array> array;
  basic_selection which;
  resolved_basic resolved;
  std::vector<std::byte> values;
};

fault_script deferred() {
  fault_script out;
  out.deferred = true;
  return out;
}

// The second time with cached indexes, and with a job that was used before.
void reads_right_twice(scene& s) {
  for (int again = 0; again < 2; ++again) {
    const auto done = s.read();
    ASSERT_FALSE(s.executor->stuck());
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    ASSERT_EQ(s.values, s.model.select(s.resolved));
  }
}

TEST(Schedules, EveryOrderOfCompletionsReturnsTheSameValues) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script = deferred();
    script.lends = seed % 2 == 0;
    script.versions = seed % 3 != 0;
    scene s(seed, script);
    ASSERT_NO_FATAL_FAILURE(reads_right_twice(s)) << "seed " << seed;
  }
}

TEST(Schedules, AFailedRequestIsAnErrorAndNeverTheFillValue) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script;
    script.deferred = seed % 2 == 0;
    script.fail = 60;
    script.cut = 60;
    scene s(seed, script);
    const auto done = s.read();
    ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
    const bool struck = s.faults->total().faults != 0;
    ASSERT_TRUE(done.ok() || struck) << "seed " << seed << done.error().to_string();
    if (done.ok()) {
      ASSERT_EQ(s.values, s.model.select(s.resolved)) << "seed " << seed;
      continue;
    }
    ++failed;
    const auto code = done.error().code();
    ASSERT_TRUE(code == errc::io_error || code == errc::permission_denied || code == errc::deadline_exceeded)
        << done.error().to_string();
    const std::string text = done.error().to_string();
    ASSERT_NE(text.find("reading 'c"), std::string::npos) << text;  // the key and the range
    ASSERT_NE(text.find("array 'test:'"), std::string::npos) << text;
  }
  EXPECT_GT(failed, kSeeds / 10);
}

TEST(Schedules, AnObjectThatChangesIsReadAgain) {
  std::uint64_t changed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script;
    script.deferred = seed % 2 == 0;
    script.change = 150;
    scene s(seed, script);
    ASSERT_NO_FATAL_FAILURE(reads_right_twice(s)) << "seed " << seed;
    changed += s.faults->total().faults;
  }
  EXPECT_GT(changed, kSeeds / 10);
}

TEST(Schedules, AnObjectThatKeepsChangingIsAConflict) {
  fault_script script;
  script.change = 1000;
  std::uint64_t conflicts = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    scene s(seed, script);
    const auto done = s.read();
    ASSERT_FALSE(s.executor->stuck());
    if (!done.ok()) {
      ASSERT_EQ(done.error().code(), errc::conflict) << done.error().to_string();
      ++conflicts;
    } else {
      ASSERT_EQ(s.values, s.model.select(s.resolved)) << "seed " << seed;  // unsharded: nothing that could contradict
    }
  }
  EXPECT_GT(conflicts, 0u);
}

TEST(Schedules, AnObjectThatVanishesReadsAsTheFillValue) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script;
    script.deferred = seed % 2 == 0;
    script.vanish = 100;
    scene s(seed, script);
    for (int again = 0; again < 2; ++again) {
      const auto done = s.read();
      ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
      ASSERT_TRUE(done.ok()) << "seed " << seed << ": " << done.error().to_string();
      const auto expected = s.model.select(s.resolved);
      const std::uint32_t item = s.array->type().item_bytes();
      const std::vector<std::byte> fill(item);
      for (std::size_t i = 0; i < expected.size(); i += item) {
        const auto at = s.values.begin() + static_cast<std::ptrdiff_t>(i);
        const bool present = std::equal(at, at + item, expected.begin() + static_cast<std::ptrdiff_t>(i));
        ASSERT_TRUE(present || std::equal(at, at + item, fill.begin())) << "seed " << seed << " byte " << i;
      }
    }
  }
}

TEST(Schedules, ACancelledReadEndsAtOnceAndTheNextSucceeds) {
  std::uint64_t cancelled = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script;
    script.deferred = seed % 2 == 0;
    scene s(seed, script);
    const std::uint64_t stop_at = s.random() % 20;
    std::uint64_t asked = 0;
    read_options with;
    with.progress = [&](const read_progress&) { return asked++ != stop_at; };
    const auto done = s.read(with);
    ASSERT_FALSE(s.executor->stuck()) << "seed " << seed;
    if (!done.ok()) {
      ASSERT_EQ(done.error().code(), errc::cancelled) << done.error().to_string();
      ++cancelled;
    } else {
      ASSERT_EQ(s.values, s.model.select(s.resolved)) << "seed " << seed;
    }
    const auto again = s.read();
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_EQ(s.values, s.model.select(s.resolved)) << "seed " << seed;
  }
  EXPECT_GT(cancelled, kSeeds / 10);
}

// A job whose target is given before some step, or when it can do nothing without it.
void reads_after_its_target_is_given(scene& s, bool cancels) {
  if (is_empty(s.resolved.shape)) return;
  const std::uint32_t item = s.array->type().item_bytes();
  s.values.assign(*element_count(s.resolved.shape) * item, std::byte{0xEE});
  const std::vector<std::byte> untouched = s.values;
  const source from = source_of(s.array->state(), s.resolved, c_order_strides(s.resolved.shape, item), nullptr);
  const auto job = std::make_shared<read_job>(s.array->context()->state());
  read_job::settings settings;
  settings.workers = 3;
  settings.io_concurrency = 4;
  settings.limits.trim_cells = settings.limits.whole_objects = true;
  settings.waits_for_target = true;
  job->begin({&from, 1}, settings);
  const std::uint64_t give_at = s.random() % 40;
  bool is_given = false;
  const auto give = [&] {
    ASSERT_EQ(s.values, untouched);
    is_given = true;
    if (cancels) return job->cancel();
    job->give_target(s.values.data());
  };
  s.executor->between = [&](std::uint64_t step) {
    if (step == give_at && !is_given) give();
  };
  s.executor->run(job, 3, {}, {});
  if (!is_given) {
    ASSERT_FALSE(job->done());
    give();
    s.executor->run(job, 3, {}, {});
  }
  ASSERT_TRUE(job->done());
  const auto outcome = job->outcome();
  if (cancels) {
    ASSERT_EQ(outcome.error().code(), errc::cancelled);
    ASSERT_EQ(s.values, untouched);
    return;
  }
  ASSERT_TRUE(outcome.ok()) << outcome.error().to_string();
  ASSERT_EQ(s.values, s.model.select(s.resolved));
}

TEST(Schedules, AReadMayBeginBeforeItsTargetExists) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    fault_script script = deferred();
    script.lends = seed % 2 == 0;
    script.versions = seed % 3 != 0;
    script.change = seed % 5 == 0 ? 100 : 0;
    scene s(seed, script);
    ASSERT_NO_FATAL_FAILURE(reads_after_its_target_is_given(s, seed % 7 == 0)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace penstock::test
