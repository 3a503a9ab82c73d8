// The cache on disk before an HTTP store: its requests, its waits, and the data that it rejects.

#include "store/disk_cache.h"

#include <gtest/gtest.h>
#include <penstock/extend/store.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "store/http_message.h"
#include "store/http_store.h"
#include "store/store_fixture.h"
#include "support/http_server.h"
#include "support/without_threads.h"

namespace penstock::test {
namespace {

using reply = http_server::reply;
using request = http_server::request;
using std::chrono::milliseconds;

class DiskCache : public testing::Test {
 protected:
  DiskCache() { server_.set("/base/k", kText); }

  struct opened {
    std::shared_ptr<disk_cache> cache;
    std::shared_ptr<store> from;
  };
  // A cache of its own, like another process's.
  opened make(std::chrono::nanoseconds trust = {}) {
    disk_cache_options how;
    how.folder = home_.path().string() + "/cache";
    how.trust = trust;
    how.warn = [this](const std::string&) { ++warnings_; };
    remote_options remote;
    remote.retries = 0;
    auto cache = *disk_cache::open(how);
    auto http =
        std::make_shared<http_store>(*http_transport::make(8), *http_url::parse(server_.url() + "/base"), remote);
    return {cache, cache->wrap(std::move(http), "origin", "")};
  }
  std::vector<std::string> methods() {
    std::vector<std::string> out;
    for (const request& each : server_.log()) out.push_back(each.method);
    server_.clear_log();
    return out;
  }
  using list = std::vector<std::string>;

  static constexpr const char* kText = "0123456789abcdef";
  temporary_folder home_;
  http_server server_;
  std::atomic<int> warnings_{0};
};

TEST_F(DiskCache, ServesPartsOfCachedRanges) {
  EXPECT_EQ(read_now(*make().from, "k")->text, kText);
  EXPECT_EQ(methods(), list{"GET"});
  const opened again = make();
  EXPECT_EQ(read_now(*again.from, "k", {2, 5, false})->text, "23456");
  EXPECT_EQ(read_now(*again.from, "k", {0, 3, true})->text, "def");
  const auto whole = read_now(*again.from, "k");
  EXPECT_EQ(whole->text, kText);
  EXPECT_EQ(whole->object_size, 16U);
  EXPECT_TRUE(whole->seen.known());
  EXPECT_EQ(code_of(read_now(*again.from, "k", {10, 7, false})), errc::corrupt_data);
  EXPECT_EQ(methods(), (list{"HEAD", "HEAD", "HEAD", "GET"}));
  EXPECT_EQ(again.cache->usage().hits, 3U);
  EXPECT_EQ(warnings_, 0);
}

TEST_F(DiskCache, SeparatesOriginsAndVariants) {
  const opened cached = make(std::chrono::hours(1));
  EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  remote_options remote;
  const auto other = [&](const std::string& origin, const std::string& variant) {
    return cached.cache->wrap(
        std::make_shared<http_store>(*http_transport::make(8), *http_url::parse(server_.url() + "/other"), remote),
        origin, variant);
  };
  server_.set("/other/k", "another");
  EXPECT_EQ(read_now(*other("elsewhere", ""), "k")->text, "another");
  EXPECT_EQ(read_now(*other("origin", "header: x"), "k")->text, "another");
  EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
}

/// Stores objects at a server, and throws then.
class throwing_writer final : public store {
 public:
  throwing_writer(std::shared_ptr<store> from, http_server& to) : from_(std::move(from)), to_(to) {}
  store_traits traits() const override { return from_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    from_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part>, const write_condition&) override {
    to_.set("/base/" + std::string(key), "new");
    throw std::runtime_error("the connection was closed");
  }
  result<> erase(std::string_view key, const write_condition&) override {
    to_.remove("/base/" + std::string(key));
    throw std::runtime_error("the connection was closed");
  }
  result<> list(std::string_view, listing, key_sink&) const override { return {}; }
  std::string uri() const override { return "throwing:"; }

