#include "store/disk_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "store/http_message.h"

namespace penstock::test {
namespace {

using std::chrono::nanoseconds;

class DiskIndex : public testing::Test {
 protected:
  // A range of an object of 100 bytes.
  disk_record range(std::uint64_t offset, std::uint64_t length, std::int64_t time_ns,
                    const std::string& text = "\"a\"") {
    disk_record out;
    out.object = object_;
    out.time_ns = time_ns;
    const version seen = version_of_text(text);
    std::copy(std::begin(seen.word), std::end(seen.word), out.seen.word.begin());
    out.seen.text = text;
    out.object_size = 100;
    out.extent.where = segment_;
    out.extent.offset = offset;
    out.extent.length = length;
    return out;
  }
  disk_record of_kind(disk_record_kind kind, std::int64_t time_ns) {
    disk_record out = range(0, 0, time_ns);
    out.kind = kind;
    return out;
  }
  cache_verdict look(const byte_range& range, std::int64_t now_ns = 1000, const version* expected = nullptr) {
    byte_read wanted;
    wanted.range = range;
    wanted.expected = expected;
    return index_.look(object_, wanted, now_ns, found_);
  }

  const cached_object object_{{1, 2}};
  std::shared_ptr<disk_segment> segment_ = std::make_shared<disk_segment>();
  disk_index index_{nanoseconds(50)};
  cached_bytes found_;
};

TEST_F(DiskIndex, JoinsRangesThatTouchOrOverlap) {
  index_.apply(range(0, 30, 1));
  index_.apply(range(20, 40, 2));
  index_.apply(range(70, 30, 3));
  EXPECT_EQ(look({5, 50, false}), cache_verdict::check);
  ASSERT_EQ(found_.parts.size(), 2U);
  EXPECT_EQ(found_.parts[0].begin, 5U);
  EXPECT_EQ(found_.parts[0].length + found_.parts[1].length, 50U);
  EXPECT_EQ(found_.length, 50U);
  EXPECT_EQ(look({5, 56, false}), cache_verdict::miss);
  EXPECT_EQ(look({0, 30, true}), cache_verdict::check);
  EXPECT_EQ(look({0, 31, true}), cache_verdict::miss);
  EXPECT_EQ(look({}), cache_verdict::miss);
  index_.apply(range(60, 10, 4));
  EXPECT_EQ(look({}), cache_verdict::check);
  EXPECT_EQ(found_.length, 100U);
  segment_->is_gone = true;
  EXPECT_EQ(look({5, 50, false}), cache_verdict::miss);
}

TEST_F(DiskIndex, HoldsTheVersionThatWasSeenLast) {
  const version a = version_of_text("\"a\""), b = version_of_text("\"b\"");
  index_.apply(range(0, 10, 5, "\"b\""));
  index_.apply(range(10, 10, 4));
  EXPECT_EQ(look({10, 10, false}), cache_verdict::miss) << "an older version";
  EXPECT_EQ(look({0, 10, false}, 1000, &b), cache_verdict::check);
  EXPECT_EQ(look({0, 10, false}, 1000, &a), cache_verdict::miss);
  index_.apply(range(10, 10, 6));
  EXPECT_EQ(look({0, 10, false}), cache_verdict::miss);
  EXPECT_EQ(look({10, 10, false}, 1000, &a), cache_verdict::check);
  disk_record forged = range(0, 10, 7, "\"c\"");
  forged.seen.text = "\"d\"";
  index_.apply(forged);
  EXPECT_EQ(look({10, 10, false}), cache_verdict::check);
  index_.apply(of_kind(disk_record_kind::dropped, 8));
  EXPECT_EQ(look({10, 10, false}), cache_verdict::miss);
  index_.apply(range(10, 10, 7));
  EXPECT_EQ(look({10, 10, false}), cache_verdict::miss) << "read before the write";
}

TEST_F(DiskIndex, TrustsForTheGivenTime) {
  index_.apply(range(0, 100, 100));
  EXPECT_EQ(look({}, 150), cache_verdict::serve);
  EXPECT_EQ(look({}, 151), cache_verdict::check);
  EXPECT_EQ(look({}, 99), cache_verdict::check) << "a time to come";
  EXPECT_EQ(look({0, 0, false}, 150), cache_verdict::serve);
  EXPECT_EQ(look({0, 0, false}, 151), cache_verdict::miss);
  EXPECT_TRUE(index_.confirm(object_, version_of_text("\"a\""), 200));
  EXPECT_EQ(look({}, 240), cache_verdict::serve);
  EXPECT_FALSE(index_.confirm(object_, version_of_text("\"b\""), 300));
  index_.apply(of_kind(disk_record_kind::absent, 400));
  EXPECT_EQ(look({}, 450), cache_verdict::absent);
  EXPECT_EQ(look({}, 451), cache_verdict::miss);
  EXPECT_TRUE(index_.knows(object_));
}

TEST_F(DiskIndex, ForgetsObjectsOfWhichNothingIsTrusted) {
  index_.apply(of_kind(disk_record_kind::absent, 100));
  index_.drop_gone(150);
  EXPECT_TRUE(index_.knows(object_));
  index_.drop_gone(151);
  EXPECT_FALSE(index_.knows(object_));
  index_.apply(range(0, 100, 200));
  index_.drop_gone(1000);
  EXPECT_TRUE(index_.knows(object_)) << "its bytes are there";
  segment_->is_gone = true;
  index_.drop_gone(250);
  EXPECT_TRUE(index_.knows(object_));
  index_.drop_gone(251);
  EXPECT_FALSE(index_.knows(object_));
}

TEST_F(DiskIndex, RangesThatExceed64BitsAreMisses) {
  disk_record record = range(0, 100, 1);
  record.object_size = byte_range::kAll;
  index_.apply(record);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(look({kMost - 5, 10, false}), cache_verdict::miss);
  EXPECT_EQ(look({kMost, kMost - 1, false}), cache_verdict::miss);
  EXPECT_EQ(look({10, 90, false}), cache_verdict::check);
  EXPECT_EQ(look({10, 91, false}), cache_verdict::miss);
  EXPECT_EQ(look({}), cache_verdict::miss);
}

}  // namespace
}  // namespace penstock::test
