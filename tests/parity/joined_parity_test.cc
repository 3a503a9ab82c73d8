// Joined arrays whose chunks are not a grid: every selection is read by the chunks of their parts, as it is read from
// boxes that a function fills, which is the general path.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <penstock/array_source.h>
#include <penstock/crops.h>
#include <penstock/penstock.h>
#include "engine/array_state.h"
#include "support/cases.h"
#include "support/random_selection.h"

namespace penstock::test {
namespace {

/// Counts the bytes that its reads return.
class counted_store final : public store {
 public:
  explicit counted_store(std::shared_ptr<store> of) noexcept : of_(std::move(of)) {}
  store_traits traits() const override { return of_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    class counter final : public completion_sink {
     public:
      counter(completion_sink& to, std::atomic<std::uint64_t>& bytes) : to_(to), bytes_(bytes) {}
      void complete(std::uint64_t tag, result<read_done> done) override {
        if (done.ok()) bytes_ += done->bytes.size();
        to_.complete(tag, std::move(done));
      }

     private:
      completion_sink& to_;
      std::atomic<std::uint64_t>& bytes_;
    };
    counter counts(sink, bytes);  // a store in memory completes within `read`
    of_->read(reads, counts, stop);
  }
  std::string uri() const override { return of_->uri(); }

  mutable std::atomic<std::uint64_t> bytes{0};

 private:
  std::shared_ptr<store> of_;
};

std::vector<std::byte> values_of(const array& from, const selection& which, const dtype& type, bool later) {
  const auto shape = from.result_shape(which);
  EXPECT_TRUE(shape.ok()) << shape.error().to_string();
  std::vector<std::byte> out(*element_count(*shape) * type.item_bytes());
  read_options how;
  how.type = type;
  const auto to = tensor_view::contiguous(out.data(), type, *shape);
  if (later) {
    auto running = from.read_async(which, to, how);
    EXPECT_TRUE(running.ok()) << running.error().to_string();
    const auto done = running->wait();
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    return out;
  }
  const auto done = from.read(which, to, how);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

template <class T>
T made_of(result<T> made) {
  if (!made.ok()) throw std::runtime_error(made.error().to_string());
  return std::move(made).value();
}

const char* const kCodecs[] = {
    R"([{"name":"bytes","configuration":{"endian":"little"}}])",
    R"([{"name":"bytes","configuration":{"endian":"big"}}])",
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])",
};

/// Parts along an axis, each with other chunks, codecs and fill values; some chunks are not written, some parts are
/// empty, some are in another context or joined themselves.
struct random_parts {
  std::mt19937_64& random;
  std::shared_ptr<context> with;
  std::uint64_t pick(std::uint64_t below) { return random() % below; }

  array part(extents shape, const char* type, bool alone) {
    create_options how;
    how.shape = shape;
    how.chunks = shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      (*how.chunks)[d] = 1 + pick(std::max<std::uint64_t>(shape[d], 1) + 2);
    how.type = *dtype::from_name(type);
    if (pick(3) == 0) {
      how.shards = *how.chunks;
      for (std::uint64_t& each : *how.shards) each *= 1 + pick(3);
    }
    how.codecs_json = kCodecs[pick(3)];
    how.fill_value_json = std::to_string(pick(3));
    if (!alone) how.context = with;
    const array made = made_of(create_array(make_memory_store(), how));
    if (*element_count(shape) == 0) return made;
    // A part of it is written.
    basic_selection which;
    extents written;
    for (const std::uint64_t size : shape) {
      const auto low = static_cast<std::int64_t>(pick(size)), high = low + 1 + static_cast<std::int64_t>(pick(size));
      which.items.emplace_back(slice{low, high, {}});
      written.push_back(std::min<std::uint64_t>(size, static_cast<std::uint64_t>(high)) -
                        static_cast<std::uint64_t>(low));
    }
    std::vector<std::byte> values(*element_count(written) * how.type.item_bytes());
    for (std::size_t i = 0; i < values.size(); i += how.type.item_bytes())
      values[i] = static_cast<std::byte>(pick(100));
    const auto done = made.write(which, tensor_view::contiguous(values.data(), how.type, written));
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    return made;
  }

