#include <penstock/array_source.h>

#include <gtest/gtest.h>
#include <penstock/create.h>
#include <penstock/joined.h>
#include <penstock/open.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace penstock {
namespace {

dtype type_of(const char* name) { return *dtype::from_name(name); }

/// Which boxes were read.
struct boxes {
  std::mutex mutex;
  std::vector<std::string> seen;
};

// Element (i, j) of source `number` is number * 1e6 + i * 1e3 + j.
array_source numbered(std::int32_t number, extents shape, extents chunks, boxes* seen = nullptr) {
  array_source out;
  out.name = "file_" + std::to_string(number);
  out.type = type_of("int32");
  out.shape = shape;
  out.chunks = chunks;
  out.read = [=](const box& which, std::span<std::byte> to) -> result<> {
    if (seen != nullptr) {
      const std::lock_guard lock(seen->mutex);
      seen->seen.push_back(std::to_string(number) + " " + to_string(which.origin) + " " + to_string(which.size));
    }
    EXPECT_EQ(to.size(), which.size[0] * which.size[1] * 4);
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < which.size[0]; ++i) {
      for (std::uint64_t j = 0; j < which.size[1]; ++j, at += 4) {
        const std::int32_t value = number * 1'000'000 + static_cast<std::int32_t>(which.origin[0] + i) * 1000 +
                                   static_cast<std::int32_t>(which.origin[1] + j);
        std::memcpy(to.data() + at, &value, 4);
      }
    }
    return {};
  };
  return out;
}

