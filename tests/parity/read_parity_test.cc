// Every engine returns the model's values, byte for byte: on the calling thread, on a pool, under seeded schedules.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include <penstock/penstock.h>
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

std::string describe(const model_options& options, const selection& which) {
  return "shape " + to_string(options.shape) + " chunks " + to_string(options.chunks) +
         (options.shards ? " shards " + to_string(*options.shards) : "") +
         (options.inner_shards ? " inner " + to_string(*options.inner_shards) : "") + " " + options.dtype + " [" +
         to_text(which) + "] seed " + std::to_string(options.seed);
}

std::shared_ptr<context> context_with(unsigned threads, std::shared_ptr<executor> executor = nullptr) {
  context_options options;
  options.threads = threads;
  options.executor = std::move(executor);
  return context::make(options).value();
}

// Reads into a target with a gap between elements along the last axis, so that every path of the scatter is taken.
std::vector<std::byte> read_bytes(const array& from, const selection& which, const read_options& options,
                                  bool strided) {
  const auto resolved = from.select(which);
  EXPECT_TRUE(resolved.ok()) << resolved.error().to_string();
  std::uint64_t count = 1;
  for (const std::uint64_t each : resolved->shape) count *= each;
  const std::uint32_t item = from.type().item_bytes();
  const std::uint64_t spread = strided ? 2 : 1;
  std::vector<std::byte> memory(count * item * spread, std::byte{0xEE});
  tensor_view out = tensor_view::contiguous(memory.data(), from.type(), resolved->shape);
  for (std::int64_t& each : out.strides) each *= static_cast<std::int64_t>(spread);
  const auto done = from.read(which, out, options);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  std::vector<std::byte> values(count * item);
  for (std::uint64_t i = 0; i < count; ++i)
    std::memcpy(values.data() + i * item, memory.data() + i * spread * item, item);
  return values;
}

class ReadParity : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ReadParity, EveryEngineReadsTheModelsValues) {
  std::mt19937_64 random(GetParam());
  const auto inline_context = context_with(1);
  const auto pool_context = context_with(3);
  for (std::uint64_t round = 0; round < cases(60); ++round) {
    const model_options options = random_model(random);
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    const auto seeded = std::make_shared<deterministic_executor>(random());
    for (const auto& ctx : {inline_context, pool_context, context_with(3, seeded)}) {
      open_options where;
      where.context = ctx;
      where.path = "a";
      const auto opened = open_array(store, where);
      ASSERT_TRUE(opened.ok()) << opened.error().to_string();
      for (int i = 0; i < 8; ++i) {
        const extents& blocks = options.shards ? *options.shards : options.chunks;
        const selection which = i == 0  ? basic_selection()
                                : i < 4 ? random_selection(random, options.shape)
                                        : random_any_selection(random, options.shape, blocks);
        ASSERT_EQ(read_bytes(*opened, which, {}, i % 2 == 1), model.select(which)) << describe(options, which);
      }
      ASSERT_FALSE(seeded->stuck());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReadParity, testing::Range<std::uint64_t>(0, 8));

TEST(ReadParity, ATicketOutlivesItsArrayAndItsContext) {
  model_options options;
  options.shape = {64, 64};
  options.chunks = {8, 8};
  options.codecs =
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "", options);
  std::vector<std::byte> values(model.values.size());
  for (std::uint64_t round = 0; round < cases(20); ++round) {
    ticket job;
    {
      const array opened = open_array(store).value();  // with a context of its own
      const tensor_view out = tensor_view::contiguous(values.data(), opened.type(), opened.shape());
      job = opened.read_async(basic_selection(), out).value();
    }
    const auto done = job.wait();
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(values, model.values);
  }
}

TEST(ReadParity, APlanIsMadeForEverySelection) {
  std::mt19937_64 random(99);
  for (std::uint64_t round = 0; round < cases(60); ++round) {
    const model_options options = random_model(random);
    const auto store = make_memory_store();
    write_model(*store, "", options);
    const auto opened = open_array(store);
    ASSERT_TRUE(opened.ok());
    const extents& blocks = options.shards ? *options.shards : options.chunks;
    for (int i = 0; i < 4; ++i) {
      const auto text = opened->plan(random_any_selection(random, options.shape, blocks));
      ASSERT_TRUE(text.ok()) << text.error().to_string();
    }
  }
}

}  // namespace
}  // namespace penstock::test