  std::vector<array> parts(extents shape, std::size_t axis, const char* type, bool may_nest) {
    std::vector<array> out;
    for (std::uint64_t left = 2 + pick(3); left-- > 0;) {
      shape[axis] = pick(6) == 0 ? 0 : 1 + pick(9);
      if (may_nest && pick(4) == 0) {
        const std::size_t along = pick(shape.size());
        out.push_back(made_of(join(parts(shape, along, type, false), along, with)));
        const bool fits = [&] {
          for (std::size_t d = 0; d < shape.size(); ++d)
            if (d != axis && out.back().shape()[d] != shape[d]) return false;
          return true;
        }();
        if (!fits) out.back() = part(shape, type, false);
        continue;
      }
      out.push_back(part(shape, type, pick(4) == 0));
    }
    return out;
  }
};

array by_boxes(const std::vector<array>& parts, std::size_t axis) {
  std::vector<array_source> sources;
  for (const array& each : parts) {
    extents chunks = each.chunks();
    for (std::uint64_t& length : chunks) length = std::max<std::uint64_t>(1, length);
    sources.push_back({each.uri(), each.type(), each.shape(), chunks, [each](const box& at, std::span<std::byte> out) {
                         basic_selection which;
                         for (std::size_t d = 0; d < at.size.size(); ++d) {
                           const auto low = static_cast<std::int64_t>(at.origin[d]);
                           which.items.emplace_back(slice{low, low + static_cast<std::int64_t>(at.size[d]), {}});
                         }
                         return each.read(which, tensor_view::contiguous(out.data(), each.type(), at.size));
                       }});
  }
  return made_of(open_sources(std::move(sources), axis));
}

// Some boxes of one shape in one read, as batches have them.
void compare_crops(std::mt19937_64& random, const array& joined, const array& expected) {
  constexpr std::size_t kCrops = 4;
  const extents& shape = joined.shape();
  if (*element_count(shape) == 0) return;
  extents size = shape;
  for (std::uint64_t& each : size) each = 1 + random() % each;
  std::vector<array_crop> crops;
  std::vector<std::byte> wanted;
  for (std::size_t i = 0; i < kCrops; ++i) {
    basic_selection which;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto low = static_cast<std::int64_t>(random() % (shape[d] - size[d] + 1));
      which.items.emplace_back(slice{low, low + static_cast<std::int64_t>(size[d]), {}});
    }
    crops.push_back({joined, made_of(joined.select(which))});
    const std::vector<std::byte> one = values_of(expected, which, expected.type(), false);
    wanted.insert(wanted.end(), one.begin(), one.end());
  }
  extents all{kCrops};
  for (const std::uint64_t each : size) all.push_back(each);
  std::vector<std::byte> out(wanted.size());
  auto running = read_crops_async(crops, tensor_view::contiguous(out.data(), joined.type(), all));
  ASSERT_TRUE(running.ok()) << running.error().to_string();
  const auto done = running->wait();
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, wanted) << to_string(shape) << " in crops of " << to_string(size);
}

class JoinedParity : public testing::TestWithParam<std::uint64_t> {};

