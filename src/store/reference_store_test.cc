#include "store/reference_store.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <stdexcept>

#include "store/held_bytes.h"
#include "store/memory_store.h"

namespace penstock {
namespace {

class every_read final : public completion_sink {
 public:
  void complete(std::uint64_t tag, result<read_done> done) override {
    results[tag] = done.ok() ? std::to_string(done->bytes.size()) : std::string(to_string(done.error().code()));
  }
  std::map<std::uint64_t, std::string> results;
};

/// Counts calls, and completes after `read` has returned if `later`.
class counting_store final : public store {
 public:
  explicit counting_store(bool later) : later_(later) {}
  store_traits traits() const override {
    store_traits out = held.traits();
    out.request_bytes = later_ ? 1000 : 10;
    out.inline_completion = !later_;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    calls.push_back(reads.size());
    if (throws) throw std::runtime_error("disk on fire");
    if (!later_) return held.read(reads, sink, stop);
    for (const byte_read& each : reads) waiting.emplace_back(each, &sink);
  }
  void finish() const {
    for (const auto& [wanted, sink] : waiting) held.read({&wanted, 1}, *sink, {});
    waiting.clear();
  }
  std::string uri() const override { return "counting:"; }

  bool throws = false;
  mutable memory_store held;
  mutable std::vector<std::size_t> calls;
  mutable std::vector<std::pair<byte_read, completion_sink*>> waiting;

