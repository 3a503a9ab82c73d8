// The reads of every store, and the list of stores: a new one is one line at the end.

#include "contract/store_contract.h"

#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "contract/fault_store.h"
#include "extend/extensions.h"
#include "store/disk_cache.h"
#include "store/file_store.h"
#include "store/http_store.h"
#include "store/memory_store.h"
#include "store/s3_store.h"
#include "store/zip_store.h"
#include "support/http_server.h"

namespace penstock::test {
namespace {

TEST_P(StoreContract, ReadsWholeObjects) {
  set("a/b/c", kText);
  const auto read = read_now(store_, "a/b/c");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->text, kText);
  EXPECT_EQ(read->object_size, kText.size());
  EXPECT_EQ(read->seen.known(), has_versions());
}

TEST_P(StoreContract, ReadsRangesFromStartMiddleAndEnd) {
  set("k", kText);
  const struct {
    byte_range range;
    std::string_view wanted;
  } cases[] = {
      {{0, 1, false}, "0"},  {{0, 16, false}, kText}, {{5, 4, false}, "5678"}, {{15, 1, false}, "f"},
      {{0, 3, true}, "def"}, {{0, 16, true}, kText},  {{7, 1, true}, "f"},  // the offset means nothing here
  };
  for (const auto& each : cases) {
    const auto read = read_now(store_, "k", each.range);
    ASSERT_TRUE(read.ok()) << to_string(each.range) << ": " << read.error().to_string();
    EXPECT_EQ(read->text, each.wanted) << to_string(each.range);
    EXPECT_TRUE(read->object_size == 16 || read->object_size == byte_range::kAll) << read->object_size;
  }
}

TEST_P(StoreContract, RangesThatExceedTheObjectAreCorruptData) {
  set("k", kText);
  constexpr std::uint64_t kMax = byte_range::kAll;
  const byte_range bad[] = {
      {16, 1, false},         {15, 2, false},       {0, 17, false},       {17, 1, false},
      {kMax, 1, false},       {kMax - 1, 2, false}, {1, kMax - 1, false}, {2, kMax - 1, false},
      {16, kMax - 15, false}, {0, 17, true},        {0, kMax - 1, true},  {kMax - 1, kMax - 1, false},
  };
  for (const byte_range& each : bad) {
    growing_buffer room(1 << 20);
    byte_read read;
    read.key = "k";
    read.range = each;
    read.buffer = &room;
    EXPECT_EQ(code_of(read_now(store_, read)), errc::corrupt_data) << to_string(each);
    EXPECT_EQ(room.capacity(), 0u) << "a size from storage was allocated";
  }
}

TEST_P(StoreContract, EmptyObjectsAreObjects) {
  set("empty", "");
  const auto read = read_now(store_, "empty");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->text, "");
  EXPECT_EQ(read->object_size, 0u);
  EXPECT_EQ(code_of(read_now(store_, "empty", {0, 1, false})), errc::corrupt_data);
}

TEST_P(StoreContract, AbsentObjectsAreNotFound) {
  set("folder/key", kText);
  set("folder/deep/key", kText);
  const byte_range part_of{0, 4, false};
  for (const char* key : {"nothing", "folder/nothing", "no/such/folder", "folder/key/below", "folder", "folder/deep"}) {
    EXPECT_EQ(code_of(read_now(store_, key)), errc::not_found) << key;
    EXPECT_EQ(code_of(read_now(store_, key, part_of)), errc::not_found) << key;
    EXPECT_EQ(code_of(read_now(store_, key, {0, 0, false})), errc::not_found) << key;
  }
}

TEST_P(StoreContract, FillsTheDestinationInPlace) {
  set("k", kText);
  bytes memory(6, std::byte{'-'});
  byte_read read;
  read.key = "k";
  read.range = {5, 4, false};
  read.destination = std::span(memory).subspan(1, 4);
  auto done = read_now(store_, read);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_TRUE(done->in_destination);
  EXPECT_EQ(to_text(memory), "-5678-");

  bytes whole(16);
  read.range = {};
  read.destination = whole;
  done = read_now(store_, read);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(to_text(whole), kText);
}

TEST_P(StoreContract, WholeObjectsOfAnotherSizeAreRefused) {
  set("k", kText);
  bytes memory(18, std::byte{'-'});
  for (const std::size_t size : {15U, 17U}) {
    byte_read read;
    read.key = "k";
    read.destination = std::span(memory).first(size);
    EXPECT_EQ(code_of(read_now(store_, read)), errc::corrupt_data);
  }
  EXPECT_EQ(to_text(memory), std::string(18, '-'));
}

TEST_P(StoreContract, ObjectsLongerThanTheReaderAllowsAreCorruptData) {
  set("k", kText);
  byte_read read;
  read.key = "k";
  read.max_bytes = 16;
  EXPECT_TRUE(read_now(store_, read).ok());
  read.range = {0, 8, true};
  read.max_bytes = 8;
  EXPECT_TRUE(read_now(store_, read).ok()) << "max_bytes bounds the returned bytes, not the rest of the object";
  read.range = {};
  read.max_bytes = 15;
  growing_buffer room;
  read.buffer = &room;
  EXPECT_EQ(code_of(read_now(store_, read)), errc::corrupt_data);
  EXPECT_EQ(room.capacity(), 0u);
}

TEST_P(StoreContract, TheBuffersLimitIsAnError) {
  if (store_.traits().lends_bytes) GTEST_SKIP() << "needs no buffer";
  set("k", kText);
  for (const byte_range& range : {byte_range{}, byte_range{0, 16, false}}) {
    growing_buffer room(8);
    byte_read read;
    read.key = "k";
    read.range = range;
    read.buffer = &room;
    EXPECT_EQ(code_of(read_now(store_, read)), errc::resource_exhausted);
  }
}

TEST_P(StoreContract, LentBytesOutliveRewriteAndErase) {
  set("k", kText);
  waiting_sink sink;
  growing_buffer room;
  byte_read read;
  read.key = "k";
  read.range = {4, 4, false};
  read.buffer = &room;
  store_.read({&read, 1}, sink, {});
  auto all = sink.wait(1);
  ASSERT_TRUE(all.begin()->second.ok());
  set("k", "something else and longer");
  subject_.remove("k");
  EXPECT_EQ(to_text(all.begin()->second->bytes), "4567");
}

TEST_P(StoreContract, VersionsDistinguishObjects) {
  if (!has_versions()) GTEST_SKIP() << "a store without versions";
  set("k", kText);
  const auto first = read_now(store_, "k");
  const auto again = read_now(store_, "k", {2, 3, false});
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_TRUE(first->seen == again->seen) << "whole and ranged reads of one object see one version";

  set("k", "fedcba9876543210");  // content of the same size
  const auto rewritten = read_now(store_, "k", {0, 4, false});
  ASSERT_TRUE(rewritten.ok());
  EXPECT_EQ(rewritten->text, "fedc");
  EXPECT_FALSE(rewritten->seen == first->seen);

  subject_.remove("k");
  EXPECT_EQ(code_of(read_now(store_, "k", {0, 4, false})), errc::not_found);
  set("k", kText);
  const auto created = read_now(store_, "k", {0, 4, false});
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created->text, "0123");
  EXPECT_FALSE(created->seen == rewritten->seen);
}

TEST_P(StoreContract, ReadsOnlyTheExpectedVersion) {
  if (!has_versions()) GTEST_SKIP() << "a store without versions";
  set("k", kText);
  const auto seen = read_now(store_, "k", {0, 4, false});
  ASSERT_TRUE(seen.ok());
  const byte_range ranges[] = {{}, {4, 4, false}, {0, 4, true}, {0, 0, false}};
  for (const byte_range& each : ranges) {
    const auto read = read_now(store_, "k", each, &seen->seen);
    ASSERT_TRUE(read.ok()) << to_string(each) << ": " << read.error().to_string();
    EXPECT_TRUE(read->seen == seen->seen);
    EXPECT_EQ(read->text.size(), each.whole() ? 16 : each.length);
    const version unknown;
    EXPECT_TRUE(read_now(store_, "k", each, &unknown).ok()) << "an unknown version expects nothing";
  }
  set("k", "fedcba9876543210");
  for (const byte_range& each : ranges)
    EXPECT_EQ(code_of(read_now(store_, "k", each, &seen->seen)), errc::version_changed) << to_string(each);
  subject_.remove("k");
  for (const byte_range& each : ranges)
    EXPECT_EQ(code_of(read_now(store_, "k", each, &seen->seen)), errc::not_found) << to_string(each);
}