TEST_P(JoinedParity, SelectionsAreReadByTheChunksOfTheParts) {
  std::mt19937_64 random(GetParam());
  context_options how;
  how.threads = GetParam() % 2 == 0 ? 1 : 3;
  random_parts make{random, context::make(how).value()};
  std::uint64_t divided = 0;
  for (std::uint64_t round = 0; round < cases(40); ++round) {
    extents shape;
    for (std::uint64_t left = 1 + make.pick(3); left-- > 0;) shape.push_back(1 + make.pick(9));
    const std::size_t axis = make.pick(shape.size());
    const char* const type = make.pick(2) == 0 ? "int16" : "float64";
    const std::vector<array> parts = make.parts(shape, axis, type, true);
    const auto joined = join(parts, axis, make.with);
    ASSERT_TRUE(joined.ok()) << joined.error().to_string();
    const array expected = by_boxes(parts, axis);
    ASSERT_EQ(joined->shape(), expected.shape());
    divided += joined->state().parts != nullptr;
    compare_crops(random, *joined, expected);
    extents blocks = joined->shape();
    for (std::uint64_t& each : blocks) each = std::max<std::uint64_t>(each, 1);
    for (int i = 0; i < 12; ++i) {
      const selection which = random_any_selection(random, joined->shape(), blocks);
      if (std::holds_alternative<block_selection>(which)) continue;  // blocks are those of the join
      const dtype as = *dtype::from_name(make.pick(3) == 0 ? "complex128" : type);
      EXPECT_EQ(values_of(*joined, which, as, make.pick(2) == 0), values_of(expected, which, as, false))
          << to_string(joined->shape()) << " along " << axis << ", " << type << " as " << as.name() << ", round "
          << round << ": " << to_text(which);
    }
  }
  EXPECT_GT(divided, cases(40) / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, JoinedParity, testing::Range<std::uint64_t>(0, 6));

// Two arrays next to each other, of 64 x 64 elements with chunks of 8 x 8 and of 16 x 16, without compression.
struct side_by_side {
  std::vector<std::shared_ptr<counted_store>> stores;
  std::vector<array> parts;

  explicit side_by_side(const std::shared_ptr<context>& with) {
    for (const std::uint64_t length : {8U, 16U}) {
      const std::shared_ptr<store> memory = make_memory_store();
      create_options how;
      how.shape = {64, 64};
      how.chunks = extents{length, length};
      how.type = *dtype::from_name("int32");
      how.codecs_json = kCodecs[2];
      const array made = create_array(memory, how).value();
      std::vector<std::int32_t> values(64 * 64);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i * length);
      EXPECT_TRUE(made.write(selection(), tensor_view::contiguous(values.data(), how.type, how.shape)).ok());
      stores.push_back(std::make_shared<counted_store>(memory));
      open_options open;
      open.context = with;
      parts.push_back(open_array(stores.back(), open).value());
    }
  }
  std::uint64_t bytes() const { return stores[0]->bytes + stores[1]->bytes; }
};

TEST(JoinedReads, AWindowFetchesTheBytesOfItsChunks) {
  const auto with = context::make().value();
  const side_by_side of(with);
  const array joined = join(of.parts, 1, with).value();
  const auto which = *parse_selection("3:5, 60:70");
  const auto before = of.bytes();
  std::vector<std::int32_t> out(2 * 10), alone(2 * 10);
  const dtype type = *dtype::from_name("int32");
  ASSERT_TRUE(joined.read(which, tensor_view::contiguous(out.data(), type, {2, 10})).ok());
  const auto together = of.bytes() - before;

  const auto left = *parse_selection("3:5, 60:64"), right = *parse_selection("3:5, 0:6");
  tensor_view to = tensor_view::contiguous(alone.data(), type, {2, 10});
  to.extents = {2, 4};
  ASSERT_TRUE(of.parts[0].read(left, to).ok());
  to.data += 4 * sizeof(std::int32_t);
  to.extents = {2, 6};
  ASSERT_TRUE(of.parts[1].read(right, to).ok());
  EXPECT_EQ(out, alone);
  EXPECT_EQ(of.bytes() - before - together, together);
  EXPECT_GT(together, 0U);

  // The plan shows these chunks, with the keys of their parts.
  const auto plan = joined.summarize_plan(joined.select(which).value(), 100);
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  EXPECT_EQ(plan->requests, 2U);
  EXPECT_EQ(plan->cells, 2U);
  EXPECT_EQ(plan->decoded_bytes, (8 * 8 + 16 * 16) * sizeof(std::int32_t));
  EXPECT_NE(plan->text.find("c/0/7"), std::string::npos) << plan->text;
}

