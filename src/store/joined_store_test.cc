#include "store/joined_store.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock
