// Ranges as text, defaults of stores, and valid keys.

#include <gtest/gtest.h>
#include <penstock/store.h>

#include <string>
#include <vector>

#include <penstock/extend/store.h>

namespace penstock::inline v0 {
namespace {

TEST(ByteRange, IsPrintedAsIntervalTailOrAll) {
  EXPECT_EQ(to_string(byte_range{1024, 4096, false}), "[1024, 5120)");
  EXPECT_EQ(to_string(byte_range{7, 0, false}), "[7, 7)");
  EXPECT_EQ(to_string(byte_range{0, 68, true}), "last 68 bytes");
  EXPECT_EQ(to_string(byte_range{}), "all");
  EXPECT_EQ(to_string(byte_range{byte_range::kAll, 2, false}), "[18446744073709551615, +2)");
}

class bare_store final : public store {
 public:
  store_traits traits() const override { return {}; }
  void read(std::span<const byte_read>, completion_sink&, std::stop_token) const override {}
  std::string uri() const override { return "bare:"; }
};

TEST(Store, RefusesUnsupportedWritesAndListings) {
  bare_store bare;
  struct : key_sink {
    bool key(std::string_view, std::uint64_t) override { return true; }
  } sink;
  EXPECT_EQ(bare.put("k", {}, {}).error().to_string(), "read_only: this store cannot be written to: bare:");
  EXPECT_EQ(bare.erase("k", {}).error().code(), errc::read_only);
  EXPECT_EQ(bare.list("", listing::objects, sink).error().code(), errc::unsupported);
}

TEST(ByteExtent, NamesRangeAndSizeIfARangeExceedsTheObject) {
  byte_read read;
  read.range = {1024, 4096, false};
  EXPECT_EQ(find_extent(read, 5119).error().to_string(),
            "corrupt_data: the range exceeds the object: [1024, 5120) of 5119 bytes");
  EXPECT_EQ(find_extent(read, 5120)->offset, 1024u);
  read.range = {9, 68, true};
  EXPECT_EQ(find_extent(read, 67).error().to_string(),
            "corrupt_data: the range exceeds the object: last 68 bytes of 67 bytes");
  EXPECT_EQ(find_extent(read, 1).error().to_string(),
            "corrupt_data: the range exceeds the object: last 68 bytes of 1 byte");
  EXPECT_EQ(find_extent(read, 70)->offset, 2u);
  EXPECT_EQ(find_extent(read, 70)->length, 68u);
}

TEST(ByteExtent, EndsWithAnObjectThatMayEndEarly) {
  byte_read read;
  read.range = {1024, 4096, false};
  read.may_end_early = true;
  EXPECT_EQ(find_extent(read, 9000)->length, 4096u);
  EXPECT_EQ(find_extent(read, 1030)->offset, 1024u);
  EXPECT_EQ(find_extent(read, 1030)->length, 6u);
  EXPECT_EQ(find_extent(read, 1024)->length, 0u);
  EXPECT_EQ(find_extent(read, 1023).error().code(), errc::corrupt_data);
  read.range = {0, 68, true};
  EXPECT_EQ(find_extent(read, 67).error().code(), errc::corrupt_data);
}

TEST(ByteExtent, BoundsTheBytesOfARead) {
  byte_read read;
  read.max_bytes = 10;
  EXPECT_EQ(find_extent(read, 11).error().to_string(), "corrupt_data: the object is 11 bytes, at most 10 are allowed");
  EXPECT_EQ(find_extent(read, 10)->length, 10u);
  read.range = {0, 11, false};
  EXPECT_EQ(find_extent(read, 50).error().code(), errc::corrupt_data);
}

TEST(ByteExtent, ADestinationOfAnotherSizeThanItsRangeIsAFault) {
  std::byte memory[4];
  byte_read read;
  read.range = {0, 5, false};
  read.destination = memory;
  EXPECT_EQ(find_extent(read, 50).error().code(), errc::internal);
}

TEST(ByteExtent, ReadsWithoutMemoryAreAFault) { EXPECT_EQ(find_room(byte_read{}, 1).error().code(), errc::internal); }

TEST(PathKey, AcceptsSegmentsBetweenSlashes) {
  for (const char* key : {"a", "zarr.json", "a/b/c", "c/0/1", ".zarray", "...", "..a", "a..", "a/.b", " ", "a\\..\\b"})
    EXPECT_TRUE(check_key(key).ok()) << key;
}

TEST(PathKey, RefusesKeysThatCouldLeaveTheRoot) {
  const std::string_view bad[] = {
      "", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/..", "../a", "./a", "a/../b", std::string_view("a\0", 2)};
  for (const std::string_view key : bad) {
    const auto checked = check_key(key);
    ASSERT_FALSE(checked.ok()) << key;
    EXPECT_EQ(checked.error().code(), errc::invalid_argument);
  }
  EXPECT_EQ(check_key("a/../b").error().to_string(),
            "invalid_argument: a storage key must not contain the segments '.' and '..': 'a/../b'");
  EXPECT_EQ(check_key("\n/\x1b[31m/").error().message(),
            "a storage key must not be empty, nor begin or end with '/', nor contain '//': '?/?[31m/'");
}

TEST(PathKey, PrefixesEndWithASlash) {
  EXPECT_TRUE(check_prefix("").ok());
  EXPECT_TRUE(check_prefix("a/").ok());
  EXPECT_TRUE(check_prefix("a/b/").ok());
  for (const char* prefix : {"a", "/", "a//", "../", "a/../"}) EXPECT_FALSE(check_prefix(prefix).ok()) << prefix;
}

TEST(KeyListing, HasFoldersOnceAndStopsWithTheSink) {
  struct : key_sink {
    bool key(std::string_view key, std::uint64_t size_bytes) override {
      seen.push_back(std::string(key) + ":" + std::to_string(size_bytes));
      return seen.size() < most;
    }
    std::vector<std::string> seen;
    std::size_t most = 100;
  } sink;
  const auto listed = [&](std::string_view prefix, listing what, std::size_t most = 100) {
    key_listing found(prefix, what);
    std::uint64_t size = 1;
    for (const std::string_view key : {"a/b/1", "a/c", "b", "a/b/2", "ab/c"}) found.add(key, size++);
    sink.seen.clear();
    sink.most = most;
    found.report(sink);
    return sink.seen;
  };
  using names = std::vector<std::string>;
  EXPECT_EQ(listed("", listing::objects), (names{"a/b/1:1", "a/c:2", "b:3", "a/b/2:4", "ab/c:5"}));
  EXPECT_EQ(listed("", listing::children), (names{"a/:0", "b:3", "ab/:0"}));
  EXPECT_EQ(listed("a/", listing::children), (names{"a/b/:0", "a/c:2"}));
  EXPECT_EQ(listed("a/", listing::objects), (names{"a/b/1:1", "a/c:2", "a/b/2:4"}));
  EXPECT_EQ(listed("", listing::children, 2), (names{"a/:0", "b:3"}));
}

}  // namespace
}  // namespace penstock::inline v0
