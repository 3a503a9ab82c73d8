// The fault store itself: scripted faults occur, the same in every run.

#include "contract/fault_store.h"

#include "contract/store_contract.h"
#include "store/memory_store.h"

namespace penstock::test {
namespace {

std::shared_ptr<fault_store> make(fault_script script) {
  auto made = std::make_shared<fault_store>(std::make_shared<memory_store>(), std::move(script));
  const bytes data = to_bytes("0123456789");
  const part whole(data);
  EXPECT_TRUE(made->put("k", {&whole, 1}, {}).ok());
  EXPECT_TRUE(made->put("other", {&whole, 1}, {}).ok());
  return made;
}

std::vector<std::string> run(const fault_store& from, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    const auto read = read_now(from, i % 3 == 0 ? "other" : "k", {2, 4, false});
    out.push_back(read.ok() ? read->text : read.error().to_string());
  }
  return out;
}

TEST(FaultStore, FailsTheSameRequestsForTheSameSeed) {
  fault_script script;
  script.seed = 7;
  script.fail = 300;
  const auto first = run(*make(script), 200);
  EXPECT_EQ(first, run(*make(script), 200));
  const auto good = std::count(first.begin(), first.end(), "2345");
  EXPECT_GT(good, 100);
  EXPECT_LT(good, 180);
  script.seed = 8;
  EXPECT_NE(first, run(*make(script), 200));
  script.most = 3;
  const auto few = run(*make(script), 200);
  EXPECT_EQ(std::count(few.begin(), few.end(), "2345"), 197);
}

TEST(FaultStore, TruncatesReadsAndOverwritesTheDestination) {
  fault_script script;
  script.cut = 1000;
  const auto store = make(script);
  bytes memory(8, std::byte{'-'});
  byte_read read;
  read.key = "k";
  read.range = {0, 8, false};
  read.destination = memory;
  EXPECT_EQ(code_of(read_now(*store, read)), errc::io_error);
  EXPECT_NE(to_text(memory), "01234567");
}

TEST(FaultStore, ChangesVersionsAndHidesObjects) {
  const auto store = make({});
  const auto first = read_now(*store, "k");
  store->change("k");
  EXPECT_EQ(code_of(read_now(*store, "k", {}, &first->seen)), errc::version_changed);
  const auto second = read_now(*store, "k");
  EXPECT_FALSE(second->seen == first->seen);
  EXPECT_TRUE(read_now(*store, "k", {}, &second->seen).ok());
  store->vanish("k");
  EXPECT_EQ(code_of(read_now(*store, "k")), errc::not_found);
  store->restore("k");
  EXPECT_TRUE(read_now(*store, "k", {}, &second->seen).ok());
}

TEST(FaultStore, FailsThePlannedRequests) {
  const auto store = make({});
  store->fail_next("k", errc::permission_denied, 2);
  EXPECT_TRUE(read_now(*store, "other").ok());
  EXPECT_EQ(code_of(read_now(*store, "k")), errc::permission_denied);
  EXPECT_EQ(code_of(read_now(*store, "k")), errc::permission_denied);
  EXPECT_TRUE(read_now(*store, "k").ok());
}

TEST(FaultStore, CountsRequestsAndBytesByKey) {
  const auto store = make({});
  EXPECT_TRUE(read_now(*store, "k").ok());
  EXPECT_TRUE(read_now(*store, "k", {0, 3, true}).ok());
  EXPECT_TRUE(read_now(*store, "k", {0, 0, false}).ok());
  EXPECT_TRUE(read_now(*store, "other", {0, 5, false}).ok());
  EXPECT_EQ(store->of("k").requests, 3u);
  EXPECT_EQ(store->of("k").checks, 1u);
  EXPECT_EQ(store->of("k").bytes, 13u);
  EXPECT_EQ(store->total().requests, 4u);
  EXPECT_EQ(store->total().bytes, 18u);
  EXPECT_EQ(store->of("nothing").requests, 0u);
  store->reset_counts();
  EXPECT_EQ(store->total().requests, 0u);
}

TEST(FaultStore, DefersCompletionsUntilTheyAreDelivered) {
  fault_script script;
  script.deferred = true;
  waiting_sink sink;
  growing_buffer room;
  std::vector<byte_read> reads(3);
  for (std::size_t i = 0; i < 3; ++i) {
    reads[i].key = i == 0 ? "other" : "k";
    reads[i].tag = i;
    reads[i].buffer = &room;
  }
  {
    const auto store = make(script);
    EXPECT_FALSE(store->traits().inline_completion);
    store->read(reads, sink, {});
    EXPECT_EQ(store->pending_count(), 3u);
    store->vanish("other");  // between the request and its completion
    store->deliver_one(3);   // 3 % 3: the first
    const auto first = sink.wait(1);
    EXPECT_EQ(first.begin()->first, 0u);
    EXPECT_EQ(first.begin()->second.error().code(), errc::not_found);
    store->deliver_one(1);
    EXPECT_EQ(sink.wait(1).begin()->first, 2u);
    EXPECT_TRUE(store->pending());
  }
  const auto rest = sink.wait(1);
  EXPECT_EQ(rest.begin()->second.error().code(), errc::cancelled) << "undelivered requests still complete";
}

}  // namespace
}  // namespace penstock::test
