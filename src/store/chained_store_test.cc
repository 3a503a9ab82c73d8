#include "store/chained_store.h"

#include <gtest/gtest.h>
#include <penstock/extend/store.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "store/memory_store.h"
#include "store/store_fixture.h"

namespace penstock {
namespace {

/// Completes after `read` has returned, last request first.
class late_store final : public store {
 public:
  store_traits traits() const override {
    store_traits out = held.traits();
    out.inline_completion = false;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    if (throws) throw std::runtime_error("disk on fire");
    for (const byte_read& each : reads) waiting.emplace_back(each, &sink);
  }
  void finish() const {
    for (auto at = waiting.rbegin(); at != waiting.rend(); ++at) held.read({&at->first, 1}, *at->second, {});
    waiting.clear();
  }
  std::string uri() const override { return "late:"; }

  bool throws = false;
  mutable memory_store held;
  mutable std::vector<std::pair<byte_read, completion_sink*>> waiting;
};

void put(store& to, const char* key, std::string_view text) {
  const test::bytes content = test::to_bytes(text);
  const part whole(content);
  ASSERT_TRUE(to.put(key, {&whole, 1}, {}).ok());
}

class one_read final : public completion_sink {
 public:
  void complete(std::uint64_t, result<read_done> done) override {
    EXPECT_FALSE(ended);
    ended = true;
    size = done.ok() ? done->object_size : 0;
    text = done.ok() ? test::to_text(done->bytes) : done.error().to_string();
  }
  bool ended = false;
  std::uint64_t size = 0;
  std::string text;
};

const std::vector<chained_store::link> kLinks{{"a", 1, 3}, {"b", 0, 2}, {"c", 0, 0}, {"a", 4, 4}};

TEST(ChainedStore, HasTheBytesOfEveryRange) {
  const auto from = std::make_shared<late_store>();
  put(from->held, "a", "-abcdefg");
  put(from->held, "b", "01-");
  put(from->held, "c", "");
  const chained_store all("all", from, kLinks);
  const std::string whole = "abc01defg";
  EXPECT_EQ(all.bytes(), whole.size());
  EXPECT_FALSE(all.traits().versions);
  for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= whole.size(); ++length) {
      for (const bool into : {false, true}) {
        test::growing_buffer buffer;
        test::bytes room(length);
        byte_read wanted;
        wanted.key = "all";
        wanted.range = {begin, length, false};
        wanted.buffer = &buffer;
        if (into) wanted.destination = room;
        one_read done;
        all.read({&wanted, 1}, done, {});
        from->finish();
        EXPECT_TRUE(done.ended);
        EXPECT_EQ(done.text, whole.substr(begin, length));
        EXPECT_EQ(done.size, whole.size());
        if (into) {
          EXPECT_EQ(test::to_text(room), whole.substr(begin, length));
        }
      }
    }
  }
}

TEST(ChainedStore, ReadsItsEndAndAllOfItself) {
  const auto from = std::make_shared<memory_store>();
  put(*from, "a", "-abcdefg");
  put(*from, "b", "01-");
  const chained_store all("all", from, kLinks);
  for (const auto& [range, text] : {std::pair<byte_range, const char*>{{}, "abc01defg"}, {{0, 6, true}, "01defg"}}) {
    test::growing_buffer buffer;
    byte_read wanted;
    wanted.key = "all";
    wanted.range = range;
    wanted.buffer = &buffer;
    one_read done;
    all.read({&wanted, 1}, done, {});
    EXPECT_EQ(done.text, text);
  }
}

TEST(ChainedStore, ErrorsNameTheRange) {
  const auto from = std::make_shared<memory_store>();
  put(*from, "a", "-abc");
  put(*from, "b", "01-");
  const chained_store all("all", from, kLinks);
  const auto error_of = [&](std::string_view key, byte_range range) {
    test::growing_buffer buffer;
    byte_read wanted;
    wanted.key = key;
    wanted.range = range;
    wanted.buffer = &buffer;
    one_read done;
    all.read({&wanted, 1}, done, {});
    EXPECT_TRUE(done.ended);
    return done.text;
  };
  EXPECT_NE(error_of("all", {2, 6, false}).find("reading 'a', bytes [4, 7)"), std::string::npos);
  EXPECT_EQ(error_of("all", {2, 3, false}), "c01");
  EXPECT_NE(error_of("all", {2, 60, false}).find("corrupt_data"), std::string::npos);
  EXPECT_NE(error_of("a", {0, 1, false}).find("not_found"), std::string::npos);
}

TEST(ChainedStore, AnExceptionIsTheErrorOfItsRead) {
  const auto from = std::make_shared<late_store>();
  const chained_store all("all", from, kLinks);
  from->throws = true;
  test::growing_buffer buffer;
  byte_read wanted;
  wanted.key = "all";
  wanted.range = {0, 9, false};
  wanted.buffer = &buffer;
  one_read done;
  all.read({&wanted, 1}, done, {});
  EXPECT_TRUE(done.ended);
  EXPECT_NE(done.text.find("the store threw an exception: disk on fire"), std::string::npos) << done.text;
}

}  // namespace
}  // namespace penstock
