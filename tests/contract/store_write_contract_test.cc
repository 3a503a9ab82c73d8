// Writes and listings of every store that can be written to, and the values that concurrent readers see.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "contract/store_contract.h"

namespace penstock::test {
namespace {

using names = std::map<std::string, std::uint64_t>;

TEST_P(StoreContract, PutReplacesObjectsAndReturnsTheirVersion) {
  if (!subject_.writable) GTEST_SKIP() << "a read-only store";
  const bytes one = to_bytes("one"), two = to_bytes("two");
  const part parts[] = {one, {}, two, {}};
  const auto first = store_.put("a/deep/key", parts, {});
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  auto read = read_now(store_, "a/deep/key");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text, "onetwo");
  EXPECT_TRUE(!has_versions() || read->seen == *first);

  const auto second = put("a/deep/key", "other");
  ASSERT_TRUE(second.ok());
  read = read_now(store_, "a/deep/key", {0, 5, false});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text, "other");
  EXPECT_TRUE(!has_versions() || (read->seen == *second && !(*first == *second)));

  ASSERT_TRUE(store_.put("none", {}, {}).ok());
  EXPECT_EQ(read_now(store_, "none")->object_size, 0u);
}

TEST_P(StoreContract, ConditionalPutsHappenOnlyIfTheConditionHolds) {
  if (!subject_.writable || !has_versions()) GTEST_SKIP() << "conditions need a writable store with versions";
  write_condition absent, match;
  absent.what = write_condition::kind::must_be_absent;
  match.what = write_condition::kind::must_match;
  const auto refused = [&](const write_condition& condition, errc code) {
    const auto done = put("k", "refused", condition);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), code);
  };
  refused(match, errc::invalid_argument);  // names no version
  const auto first = put("k", "first", absent);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  refused(absent, errc::version_changed);
  match.expected = *first;
  const auto second = put("k", "second", match);
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  refused(match, errc::version_changed);
  EXPECT_EQ(read_now(store_, "k")->text, "second");

  auto erased = store_.erase("k", match);
  ASSERT_FALSE(erased.ok());
  EXPECT_EQ(erased.error().code(), errc::version_changed);
  match.expected = *second;
  EXPECT_TRUE(store_.erase("k", match).ok());
  EXPECT_EQ(code_of(read_now(store_, "k")), errc::not_found);
  refused(match, errc::version_changed);
  EXPECT_TRUE(store_.erase("k", match).ok()) << "absent objects are not an error";
  EXPECT_TRUE(store_.erase("no/such/folder", {}).ok());
  EXPECT_TRUE(put("k", "third", absent).ok());
}

// Takes outcomes by their tags, from any thread.
class write_outcomes final : public write_sink {
 public:
  void complete(std::uint64_t tag, result<version> done) override {
    const std::lock_guard lock(mutex_);
    const bool first = done_.emplace(tag, std::move(done)).second;
    EXPECT_TRUE(first) << "write " << tag << " completed twice";
    arrived_.notify_all();
  }
  std::map<std::uint64_t, result<version>> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    const bool all = arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return done_.size() >= count; });
    EXPECT_TRUE(all) << done_.size() << " of " << count << " writes completed";
    return std::exchange(done_, {});
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return done_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, result<version>> done_;
};