TEST(JoinedReads, ListsPointsAndMasksFetchTheBytesOfTheirChunks) {
  const dtype type = *dtype::from_name("int32");
  // One chunk of the left part, one of the right one: rows 3 and 5, columns 62 and 64 + 9.
  std::vector<std::uint8_t> bits(64 * 128);
  for (const std::size_t row : {3U, 5U})
    for (const std::size_t column : {62U, 73U}) bits[row * 128 + column] = 1;
  const selection kinds[] = {
      orthogonal_selection{{index_list{5, 3, 3}, index_list{73, 62}}},
      coordinate_selection{{{3, 5, 5}, {62, 73, 62}}, {3}},
      mask_selection::pack({64, 128}, bits),
  };
  for (const selection& which : kinds) {
    const auto with = context::make().value();
    const side_by_side of(with), alone(with);
    const auto nothing = alone.bytes();
    std::int32_t one = 0;
    const tensor_view to_one = tensor_view::contiguous(&one, type, {});
    ASSERT_TRUE(alone.parts[0].read(*parse_selection("3, 62"), to_one).ok());
    ASSERT_TRUE(alone.parts[1].read(*parse_selection("3, 9"), to_one).ok());
    ASSERT_GT(alone.bytes(), nothing);

    const array joined = join(of.parts, 1, with).value();
    const auto before = of.bytes();
    std::vector<std::int32_t> out(6);
    const extents shape = joined.result_shape(which).value();
    ASSERT_TRUE(joined.read(which, tensor_view::contiguous(out.data(), type, shape)).ok());
    EXPECT_EQ(of.bytes() - before, alone.bytes() - nothing) << to_text(which);
    const auto plan = joined.summarize_plan(joined.select(which).value(), 100);
    ASSERT_TRUE(plan.ok()) << plan.error().to_string();
    EXPECT_EQ(plan->cells, 2U) << to_text(which);
    EXPECT_EQ(plan->decoded_bytes, (8 * 8 + 16 * 16) * sizeof(std::int32_t)) << to_text(which);
  }
}

// The boxes of both arrays are equal, but not the chunks of their parts.
TEST(JoinedReads, ASelectionOfOneArrayIsReadFromAnotherOfTheSameBoxes) {
  const auto with = context::make().value();
  const side_by_side of(with);
  const array joined = join(of.parts, 1, with).value();
  const std::vector<array> turned{of.parts[1], of.parts[0]};
  const array other = join(turned, 1, with).value();
  const dtype type = *dtype::from_name("int32");
  const selection which = coordinate_selection{{{3, 5, 63, 0}, {62, 73, 64, 127}}, {4}};
  const resolved_selection made = joined.select(which).value();
  std::vector<std::int32_t> out(4), expected(4);
  ASSERT_TRUE(other.read(which, tensor_view::contiguous(expected.data(), type, {4})).ok());
  const auto read = other.read(made, tensor_view::contiguous(out.data(), type, {4}));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(out, expected);
}

TEST(JoinedReads, AnErrorNamesTheChunkAndItsPart) {
  const auto with = context::make().value();
  const std::shared_ptr<store> memory = make_memory_store();
  const side_by_side of(with);
  create_options how;
  how.shape = {64, 5};
  how.chunks = extents{64, 5};
  how.type = *dtype::from_name("int32");
  how.codecs_json = kCodecs[2];
  how.context = with;
  how.path = "bad";
  std::vector<array> parts = of.parts;
  parts.push_back(create_array(memory, how).value());
  const std::vector<std::byte> wrong(7, std::byte{1});
  const part bytes(wrong);
  ASSERT_TRUE(memory->put("bad/c/0/0", {&bytes, 1}, {}).ok());
  const array joined = join(parts, 1, with).value();
  std::vector<std::int32_t> out(64);
  const auto read = joined.read(*parse_selection(":, 130"), tensor_view::contiguous(out.data(), how.type, {64}));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), errc::corrupt_data);
  EXPECT_NE(read.error().to_string().find("bad/c/0/0"), std::string::npos) << read.error().to_string();
  EXPECT_NE(read.error().to_string().find("joined:"), std::string::npos) << read.error().to_string();
}

}  // namespace
}  // namespace penstock::test