std::vector<std::int32_t> values_of(const array& from, const char* text) {
  const auto which = parse_selection(text);
  const auto shape = from.result_shape(*which);
  EXPECT_TRUE(shape.ok());
  std::vector<std::int32_t> out(*element_count(*shape));
  const auto done = from.read(*which, tensor_view::contiguous(out.data(), type_of("int32"), *shape));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

TEST(ArraySource, ReadsTheBoxesOfASelection) {
  boxes seen;
  const auto a = open_sources(
      {numbered(0, {20, 4}, {8, 4}, &seen), numbered(1, {0, 4}, {8, 4}, &seen), numbered(2, {30, 4}, {8, 4}, &seen)},
      0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(a->shape(), (extents{50, 4}));
  EXPECT_EQ(a->format(), "joined");
  EXPECT_EQ(a->uri(), "joined:file_0 ... file_2");
  EXPECT_EQ(values_of(*a, "18:22, 1:3"),
            (std::vector<std::int32_t>{18001, 18002, 19001, 19002, 2000001, 2000002, 2001001, 2001002}));
  std::sort(seen.seen.begin(), seen.seen.end());
  EXPECT_EQ(seen.seen, (std::vector<std::string>{"0 (18, 0) (2, 4)", "2 (0, 0) (2, 4)"}));
}

TEST(ArraySource, BoxesAreWholeChunksOfTheirSource) {
  boxes seen;
  // 400 KiB and 1.6 MiB a chunk, which together make cells of 1.6 MiB.
  const auto a =
      open_sources({numbered(0, {300, 1024}, {100, 1024}, &seen), numbered(1, {500, 1024}, {400, 1024}, &seen)}, 0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  const auto all = values_of(*a, "...");
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all.back(), 1'000'000 + 499 * 1000 + 1023);
  std::sort(seen.seen.begin(), seen.seen.end());
  EXPECT_EQ(seen.seen,
            (std::vector<std::string>{"0 (0, 0) (300, 1024)", "1 (0, 0) (400, 1024)", "1 (400, 0) (100, 1024)"}));
}

TEST(ArraySource, AnyAxisAndStepsAreRead) {
  const auto a = open_sources({numbered(0, {7, 3}, {2, 2}), numbered(1, {7, 6}, {3, 4})}, 1);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(values_of(*a, "6:3:-2, 1::3"), (std::vector<std::int32_t>{6001, 1006001, 1006004, 4001, 1004001, 1004004}));
}

TEST(ArraySource, NamesTheSourceAndTheBoxThatFail) {
  array_source bad = numbered(1, {10, 4}, {10, 4});
  bad.read = [](const box&, std::span<std::byte>) -> result<> {
    return error(errc::permission_denied, "no such drive");
  };
  array_source thrown = bad;
  thrown.name = "thrown";
  thrown.read = [](const box&, std::span<std::byte>) -> result<> { throw std::runtime_error("out of paper"); };
  const auto a = open_sources({numbered(0, {10, 4}, {10, 4}), bad, thrown}, 0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  std::vector<std::int32_t> out(40);
  const auto to = tensor_view::contiguous(out.data(), type_of("int32"), {10, 4});
  const auto denied = a->read(*parse_selection("10:20"), to);
  ASSERT_FALSE(denied.ok());
  EXPECT_EQ(denied.error().code(), errc::permission_denied);
  EXPECT_NE(denied.error().to_string().find("file_1/[0:10, 0:4]"), std::string::npos) << denied.error().to_string();
  const auto threw = a->read(*parse_selection("20:30"), to);
  ASSERT_FALSE(threw.ok());
  EXPECT_EQ(threw.error().code(), errc::io_error);
  EXPECT_NE(threw.error().to_string().find("out of paper"), std::string::npos);
}

TEST(ArraySource, SourcesThatCannotBeJoinedAreRefused) {
  EXPECT_EQ(open_sources({}, 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(open_sources({numbered(0, {2, 2}, {1, 1})}, 2).error().code(), errc::invalid_argument);
  EXPECT_EQ(open_sources({numbered(0, {2, 2}, {1, 1}), numbered(1, {2, 3}, {1, 1})}, 0).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(open_sources({numbered(0, {2, 2}, {1, 0})}, 0).error().code(), errc::invalid_argument);
  array_source unread = numbered(0, {2, 2}, {1, 1});
  unread.read = nullptr;
  EXPECT_EQ(open_sources({unread}, 0).error().code(), errc::invalid_argument);
}

TEST(ArraySource, SourcesWithoutElementsAreAnEmptyArray) {
  const auto a = open_sources({numbered(0, {0, 4}, {8, 4}), numbered(1, {0, 4}, {8, 4})}, 0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(a->shape(), (extents{0, 4}));
  EXPECT_TRUE(values_of(*a, "...").empty());
}

TEST(ArraySource, SourcesOfOneNameAreDistinguished) {
  array_source other = numbered(1, {3, 2}, {3, 2});
  other.name = "file_0";
  const auto a = open_sources({numbered(0, {3, 2}, {3, 2}), other}, 0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(values_of(*a, "2:4, 0"), (std::vector<std::int32_t>{2000, 1000000}));
}

// Arrays of other chunks outside the axis, and of other fill values, as one.
TEST(Join, ReadsArraysThatOneGridCannotDescribe) {
  const std::shared_ptr<store> memory = make_memory_store();
  std::vector<array> parts;
  for (const std::uint64_t length : {2U, 3U, 5U}) {
    create_options how;
    how.path = "a" + std::to_string(length);
    how.shape = {4, 9};
    how.chunks = extents{2, length};
    how.type = type_of("int32");
    how.fill_value_json = std::to_string(length);
    auto made = create_array(memory, how);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    std::vector<std::int32_t> row(9, 100 * static_cast<std::int32_t>(length));
    ASSERT_TRUE(
        made->write(*parse_selection("1:2"), tensor_view::contiguous(row.data(), type_of("int32"), {1, 9})).ok());
    parts.push_back(*made);
  }
  const auto a = join(parts, 0);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  EXPECT_EQ(a->shape(), (extents{12, 9}));
  EXPECT_EQ(values_of(*a, ":, 8"), (std::vector<std::int32_t>{2, 200, 2, 2, 3, 300, 3, 3, 5, 500, 5, 5}));
}

}  // namespace
}  // namespace penstock