TEST_P(StoreContract, ManyRequestsOfOneCallCompleteOnceEach) {
  set("k", kText);
  set("other", "other");
  const std::string_view keys[] = {"k", "k", "other", "nothing", "../outside", "k"};
  const byte_range ranges[] = {{0, 2, false}, {14, 2, false}, {}, {0, 2, false}, {}, {15, 2, false}};
  constexpr std::size_t kCount = 300;
  std::vector<byte_read> reads(kCount);
  std::vector<growing_buffer> rooms(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    reads[i].key = keys[i % 6];
    reads[i].range = ranges[i % 6];
    reads[i].tag = i;
    reads[i].buffer = &rooms[i];
  }
  waiting_sink sink;
  store_.read(reads, sink, {});
  const auto done = sink.wait(kCount);
  ASSERT_EQ(done.size(), kCount);
  for (const auto& [tag, outcome] : done) {
    switch (tag % 6) {
      case 0:
        EXPECT_EQ(outcome.ok() ? to_text(outcome->bytes) : outcome.error().to_string(), "01");
        break;
      case 1:
        EXPECT_EQ(outcome.ok() ? to_text(outcome->bytes) : outcome.error().to_string(), "ef");
        break;
      case 2:
        EXPECT_EQ(outcome.ok() ? to_text(outcome->bytes) : outcome.error().to_string(), "other");
        break;
      case 3:
        EXPECT_TRUE(!outcome.ok() && outcome.error().code() == errc::not_found);
        break;
      case 4:
        EXPECT_TRUE(!outcome.ok() && outcome.error().code() == errc::invalid_argument);
        break;
      case 5:
        EXPECT_TRUE(!outcome.ok() && outcome.error().code() == errc::corrupt_data);
        break;
    }
  }
}

TEST_P(StoreContract, AStoppedReadCompletesEveryRequestAsCancelled) {
  set("k", kText);
  std::vector<byte_read> reads(5);
  growing_buffer room;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = "k";
    reads[i].tag = i;
    reads[i].buffer = &room;
  }
  std::stop_source stop;
  stop.request_stop();
  waiting_sink sink;
  store_.read(reads, sink, stop.get_token());
  for (const auto& [tag, outcome] : sink.wait(reads.size())) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code(), errc::cancelled);
  }
}

TEST_P(StoreContract, KeysThatLeaveTheRootAreRefused) {
  const std::string_view hostile[] = {
      "",
      "/",
      "/etc/passwd",
      "..",
      "../secret",
      "a/../../secret",
      "a/..",
      "a//b",
      "a/",
      "./a",
      "a/./b",
      std::string_view("a\0b", 3),
      std::string_view("\0", 1),
  };
  for (const std::string_view key : hostile) {
    EXPECT_EQ(code_of(read_now(store_, key)), errc::invalid_argument) << key;
    EXPECT_EQ(code_of(read_now(store_, key, {0, 1, false})), errc::invalid_argument) << key;
    EXPECT_EQ(code_of(read_now(store_, key, {0, 0, false})), errc::invalid_argument) << key;
    if (!subject_.writable) continue;
    const auto put_there = put(key, "x");
    ASSERT_FALSE(put_there.ok()) << key;
    EXPECT_EQ(put_there.error().code(), errc::invalid_argument) << key;
    const auto erased = store_.erase(key, {});
    ASSERT_FALSE(erased.ok()) << key;
    EXPECT_EQ(erased.error().code(), errc::invalid_argument) << key;
  }
  for (const char* key : {"..a", "a..", "...", "a/.hidden", "c/0/..1", "a b", "\xC3\xA4"}) {
    set(key, kText);
    EXPECT_TRUE(read_now(store_, key).ok()) << key;
  }
}

TEST_P(StoreContract, BehavesAsItsTraitsState) {
  const store_traits traits = store_.traits();
  EXPECT_GT(traits.max_length_bytes, traits.max_gap_bytes);
  EXPECT_FALSE(store_.uri().empty());
  EXPECT_FALSE(traits.device_reads) << "destinations on a device have no test here yet";
  if (!traits.inline_completion) return;
  set("k", kText);
  std::vector<byte_read> reads(3);
  growing_buffer room;
  for (byte_read& each : reads) {
    each.key = "k";
    each.buffer = &room;
  }
  reads[1].range = {0, 4, false};
  struct : completion_sink {
    void complete(std::uint64_t, result<read_done> done) override {
      ++count;
      EXPECT_TRUE(done.ok());
      EXPECT_TRUE(!done.ok() || lends || done->bytes.data() == room->reserve(0).value().data());
    }
    int count = 0;
    bool lends = false;
    growing_buffer* room = nullptr;
  } sink;
  sink.lends = traits.lends_bytes;
  sink.room = &room;
  store_.read(reads, sink, {});
  EXPECT_EQ(sink.count, 3) << "an inline store completes before it returns";
}