 private:
  std::shared_ptr<store> from_;
  http_server& to_;
};

TEST_F(DiskCache, IsNotifiedOfAWriteThatThrew) {
  const opened cached = make(std::chrono::hours(1));
  const auto http = std::make_shared<http_store>(*http_transport::make(8), *http_url::parse(server_.url() + "/base"),
                                                 remote_options());
  const auto writer = cached.cache->wrap(std::make_shared<throwing_writer>(http, server_), "origin", "");
  EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  EXPECT_THROW(static_cast<void>(writer->put("k", {}, {})), std::runtime_error);
  EXPECT_EQ(read_now(*cached.from, "k")->text, "new");
  EXPECT_THROW(static_cast<void>(writer->erase("k", {})), std::runtime_error);
  EXPECT_EQ(code_of(read_now(*cached.from, "k")), errc::not_found);
}

TEST_F(DiskCache, DoesNotCacheObjectsWithoutAVersion) {
  server_.on_request([](const request&, reply& out) {
    out.remove("ETag");
    out.remove("Last-Modified");
  });
  const opened cached = make(std::chrono::hours(1));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  EXPECT_EQ(methods(), (list{"GET", "GET"}));
}

TEST_F(DiskCache, ReturnsTheErrorOfACheck) {
  const opened cached = make();
  EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  server_.on_request([](const request&, reply& out) { out.status = 401; });
  EXPECT_EQ(code_of(read_now(*cached.from, "k")), errc::permission_denied);
  server_.on_request([](const request&, reply&) {});
  server_.remove("/base/k");
  EXPECT_EQ(code_of(read_now(*cached.from, "k")), errc::not_found);
  server_.set("/base/k", "new");
  EXPECT_EQ(read_now(*cached.from, "k")->text, "new");
  const auto seen = read_now(*cached.from, "k")->seen;
  server_.set("/base/k", "newer");
  EXPECT_EQ(code_of(read_now(*cached.from, "k", {}, &seen)), errc::version_changed);
  EXPECT_EQ(read_now(*cached.from, "k")->text, "newer");
}

TEST_F(DiskCache, WaitsForARangeThatAnotherReaderFetches) {
  server_.on_request([](const request& asked, reply& out) {
    if (asked.method == "GET") out.delay = milliseconds(200);
  });
  const opened first = make(), second = make();
  std::vector<std::thread> readers;
  for (const opened* each : {&first, &second, &second})
    readers.emplace_back([each] { EXPECT_EQ(read_now(*each->from, "k")->text, kText); });
  for (std::thread& each : readers) each.join();
  int fetched = 0;
  for (const std::string& each : methods()) fetched += each == "GET" ? 1 : 0;
  EXPECT_EQ(fetched, 1);
}

TEST_F(DiskCache, AWaitingReadCanStopAndSurvivesAFailure) {
  auto fails = std::make_shared<std::atomic<bool>>(true);
  server_.on_request([fails](const request&, reply& out) {
    if (!fails->exchange(false)) return;
    out.delay = milliseconds(300);
    out.status = 404;
  });
  const opened first = make(), second = make();
  std::thread failing([&] { EXPECT_EQ(code_of(read_now(*first.from, "k")), errc::not_found); });
  while (server_.log().empty()) std::this_thread::yield();
  waiting_sink sink;
  growing_buffer rooms[2];
  byte_read reads[2];
  std::stop_source stop;
  for (std::size_t i = 0; i < 2; ++i) {
    reads[i].key = "k";
    reads[i].tag = i;
    reads[i].buffer = &rooms[i];
    second.from->read({&reads[i], 1}, sink, i == 0 ? stop.get_token() : std::stop_token());
  }
  stop.request_stop();
  auto stopped = sink.wait(1);
  ASSERT_TRUE(stopped.contains(0));
  EXPECT_EQ(stopped.at(0).error().code(), errc::cancelled);
  failing.join();
  auto rest = sink.wait(1);  // the claim is free: it fetches by itself
  ASSERT_TRUE(rest.contains(1) && rest.at(1).ok());
  EXPECT_EQ(to_text(rest.at(1)->bytes), kText);
}

TEST_F(DiskCache, StoppingOneReaderDoesNotStopAnother) {
  server_.on_request(
      [](const request& asked, reply& out) { out.delay = milliseconds(asked.method == "GET" ? 300 : 600); });
  const opened first = make(), second = make();
  const byte_range ranges[] = {{0, 4, false}, {4, 4, false}};
  waiting_sink fetched, sink;
  growing_buffer rooms[4];
  byte_read reads[4];
  std::stop_source stop;
  for (std::size_t i = 0; i < 4; ++i) {
    reads[i].key = "k";
    reads[i].range = ranges[i % 2];
    reads[i].tag = i;
    reads[i].buffer = &rooms[i];
  }
  first.from->read(std::span(reads).first(2), fetched, {});
  while (server_.log().size() < 2) std::this_thread::yield();
  for (std::size_t i = 2; i < 4; ++i)
    second.from->read({&reads[i], 1}, sink, i == 2 ? stop.get_token() : std::stop_token());
  // Both wait until their bytes are fetched, and then until the object's version is checked.
  const auto is_checking = [&] {
    for (const request& each : server_.log())
      if (each.method == "HEAD") return true;
    return false;
  };
  while (!is_checking()) std::this_thread::sleep_for(milliseconds(1));
  stop.request_stop();
  EXPECT_EQ(fetched.wait(2).size(), 2U);
  auto done = sink.wait(2);
  ASSERT_EQ(done.size(), 2U);
  ASSERT_FALSE(done.at(2).ok());
  EXPECT_EQ(done.at(2).error().code(), errc::cancelled);
  ASSERT_TRUE(done.at(3).ok()) << done.at(3).error().to_string();
  EXPECT_EQ(to_text(done.at(3)->bytes), "4567");
}

TEST_F(DiskCache, FetchesDamagedBytesAgain) {
  EXPECT_EQ(read_now(*make().from, "k")->text, kText);
  methods();
  for (const auto& each : std::filesystem::directory_iterator(home_.path() / "cache")) {
    if (each.path().extension() != ".ranges") continue;
    std::fstream file(each.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('X');
  }
  const opened cached = make(std::chrono::hours(1));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  EXPECT_EQ(methods(), list{"GET"});
  EXPECT_EQ(cached.cache->usage().damaged, 1U);
}

TEST_F(DiskCache, ReadsIfItCannotWrite) {
  std::filesystem::create_directories(home_.path() / "cache" / "claims");  // not a file: even root cannot write
  const opened cached = make();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_now(*cached.from, "k")->text, kText);
  EXPECT_EQ(methods().size(), 3U);
  EXPECT_EQ(warnings_, 1);
  EXPECT_FALSE(cached.cache->usage().is_writable);
}

#ifdef __GLIBC__
// One object with an entity tag, from memory.
class tagged_store final : public store {
 public:
  explicit tagged_store(std::string_view text) : bytes_(to_bytes(text)) {}
  store_traits traits() const override {
    store_traits out;
    out.versions = out.sizes = true;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    for (const byte_read& each : reads)
      sink.complete(each.tag, answer_from(each, bytes_, version_of_text("\"1\""), lease()));
  }
  std::string uri() const override { return "test:"; }

 private:
  const bytes bytes_;
};

TEST_F(DiskCache, WorksWithoutAThreadOfItsOwn) {
  disk_cache_options how;
  how.folder = home_.path().string() + "/cache";
  const auto cache = *disk_cache::open(how);
  const auto from = cache->wrap(std::make_shared<tagged_store>(kText), "origin", "");
  const auto fetched = without_threads([&] { return read_now(*from, "k"); });
  const auto cached = without_threads([&] { return read_now(*from, "k"); });
  ASSERT_TRUE(fetched.ok() && cached.ok());
  EXPECT_EQ(fetched->text, kText);
  EXPECT_EQ(cached->text, kText);
  EXPECT_EQ(cache->usage().misses, 1U);
  EXPECT_EQ(cache->usage().hits, 1U);
}
#endif

}  // namespace
}  // namespace penstock::test
