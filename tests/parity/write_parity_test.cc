// Every engine writes what the model then holds, byte for byte: on the caller alone, on a pool, under seeded schedules.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include <penstock/penstock.h>
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

std::string describe(const model_options& options, const basic_selection& which) {
  return "shape " + to_string(options.shape) + " chunks " + to_string(options.chunks) +
         (options.shards ? " shards " + to_string(*options.shards) : "") +
         (options.inner_shards ? " inner " + to_string(*options.inner_shards) : "") + " " + options.dtype + " " +
         options.codecs + " [" + to_string(which) + "] seed " + std::to_string(options.seed);
}

std::shared_ptr<context> context_with(unsigned threads, std::shared_ptr<executor> executor = nullptr) {
  context_options options;
  options.threads = threads;
  options.executor = std::move(executor);
  return context::make(options).value();
}

std::uint64_t product(const extents& shape) {
  std::uint64_t out = 1;
  for (const std::uint64_t each : shape) out *= each;
  return out;
}

// Writes from memory with gaps, backwards, or of one repeated item, so that every path of the gather is taken.
result<> write_bytes(const array& to, const basic_selection& which, std::vector<std::byte>& items,
                     std::mt19937_64& random, const write_options& options) {
  const extents shape = resolve(which, to.shape())->shape;
  const std::uint32_t item = to.type().item_bytes();
  const std::uint64_t count = product(shape);
  tensor_view value = tensor_view::contiguous(nullptr, to.type(), shape);
  std::vector<std::byte> memory;
  switch (random() % 4) {
    case 0:
      value.data = items.data();
      break;
    case 1:
      memory.assign(2 * items.size() + 1, std::byte{0xEE});
      for (std::uint64_t i = 0; i < count; ++i)
        std::memcpy(memory.data() + 2 * i * item, items.data() + i * item, item);
      for (std::int64_t& each : value.strides) each *= 2;
      value.data = memory.data();
      break;
    case 2:  // the last element first
      for (std::uint64_t i = count; i-- > 0;)
        memory.insert(memory.end(), items.begin() + static_cast<std::ptrdiff_t>(i * item),
                      items.begin() + static_cast<std::ptrdiff_t>((i + 1) * item));
      value.data = memory.data() + (count == 0 ? 0 : (count - 1) * item);
      for (std::int64_t& each : value.strides) each = -each;
      break;
    default:  // one item for all
      memory.assign(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count == 0 ? 0 : item));
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(items.data() + i * item, memory.data(), item);
      value.data = memory.data();
      for (std::int64_t& each : value.strides) each = 0;
      break;
  }
  return to.write(selection(which), value, options);
}

std::vector<std::byte> read_all(const std::shared_ptr<store>& from, std::uint64_t bytes) {
  open_options where;
  where.path = "a";
  const auto opened = open_array(from, where);
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  std::vector<std::byte> values(bytes, std::byte{0xEE});
  const auto done = opened->read(tensor_view::contiguous(values.data(), opened->type(), opened->shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return values;
}

class WriteParity : public testing::TestWithParam<std::uint64_t> {};

TEST_P(WriteParity, WhatEveryEngineWritesIsWhatTheModelHolds) {
  std::mt19937_64 random(GetParam());
  const auto inline_context = context_with(1);
  const auto pool_context = context_with(3);
  for (int round = 0; round < 40; ++round) {
    const model_options options = random_model(random);
    const auto store = make_memory_store();
    model_array model = write_model(*store, "a/", options);
    const auto seeded = std::make_shared<deterministic_executor>(random());
    for (const auto& ctx : {inline_context, pool_context, context_with(3, seeded)}) {
      open_options where;
      where.context = ctx;
      where.path = "a";
      const auto opened = open_array(store, where);
      ASSERT_TRUE(opened.ok()) << opened.error().to_string();
      for (int i = 0; i < 5; ++i) {
        const basic_selection which = random() % 5 == 0 ? basic_selection() : random_selection(random, options.shape);
        const auto resolved = resolve(which, options.shape);
        ASSERT_TRUE(resolved.ok());
        std::vector<std::byte> items(product(resolved->shape) * model.item_bytes);
        const bool empty = random() % 4 == 0;  // chunks of nothing but fill value go again
        for (std::byte& each : items) each = empty ? std::byte{0} : static_cast<std::byte>(random() % 2);
        write_options with;
        with.threads = ctx == pool_context ? 3 : 0;
        with.write_empty_chunks = random() % 3 == 0;
        const auto done = write_bytes(*opened, which, items, random, with);
        ASSERT_TRUE(done.ok()) << describe(options, which) << "\n" << done.error().to_string();
        ASSERT_FALSE(seeded->stuck());
        model.assign(*resolved, items);
        // With the indexes that this array has in its cache, and as somebody else sees it.
        std::vector<std::byte> mine(model.values.size());
        ASSERT_TRUE(opened->read(tensor_view::contiguous(mine.data(), opened->type(), opened->shape())).ok());
        ASSERT_EQ(mine, model.values) << describe(options, which);
        ASSERT_EQ(read_all(store, model.values.size()), model.values) << describe(options, which);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WriteParity, testing::Range<std::uint64_t>(0, 8));

}  // namespace
}  // namespace penstock::test