store_subject file_subject() {
  auto folder = std::make_shared<temporary_folder>();
  const std::string root = folder->path() / "root";
  return writable_subject(std::make_shared<file_store>(root), folder);
}
store_subject durable_file_subject() {
  auto folder = std::make_shared<temporary_folder>();
  file_store_options options;
  options.sync = write_sync::durable;
  options.max_open_files = 0;
  return writable_subject(std::make_shared<file_store>(folder->path() / "not/yet/there", options), folder);
}
store_subject zip_subject() {
  auto folder = std::make_shared<temporary_folder>();
  return writable_subject(std::make_shared<zip_store>(folder->path() / "x.zip"), folder);
}
// Every change is a whole archive that others could read: each put has its lock, its directory and its version.
store_subject flushed_zip_subject() {
  auto folder = std::make_shared<temporary_folder>();
  zip_store_options options;
  options.sync = write_sync::durable;
  store_subject out = writable_subject(std::make_shared<zip_store>(folder->path() / "x.zip", options), folder);
  const auto set = out.set;
  const auto remove = out.remove;
  store* const to = out.store.get();
  out.set = [=](const std::string& key, std::string_view text) {
    set(key, text);
    ASSERT_TRUE(to->flush().ok());
  };
  out.remove = [=](const std::string& key) {
    remove(key);
    ASSERT_TRUE(to->flush().ok());
  };
  return out;
}
store_subject fault_subject(std::shared_ptr<store> inner, fault_script script) {
  return writable_subject(std::make_shared<fault_store>(std::move(inner), std::move(script)));
}
// Completes from another thread, in any order.
store_subject deferred_subject() {
  fault_script script;
  script.deferred = true;
  script.lends = false;
  auto made = std::make_shared<fault_store>(std::make_shared<memory_store>(), script);
  auto deliverer = std::make_shared<std::jthread>([from = made.get()](std::stop_token stop) {
    for (std::uint64_t i = 1; !stop.stop_requested(); i = i * 6364136223846793005U + 1) {
      if (from->pending()) {
        from->deliver_one(i >> 33);
      } else {
        std::this_thread::yield();
      }
    }
  });
  return writable_subject(made, deliverer);
}
store_subject http_subject() {
  auto server = std::make_shared<http_server>();
  store_subject out;
  out.store = std::make_shared<http_store>(*http_transport::make(16), *http_url::parse(server->url() + "/base"),
                                           remote_options{});
  out.set = [at = server.get()](const std::string& key, std::string_view text) {
    at->set("/base/" + key, std::string(text));
  };
  out.remove = [at = server.get()](const std::string& key) { at->remove("/base/" + key); };
  out.writable = out.listable = false;
  out.keeper = std::move(server);
  return out;
}
remote_options bucket_options(const http_server& server) {
  remote_options out;
  out.endpoint_url = server.url();
  out.key = "me";
  out.secret = "not telling";
  return out;
}
store_subject s3_subject(const s3_store_options& sizes) {
  auto server = std::make_shared<http_server>();
  const remote_options options = bucket_options(*server);
  auto made = std::make_shared<s3_store>(*http_transport::make(16),
                                         *s3_account::make(s3_flavour::aws, "bucket", options), options, sizes);
  return writable_subject(std::move(made), std::move(server));
}
// The same store with a cache on disk.
store_subject cached_on_disk(store_subject of, double trust_s) {
  struct kept {
    std::shared_ptr<void> keeper;
    temporary_folder home;
  };
  auto keeper = std::make_shared<kept>();
  keeper->keeper = std::move(of.keeper);
  disk_cache_options how;
  how.folder = keeper->home.path().string() + "/cache";
  how.trust = std::chrono::nanoseconds(static_cast<std::int64_t>(trust_s * 1e9));
  of.store = (*disk_cache::open(std::move(how)))->wrap(std::move(of.store), "origin", "");
  of.keeper = keeper;
  return of.writable ? writable_subject(of.store, keeper) : of;
}
s3_store_options small_parts() {
  s3_store_options out;
  out.multipart_bytes = 2;
  out.part_bytes = 5000;
  return out;
}
fault_script copying() {
  fault_script script;
  script.lends = false;
  return script;
}
fault_script unversioned() {
  fault_script script;
  script.versions = false;
  return script;
}

const store_case kCases[] = {
    {"memory", [] { return writable_subject(std::make_shared<memory_store>()); }},
    {"file", file_subject},
    {"durable_file", durable_file_subject},
    {"zip", zip_subject},
    {"flushed_zip", flushed_zip_subject},
    {"fault", [] { return fault_subject(std::make_shared<memory_store>(), {}); }},
    {"copying", [] { return fault_subject(std::make_shared<memory_store>(), copying()); }},
    {"unversioned", [] { return fault_subject(std::make_shared<memory_store>(), unversioned()); }},
    {"deferred", deferred_subject},
    {"http", http_subject},
    {"s3", [] { return s3_subject({}); }},
    {"s3_in_parts", [] { return s3_subject(small_parts()); }},
    {"http_cached", [] { return cached_on_disk(http_subject(), 0); }},
    {"s3_cached", [] { return cached_on_disk(s3_subject({}), 0); }},
    // Trusts that only this process writes.
    {"s3_cached_and_trusted", [] { return cached_on_disk(s3_subject(small_parts()), 1000); }},
    {"extension", [] { return writable_subject(toy_scheme()->find("toy:store", {})->store); }},
};
INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::test
