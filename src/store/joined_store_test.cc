#include "store/joined_store.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "store/memory_store.h"

namespace penstock {
namespace {

class last_read final : public completion_sink {
 public:
  void complete(std::uint64_t, result<read_done> done) override {
    failed = !done.ok();
    if (!failed) bytes.assign(done->bytes.begin(), done->bytes.end());
  }
  std::vector<std::byte> bytes;
  bool failed = false;
};

std::shared_ptr<store> store_of(std::byte value) {
  std::shared_ptr<store> out = std::make_shared<memory_store>();
  const std::vector<std::byte> content{value};
  const part bytes = content;
  EXPECT_TRUE(out->put("c/0", {&bytes, 1}, {}).ok());
  return out;
}

TEST(JoinedStore, DistinguishesStoresOfOneUri) {
  const auto a = store_of(std::byte{1}), b = store_of(std::byte{2});
  const auto joined = joined_store::make({a, b, a}, "joined:");
  EXPECT_NE(joined->prefix(0), joined->prefix(1));
  EXPECT_EQ(joined->prefix(0), joined->prefix(2));
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string key = joined->prefix(i) + "c/0";
    last_read sink;
    byte_read one;
    one.key = key;
    joined->read({&one, 1}, sink, {});
    ASSERT_FALSE(sink.failed) << key;
    EXPECT_EQ(sink.bytes, std::vector<std::byte>{static_cast<std::byte>(i == 1 ? 2 : 1)});
  }
}

TEST(JoinedStore, ReportsAnUnknownNameAsNotFound) {
  const auto joined = joined_store::make({store_of(std::byte{1})}, "joined:");
  last_read sink;
  byte_read one;
  one.key = "elsewhere/c/0";
  joined->read({&one, 1}, sink, {});
  EXPECT_TRUE(sink.failed);
}

// Completes its reads later, or completes one and throws an exception.
class unsteady_store final : public store {
 public:
  explicit unsteady_store(bool throws) : throws_(throws) {}
  store_traits traits() const override { return {}; }
  std::string uri() const override { return throws_ ? "throwing:" : "late:"; }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    for (const byte_read& each : reads) waiting_.emplace_back(&sink, each.tag);
    if (!throws_) return;
    finish(1);
    throw std::runtime_error("disk on fire");
  }
  void finish(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) waiting_[i].first->complete(waiting_[i].second, read_done());
    waiting_.clear();
  }

 private:
  const bool throws_;
  mutable std::vector<std::pair<completion_sink*, std::uint64_t>> waiting_;
};

class noted_reads final : public completion_sink {
 public:
  void complete(std::uint64_t tag, result<read_done> done) override {
    EXPECT_TRUE(outcomes.emplace(tag, done.ok() ? "ok" : done.error().message()).second) << tag;
  }
  std::map<std::uint64_t, std::string> outcomes;
};

TEST(JoinedStore, AnExceptionOfOneStoreIsNotTheErrorOfReadsOfOthers) {
  const auto late = std::make_shared<unsteady_store>(false), throwing = std::make_shared<unsteady_store>(true);
  const auto joined = joined_store::make({late, throwing}, "joined:");
  const std::string first = joined->prefix(0) + "c/0", second = joined->prefix(1) + "c/0";
  std::vector<byte_read> reads(4);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = i == 1 || i == 2 ? second : first;
    reads[i].tag = i;
  }
  const std::string why = "the store threw an exception: disk on fire";
  noted_reads sink;
  joined->read(reads, sink, {});
  EXPECT_EQ(sink.outcomes, (std::map<std::uint64_t, std::string>{{1, "ok"}, {2, why}}));
  late->finish(2);
  EXPECT_EQ(sink.outcomes, (std::map<std::uint64_t, std::string>{{0, "ok"}, {1, "ok"}, {2, why}, {3, "ok"}}));
}

}  // namespace
}  // namespace penstock
