// Every codec, type, byte order and transpose, in whole and in parts, compared with a reference that moves one byte at
// a time.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

using shape = std::vector<std::uint64_t>;

std::uint64_t product(const shape& of) {
  std::uint64_t all = 1;
  for (const std::uint64_t n : of) all *= n;
  return all;
}

// C order: the last dimension is fastest.
std::vector<std::uint64_t> unravel(std::uint64_t number, const shape& of) {
  std::vector<std::uint64_t> at(of.size());
  for (std::size_t d = of.size(); d-- > 0; number /= of[d]) at[d] = number % of[d];
  return at;
}
std::uint64_t ravel(const std::vector<std::uint64_t>& at, const shape& of) {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < of.size(); ++d) number = number * of[d] + at[d];
  return number;
}

// The values of numpy.transpose(cell, order), in C order; `of` becomes its shape.
bytes transposed(const bytes& cell, std::size_t item, shape& of, const std::vector<std::size_t>& order) {
  shape result_shape;
  for (const std::size_t d : order) result_shape.push_back(of[d]);
  bytes made(cell.size());
  for (std::uint64_t i = 0; i < product(of); ++i) {
    const auto at = unravel(i, result_shape);
    std::vector<std::uint64_t> from(of.size());
    for (std::size_t d = 0; d < order.size(); ++d) from[order[d]] = at[d];
    std::memcpy(made.data() + i * item, cell.data() + ravel(from, of) * item, item);
  }
  of = result_shape;
  return made;
}

bytes swapped(bytes cell, std::size_t unit) {
  for (std::size_t i = 0; i + unit <= cell.size(); i += unit) std::reverse(cell.begin() + i, cell.begin() + i + unit);
  return cell;
}

struct type_case {
  const char* name;
  std::size_t item, unit;
};
constexpr type_case kTypes[] = {{"bool", 1, 1},    {"uint8", 1, 1},     {"uint16", 2, 2},
                                {"float16", 2, 2}, {"r24", 3, 1},       {"int32", 4, 4},
                                {"float64", 8, 8}, {"complex64", 8, 4}, {"complex128", 16, 8}};

struct order_case {
  const char* codecs;  // before `bytes`
  std::vector<std::vector<std::size_t>> orders;
};
const order_case kOrders3[] = {
    {"", {}},
    {R"({"name":"transpose","configuration":{"order":[2,0,1]}},)", {{2, 0, 1}}},
    {R"({"name":"transpose","configuration":{"order":[2,1,0]}},)", {{2, 1, 0}}},
    {R"({"name":"transpose","configuration":{"order":[1,2,0]}},{"name":"transpose","configuration":{"order":[0,2,1]}},)",
     {{1, 2, 0}, {0, 2, 1}}},
};

struct subject {
  codec_chain chain;
  bytes cell;    // C order, native
  bytes stored;  // the input of the byte stages
};

subject make_subject(const type_case& type, const char* endian, const order_case& order, const shape& of,
                     const std::string& byte_codecs) {
  const std::string text = std::string("[") + order.codecs + R"({"name":"bytes","configuration":{"endian":")" + endian +
                           "\"}}" + byte_codecs + "]";
  auto chain = compile(text, type.name, extents(std::span<const std::uint64_t>(of)));
  EXPECT_TRUE(chain.ok()) << text << chain.error().message();
  subject made{std::move(chain).value(), random_bytes(product(of) * type.item, 7), {}};
  made.stored = made.cell;
  shape stored_shape = of;
  for (const auto& one : order.orders) made.stored = transposed(made.stored, type.item, stored_shape, one);
  if (std::string_view(endian) == "big") made.stored = swapped(made.stored, type.unit);
  return made;
}

