#include "store/open_file_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <list>
#include <random>
#include <thread>

namespace penstock::inline v0 {
namespace {

open_file_ref make(const std::string& key, std::uint64_t size = 1) {
  version seen;
  seen.word[0] = size;
  return open_file_ref(new open_file(key, descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), seen, size));
}
bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(OpenFileCache, FindsTheLastInsertedFile) {
  open_file_cache cache(16);
  EXPECT_FALSE(cache.find("a"));
  cache.insert(make("a", 1));
  cache.insert(make("b", 2));
  EXPECT_EQ(cache.find("a")->size_bytes(), 1u);
  cache.insert(make("a", 3));
  EXPECT_EQ(cache.find("a")->size_bytes(), 3u);
  EXPECT_EQ(cache.find("b")->size_bytes(), 2u);
}

TEST(OpenFileCache, EvictsTheLeastRecentlyUsed) {
  open_file_cache cache(3);  // one stripe
  for (const char* key : {"a", "b", "c"}) cache.insert(make(key));
  EXPECT_TRUE(cache.find("a"));
  cache.insert(make("d"));
  EXPECT_TRUE(cache.find("a"));
  EXPECT_FALSE(cache.find("b"));
  EXPECT_TRUE(cache.find("c"));
  EXPECT_TRUE(cache.find("d"));
}

TEST(OpenFileCache, HoldsAtMostTheAllowedFiles) {
  for (const unsigned capacity : {0U, 1U, 15U, 16U, 256U}) {
    open_file_cache cache(capacity);
    std::vector<int> numbers;
    for (int i = 0; i < 600; ++i) {
      const open_file_ref file = make(std::to_string(i));
      numbers.push_back(file->number());
      cache.insert(file);
    }
    unsigned found = 0;
    for (int i = 0; i < 600; ++i) found += static_cast<bool>(cache.find(std::to_string(i)));
    EXPECT_LE(found, capacity);
    EXPECT_TRUE(capacity != 256 || found > 200) << "stripes are used unevenly";
  }
}

TEST(OpenFileCache, ClosesFilesWhenTheLastOwnerReleasesThem) {
  int first = -1, second = -1;
  {
    open_file_cache cache(1);
    open_file_ref held = make("a");
    first = held->number();
    cache.insert(held);
    cache.insert(make("b"));
    second = cache.find("b")->number();
    EXPECT_TRUE(is_open(first)) << "evicted while a reader had it";
    held = {};
    EXPECT_FALSE(is_open(first));
    EXPECT_TRUE(is_open(second));
    open_file_cache::clear_all();
    EXPECT_FALSE(is_open(second));
    EXPECT_FALSE(cache.find("b"));
    cache.insert(make("c"));
    first = cache.find("c")->number();
  }
  EXPECT_FALSE(is_open(first));
}

TEST(OpenFileCache, DropsOnlyTheGivenFile) {
  open_file_cache cache(4);
  const open_file_ref old = make("a", 1);
  cache.insert(old);
  cache.insert(make("a", 2));
  cache.drop(old);
  ASSERT_TRUE(cache.find("a"));
  cache.drop(cache.find("a"));
  EXPECT_FALSE(cache.find("a"));
}

TEST(OpenFileCache, AllOfTheProcessHoldHalfOfItsDescriptors) {
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  ::rlimit now = before;
  now.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  open_file_cache::clear_all();
  {
    std::list<open_file_cache> caches;
    std::vector<int> numbers;
    const auto still_open = [&] { return std::ranges::count_if(numbers, is_open); };
    const auto fill_one_more = [&](int files) {
      open_file_cache& cache = caches.emplace_back(50);
      for (int i = 0; i < files; ++i) {
        const open_file_ref file = make(std::to_string(i));
        if (std::ranges::find(numbers, file->number()) == numbers.end()) numbers.push_back(file->number());
        cache.insert(file);
      }
    };
    for (int i = 0; i < 300; ++i) fill_one_more(1);
    EXPECT_EQ(still_open(), 100);
    EXPECT_FALSE(caches.front().find("0"));
    EXPECT_TRUE(caches.back().find("0"));
    caches.pop_back();
    EXPECT_EQ(still_open(), 99);
    for (int i = 0; i < 5; ++i) fill_one_more(40);
    EXPECT_LE(still_open(), 100);
    EXPECT_GE(still_open(), 60);
    EXPECT_TRUE(caches.back().find("39"));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  open_file_cache::clear_all();
}

TEST(OpenFileCache, ThreadsShareIt) {
  open_file_cache cache(8);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t);
      for (int i = 0; i < 2000; ++i) {
        const std::string key = std::to_string(random() % 20);
        if (const open_file_ref file = cache.find(key)) {
          ASSERT_TRUE(is_open(file->number()));
          ASSERT_EQ(file->key(), key);
          if (random() % 10 == 0) cache.drop(file);
        } else {
          cache.insert(make(key));
        }
        if (random() % 500 == 0) open_file_cache::clear_all();
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace penstock::inline v0