 private:
  const bool later_;
};

std::shared_ptr<counting_store> filled(bool later, std::initializer_list<const char*> keys) {
  auto out = std::make_shared<counting_store>(later);
  const std::vector<std::byte> content(4);
  const part bytes = content;
  for (const char* const key : keys) EXPECT_TRUE(out->held.put(key, {&bytes, 1}, {}).ok());
  return out;
}

reference_store::object object_of(const std::string& name, std::shared_ptr<const store> from, const std::string& key) {
  reference_store::object out;
  out.name = name;
  out.from = std::move(from);
  out.key = key;
  return out;
}

std::vector<byte_read> reads_of(std::initializer_list<const char*> names) {
  std::vector<byte_read> out;
  for (const char* const name : names) {
    byte_read& one = out.emplace_back();
    one.key = name;
    one.tag = out.size();
  }
  return out;
}

TEST(ReferenceStore, PassesNeighbouringReadsOfOneStoreTogether) {
  for (const bool later : {false, true}) {
    SCOPED_TRACE(later);
    const auto a = filled(later, {"1", "2"}), b = filled(later, {"1"});
    const auto made = reference_store::make({object_of("a1", a, "1"), object_of("a2", a, "2"), object_of("b1", b, "1")},
                                            "references:");
    ASSERT_TRUE(made.ok());
    every_read sink;
    const auto reads = reads_of({"a1", "a2", "none", "a1", "b1", "a2"});
    (*made)->read(reads, sink, {});
    a->finish();
    b->finish();
    EXPECT_EQ(a->calls, (std::vector<std::size_t>{3, 1}));
    EXPECT_EQ(b->calls, (std::vector<std::size_t>{1}));
    const std::map<std::uint64_t, std::string> wanted = {{1, "4"}, {2, "4"}, {3, "not_found"},
                                                         {4, "4"}, {5, "4"}, {6, "4"}};
    EXPECT_EQ(sink.results, wanted);
  }
}

TEST(ReferenceStore, ReportsChangesOfPinnedObjectsAsConflicts) {
  const auto a = filled(false, {"1", "2", "3"});
  every_read seen;
  std::vector<reference_store::object> objects;
  for (const char* const key : {"1", "2", "3"}) {
    objects.push_back(object_of(std::string("a") + key, a, key));
    objects.back().pinned.word[0] = 12345;  // not the present one
    objects.back().pinned.word[1] = 1;
  }
  objects[2].pinned = {};
  const auto made = reference_store::make(std::move(objects), "references:");
  ASSERT_TRUE(made.ok());
  (*made)->read(reads_of({"a1", "a2", "a3"}), seen, {});
  EXPECT_EQ(a->calls, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(seen.results, (std::map<std::uint64_t, std::string>{{1, "conflict"}, {2, "conflict"}, {3, "4"}}));
}

TEST(ReferenceStore, ServesTheBytesThatItHoldsAsLongAsTheyAreFresh) {
  const auto a = filled(true, {"1"});  // 4 zeros
  const auto served = [&](byte_range range, std::chrono::milliseconds age, std::size_t reads, bool pinned = true) {
    auto object = object_of("a1", a, "1");
    if (pinned) object.pinned.word[0] = 12345;
    object.held = std::make_shared<const held_bytes>(std::uint64_t{1}, std::vector{std::byte{7}, std::byte{8}},
                                                     std::uint64_t{4}, held_bytes::clock::now() - age);
    const auto made = reference_store::make({std::move(object)}, "references:");
    std::array<std::byte, 4> room{};
    std::vector<byte_read> wanted(reads);
    for (byte_read& each : wanted) {
      each.key = "a1";
      each.range = range;
      each.destination = std::span(room).first(static_cast<std::size_t>(range.length));
    }
    every_read sink;
    a->calls.clear();
    (*made)->read(wanted, sink, {});
    a->finish();
    return a->calls.empty() ? sink.results[0] + std::to_string(static_cast<int>(room[0])) : std::string();
  };
  // Bytes of the future: a slow machine does not make them old.
  constexpr std::chrono::milliseconds kNew{-3600000}, kOld{2000};
  for (const std::size_t reads : {1U, 2U}) {
    EXPECT_EQ(served({1, 2, false}, kNew, reads), "27");  // 2 bytes, of which the first is 7
    EXPECT_EQ(served({2, 1, false}, kNew, reads), "18");
    EXPECT_EQ(served({2, 2, false}, kNew, reads), "");
    EXPECT_EQ(served({0, 2, false}, kNew, reads), "");
    EXPECT_EQ(served({3, 1, false}, kNew, reads), "");
    EXPECT_EQ(served({0, 0, false}, kNew, reads), "");
    EXPECT_EQ(served({1, 2, false}, kOld, reads), "");
    EXPECT_EQ(served({1, 2, false}, kNew, reads, false), "");
  }
}

TEST(ReferenceStore, FreesTheBytesThatItHeldOnceTheyAreOld) {
  const auto fetched = held_bytes::clock::now();
  const held_bytes held(0, std::vector<std::byte>(2), 4, fetched);
  EXPECT_FALSE(held.drop_if_old(fetched));
  EXPECT_TRUE(held.drop_if_old(fetched + std::chrono::seconds(2)));
  EXPECT_TRUE(held.drop_if_old(fetched));
}

TEST(ReferenceStore, AnExceptionOfOneStoreIsNotTheErrorOfReadsOfOthers) {
  for (const bool later : {false, true}) {
    const auto a = filled(true, {"1"}), b = filled(later, {"1"});
    const auto made = reference_store::make({object_of("a1", a, "1"), object_of("b1", b, "1")}, "references:");
    b->throws = true;
    every_read sink;
    (*made)->read(reads_of({"a1", "b1", "a1"}), sink, {});
    EXPECT_EQ(sink.results, (std::map<std::uint64_t, std::string>{{2, "io_error"}}));
    a->finish();
    EXPECT_EQ(sink.results, (std::map<std::uint64_t, std::string>{{1, "4"}, {2, "io_error"}, {3, "4"}}));
  }
}

TEST(ReferenceStore, ReadsThroughGapsAsItsSlowestStore) {
  const auto near = filled(false, {"1"}), far = filled(true, {"1"});
  const auto made = reference_store::make({object_of("near", near, "1"), object_of("far", far, "1")}, "references:");
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->traits().request_bytes, 1000U);
}

}  // namespace
}  // namespace penstock