// Decodes `region` into memory with gaps, strides of both signs, and guards; compares each element, and the gaps.
void expect_region(const subject& of, const shape& extent, std::size_t item, const bytes& encoded,
                   const strided_box& region, std::mt19937_64& random, worker_scratch& scratch) {
  const std::size_t rank = extent.size();
  std::vector<std::size_t> nesting(rank);
  for (std::size_t d = 0; d < rank; ++d) nesting[d] = d;
  std::shuffle(nesting.begin(), nesting.end(), random);
  strides steps(rank);
  std::int64_t step = static_cast<std::int64_t>(item), first = 0;
  for (const std::size_t d : nesting) {
    const bool backwards = random() % 2 == 0;
    steps[d] = backwards ? -step : step;
    const std::int64_t count = static_cast<std::int64_t>(region[d].count);
    if (backwards) first += step * (count - 1);
    step = step * count + static_cast<std::int64_t>(random() % 3);
  }
  constexpr std::size_t kGuard = 32;
  constexpr std::byte kUntouched{0xa5};
  bytes memory(static_cast<std::size_t>(step) + 2 * kGuard, kUntouched), expected = memory;
  shape counts;
  for (std::size_t d = 0; d < rank; ++d) counts.push_back(region[d].count);
  for (std::uint64_t i = 0; i < product(counts); ++i) {
    const auto at = unravel(i, counts);
    std::vector<std::uint64_t> from(rank);
    std::int64_t to = static_cast<std::int64_t>(kGuard) + first;
    for (std::size_t d = 0; d < rank; ++d) {
      from[d] = static_cast<std::uint64_t>(region[d].at(at[d]));
      to += static_cast<std::int64_t>(at[d]) * steps[d];
    }
    std::memcpy(expected.data() + to, of.cell.data() + ravel(from, extent) * item, item);
  }
  decode_target target;
  target.data = memory.data() + kGuard + first;
  target.strides = steps;
  target.in_cell = &region;
  const auto done = of.chain.decode(encoded, target, scratch);
  ASSERT_TRUE(done.ok()) << of.chain.describe() << done.error().to_string();
  ASSERT_EQ(memory, expected) << of.chain.describe();
}

strided_box random_region(const shape& extent, std::mt19937_64& random) {
  strided_box region;
  for (const std::uint64_t n : extent) {
    const std::int64_t length = static_cast<std::int64_t>(n);
    axis_range range;
    range.start = static_cast<std::int64_t>(random() % n);
    range.step = static_cast<std::int64_t>(random() % 3 + 1) * (random() % 2 == 0 ? 1 : -1);
    const std::int64_t reach = range.step > 0 ? length - 1 - range.start : range.start;
    range.count =
        static_cast<std::uint64_t>(random() % static_cast<std::uint64_t>(reach / std::abs(range.step) + 1) + 1);
    region.push_back(range);
  }
  return region;
}

void expect_round_trip(const subject& of, const shape& extent, std::size_t item, worker_scratch& scratch, int regions) {
  const bytes encoded = encode_all(of.chain, of.cell, scratch);
  ASSERT_LE(encoded.size(), of.chain.max_encoded_bytes());
  bytes whole(of.cell.size() + 1, std::byte{0xa5});
  ASSERT_TRUE(decode_all(of.chain, encoded, std::span(whole).first(of.cell.size()), scratch).ok())
      << of.chain.describe();
  ASSERT_EQ(whole.back(), std::byte{0xa5});
  whole.pop_back();
  ASSERT_EQ(whole, of.cell) << of.chain.describe();
  std::mt19937_64 random(item);
  for (int i = 0; i < regions; ++i) {
    expect_region(of, extent, item, encoded, random_region(extent, random), random, scratch);
  }
}

TEST(RoundTrip, StoresBytesAsSpecified) {
  worker_scratch scratch;
  const shape extent = {5, 3, 7};
  for (const type_case& type : kTypes) {
    for (const char* endian : {"little", "big"}) {
      for (const order_case& order : kOrders3) {
        const subject of = make_subject(type, endian, order, extent, "");
        ASSERT_EQ(encode_all(of.chain, of.cell, scratch), of.stored) << of.chain.describe() << type.name;
        expect_round_trip(of, extent, type.item, scratch, 20);
      }
    }
  }
}