TEST_P(StoreContract, WritesOfOneCallEachComplete) {
  if (!subject_.writable) GTEST_SKIP() << "a read-only store";
  constexpr std::size_t kWrites = 40;
  std::vector<std::string> keys;
  std::vector<bytes> texts;
  for (std::size_t i = 0; i < kWrites; ++i) {
    keys.push_back("folder/" + std::to_string(i % 20));  // each key twice: a put, and in the second call an erase
    texts.push_back(to_bytes("text " + std::to_string(i)));
  }
  std::vector<part> parts;
  for (const bytes& each : texts) parts.emplace_back(each);
  std::vector<byte_write> writes(20);
  for (std::size_t i = 0; i < 20; ++i) {
    writes[i].key = keys[i];
    writes[i].parts = {&parts[i], 1};
    writes[i].tag = 100 + i;
    if (has_versions()) writes[i].condition.what = write_condition::kind::must_be_absent;
  }
  write_outcomes sink;
  store_.write(writes, sink, {});
  if (store_.traits().inline_writes) {
    EXPECT_EQ(sink.count(), 20u);
  }
  auto first = sink.wait(20);
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(first.at(100 + i).ok()) << first.at(100 + i).error().to_string();
    const auto read = read_now(store_, keys[i]);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->text, "text " + std::to_string(i));
    EXPECT_TRUE(!has_versions() || read->seen == *first.at(100 + i));
  }
  // Puts, puts that must fail, erases, and invalid keys, in one call.
  std::vector<std::string> outside;
  for (std::size_t i = 0; i < 20; ++i) outside.push_back("../" + keys[i]);
  for (std::size_t i = 0; i < 20; ++i) {
    writes[i].condition = {};
    writes[i].parts = {&parts[20 + i], 1};
    writes[i].erases = i % 4 == 1;
    if (writes[i].erases) writes[i].parts = {};
    if (i % 4 == 2) writes[i].key = outside[i];
    if (i % 4 == 3 && has_versions()) writes[i].condition.what = write_condition::kind::must_be_absent;
  }
  store_.write(writes, sink, {});
  auto second = sink.wait(20);
  for (std::size_t i = 0; i < 20; ++i) {
    const result<version>& done = second.at(100 + i);
    const auto read = read_now(store_, keys[i]);
    if (i % 4 == 1) {
      EXPECT_TRUE(done.ok()) << done.error().to_string();
      EXPECT_EQ(code_of(read), errc::not_found);
    } else if (i % 4 == 2) {
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code(), errc::invalid_argument);
    } else if (i % 4 == 3 && has_versions()) {
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code(), errc::version_changed);
      EXPECT_EQ(read->text, "text " + std::to_string(i));
    } else {
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      EXPECT_EQ(read->text, "text " + std::to_string(20 + i));
    }
  }
}

TEST_P(StoreContract, AStoppedWriteLeavesTheOldOrTheNewObject) {
  if (!subject_.writable) GTEST_SKIP() << "a read-only store";
  ASSERT_TRUE(put("k", "old").ok());
  const bytes text = to_bytes("new");
  const part whole(text);
  byte_write what;
  what.key = "k";
  what.parts = {&whole, 1};
  std::stop_source stop;
  stop.request_stop();
  write_outcomes sink;
  store_.write({&what, 1}, sink, stop.get_token());
  auto outcome = sink.wait(1);
  ASSERT_FALSE(outcome.at(0).ok());
  EXPECT_EQ(outcome.at(0).error().code(), errc::cancelled);
  EXPECT_EQ(read_now(store_, "k")->text, "old");
}