TEST(RoundTrip, HoldsForEveryCodecTypeByteOrderAndTranspose) {
  worker_scratch scratch;
  const shape extent = {5, 3, 7};
  std::vector<std::string> chains;
  for (const std::string& text : byte_codec_texts()) chains.push_back("," + text);
  const std::string zstd = "," + byte_codec_texts()[0], gzip = "," + byte_codec_texts()[4],
                    crc = "," + byte_codec_texts()[6], blosc = "," + byte_codec_texts()[8];
  for (const std::string& text : {zstd + crc, crc + zstd, gzip + zstd, zstd + gzip + crc, blosc + crc, crc + crc,
                                  crc + gzip + crc + zstd + crc + blosc + crc}) {
    chains.push_back(text);
  }
  for (const std::string& byte_codecs : chains) {
    for (const type_case& type : kTypes) {
      for (const char* endian : {"little", "big"}) {
        for (const order_case& order : kOrders3) {
          expect_round_trip(make_subject(type, endian, order, extent, byte_codecs), extent, type.item, scratch, 3);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(RoundTrip, HoldsForEveryRank) {
  worker_scratch scratch;
  for (const shape& extent : {shape{}, shape{1}, shape{13}, shape{3, 5}, shape{1, 4, 1, 5}, shape{2, 3, 2, 3, 2}}) {
    for (const std::string& byte_codecs : {std::string(), "," + byte_codec_texts()[0], "," + byte_codec_texts()[6]}) {
      expect_round_trip(make_subject({"float64", 8, 8}, "big", {"", {}}, extent, byte_codecs), extent, 8, scratch, 20);
      expect_round_trip(make_subject({"float64", 8, 8}, "little", {"", {}}, extent, byte_codecs), extent, 8, scratch,
                        20);
    }
  }
}

TEST(RoundTrip, DecodesIntoATargetWithTheStoredLayout) {
  worker_scratch scratch;
  const shape extent = {5, 3, 7};
  const std::vector<std::size_t> order = {2, 0, 1};
  for (const char* endian : {"little", "big"}) {
    for (const std::string& byte_codecs : {std::string(), "," + byte_codec_texts()[0], "," + byte_codec_texts()[6],
                                           "," + byte_codec_texts()[6] + "," + byte_codec_texts()[0]}) {
      const subject of = make_subject({"int32", 4, 4}, endian, kOrders3[1], extent, byte_codecs);
      const bytes encoded = encode_all(of.chain, of.cell, scratch);
      shape stored_shape = extent;
      const bytes expected = transposed(of.cell, 4, stored_shape, order);
      bytes out(of.cell.size());
      decode_target target;
      target.data = out.data();
      target.strides = {3 * 4, 4, 5 * 3 * 4};
      target.covers_cell = true;
      ASSERT_TRUE(of.chain.decode(encoded, target, scratch).ok());
      EXPECT_EQ(out, expected) << of.chain.describe();
      // The memory itself encodes to the same bytes.
      bytes again(of.chain.max_encoded_bytes());
      const auto made = of.chain.encode({out.data(), of.chain.type(), of.chain.cell(), target.strides}, again, scratch);
      ASSERT_TRUE(made.ok());
      again.resize(*made);
      EXPECT_EQ(again, encoded);
    }
  }
}

TEST(RoundTrip, KeepsTheBytesOfABool) {
  worker_scratch scratch;
  const auto chain = compile(R"(["bytes"])", "bool", {4}).value();
  const bytes stored = {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}};
  bytes out(4);
  ASSERT_TRUE(decode_all(chain, stored, out, scratch).ok());
  EXPECT_EQ(out, stored);
}

TEST(RoundTrip, HoldsForBloscsOwnBlocksAndEveryItemSize) {
  worker_scratch scratch;
  for (const char* compressor : {"zstd", "zlib", "lz4", "blosclz"}) {
    for (const char* shuffle : {"noshuffle", "shuffle", "bitshuffle"}) {
      for (const int item : {1, 2, 3, 8, 16, 17, 200, 255, 256}) {
        for (const int block : {0, 4096}) {
          const codec_chain chain =
              byte_chain(std::string(R"({"name":"blosc","configuration":{"cname":")") + compressor +
                             R"(","clevel":3,"shuffle":")" + shuffle + R"(","typesize":)" + std::to_string(item) +
                             R"(,"blocksize":)" + std::to_string(block) + "}}",
                         70'003);
          const bytes cell = smooth_bytes(70'003, 9), encoded = encode_all(chain, cell, scratch);
          bytes out(cell.size());
          const auto done = decode_all(chain, encoded, out, scratch);
          ASSERT_TRUE(done.ok()) << chain.describe() << item << done.error().to_string();
          ASSERT_EQ(out, cell) << chain.describe() << item;
        }
      }
    }
  }
}

TEST(RoundTrip, HoldsFromSeveralThreadsAtOnce) {
  for (const std::string& text : byte_codec_texts()) {
    const codec_chain chain = byte_chain(text, 4099);
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (std::uint64_t worker = 0; worker < 4; ++worker) {
      threads.emplace_back([&, worker] {
        worker_scratch scratch;
        const bytes cell = smooth_bytes(4099, worker), encoded = encode_all(chain, cell, scratch);
        bytes out(4099);
        good += decode_all(chain, encoded, out, scratch).ok() && out == cell;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 4) << text;
  }
}

}  // namespace
}  // namespace penstock::inline v0