TEST_P(StoreContract, OneOfManyConditionalWritersWins) {
  if (!subject_.writable || !has_versions()) GTEST_SKIP() << "conditions need a writable store with versions";
  // Each writer adds one by compare-and-swap: a lost update would show in the sum.
  ASSERT_TRUE(put("counter", "0").ok());
  constexpr int kWriters = 4, kEach = 20;
  std::atomic<int> created{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&] {
      write_condition absent;
      absent.what = write_condition::kind::must_be_absent;
      for (int n = 0; n < kEach; ++n) {
        if (put("once/" + std::to_string(n), "x", absent).ok()) ++created;
        for (;;) {
          const auto now = read_now(store_, "counter");
          if (!now.ok()) {
            ADD_FAILURE() << now.error().to_string();
            return;
          }
          write_condition match;
          match.what = write_condition::kind::must_match;
          match.expected = now->seen;
          const auto done = put("counter", std::to_string(std::stoi(now->text) + 1), match);
          if (done.ok()) break;
          ASSERT_EQ(done.error().code(), errc::version_changed) << done.error().to_string();
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(read_now(store_, "counter")->text, std::to_string(kWriters * kEach));
  EXPECT_EQ(created.load(), kEach);
}

TEST_P(StoreContract, OneOfManyCreatorsWins) {
  if (!subject_.writable || !has_versions()) GTEST_SKIP() << "conditions need a writable store with versions";
  constexpr int kWriters = 3, kKeys = 60;
  std::atomic<int> waiting{0}, created{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&] {
      write_condition absent;
      absent.what = write_condition::kind::must_be_absent;
      for (int n = 0; n < kKeys; ++n) {
        ++waiting;
        while (waiting < kWriters * (n + 1)) std::this_thread::yield();  // all of them at once
        if (put("folder/" + std::to_string(n), "x", absent).ok()) ++created;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(created.load(), kKeys);
}

TEST_P(StoreContract, ReadersSeeWholeWritesOnly) {
  // Every object is one letter, repeated: a mixture, or a length without its bytes, would be a torn write.
  const std::size_t sizes[] = {1, 100, 40'000};
  set("k", std::string(100, 'a'));
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      bytes memory(1);
      version last;
      while (!stop) {
        byte_read read;
        read.key = "k";
        if (i == 1) read.range = {0, 1, false};
        if (i == 1) read.destination = memory;
        if (i == 2) read.expected = &last;
        const auto done = read_now(store_, read);
        ++reads;
        if (!done.ok()) {
          ASSERT_EQ(done.error().code(), errc::version_changed) << done.error().to_string();
          last = version();
          continue;
        }
        if (i == 2) {
          ASSERT_TRUE(!last.known() || last == done->seen);
          last = done->seen;
        }
        ASSERT_FALSE(done->text.empty());
        ASSERT_EQ(done->text.find_first_not_of(done->text[0]), std::string::npos);
        ASSERT_TRUE(i == 1 || std::count(std::begin(sizes), std::end(sizes), done->text.size()) == 1);
      }
    });
  }
  int writes = 0;
  while (writes < 60 || (reads < 60 && writes < 300)) {
    set("k", std::string(sizes[writes % 3], static_cast<char>('a' + writes % 26)));
    ++writes;
  }
  stop = true;
  for (std::thread& each : threads) each.join();
}

TEST_P(StoreContract, ListsObjectsAndChildren) {
  if (!subject_.listable) GTEST_SKIP() << "a store that does not list";
  for (const char* key : {"zarr.json", "a/zarr.json", "a/c/0/0", "a/c/0/1", "ab/x", "a.b"}) set(key, key);
  EXPECT_EQ(list("", listing::objects),
            (names{{"zarr.json", 9}, {"a/zarr.json", 11}, {"a/c/0/0", 7}, {"a/c/0/1", 7}, {"ab/x", 4}, {"a.b", 3}}));
  EXPECT_EQ(list("a/", listing::objects), (names{{"a/zarr.json", 11}, {"a/c/0/0", 7}, {"a/c/0/1", 7}}));
  EXPECT_EQ(list("", listing::children), (names{{"zarr.json", 9}, {"a/", 0}, {"ab/", 0}, {"a.b", 3}}));
  EXPECT_EQ(list("a/", listing::children), (names{{"a/zarr.json", 11}, {"a/c/", 0}}));
  EXPECT_EQ(list("a/c/0/", listing::children), (names{{"a/c/0/0", 7}, {"a/c/0/1", 7}}));
  EXPECT_EQ(list("nothing/", listing::objects), names{});
  EXPECT_EQ(list("a.b/", listing::children), names{});
  EXPECT_EQ(list("", listing::objects, 1).size(), 1u) << "the sink stops the listing";
  struct : key_sink {
    bool key(std::string_view, std::uint64_t) override { return true; }
  } sink;
  for (const char* prefix : {"a", "/", "../", "a/../", "a//"}) {
    const auto refused = store_.list(prefix, listing::objects, sink);
    ASSERT_FALSE(refused.ok()) << prefix;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << prefix;
  }
}

}  // namespace
}  // namespace penstock::test
