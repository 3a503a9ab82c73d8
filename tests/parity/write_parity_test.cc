// Every engine writes the model's values, byte for byte: on the calling thread, on a pool, under seeded schedules.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include <penstock/penstock.h>
#include "support/cases.h"
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

TEST_P(WriteParity, EveryEngineWritesTheModelsValues) {
  std::mt19937_64 random(GetParam());
  const auto inline_context = context_with(1);
  const auto pool_context = context_with(3);
  for (std::uint64_t round = 0; round < cases(40); ++round) {
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
        const bool empty = random() % 4 == 0;  // chunks that contain only the fill value are erased
        for (std::byte& each : items) each = empty ? std::byte{0} : static_cast<std::byte>(random() % 2);
        write_options with;
        with.threads = ctx == pool_context ? 3 : 0;
        with.write_empty_chunks = random() % 3 == 0;
        const auto done = write_bytes(*opened, which, items, random, with);
        ASSERT_TRUE(done.ok()) << describe(options, which) << "\n" << done.error().to_string();
        ASSERT_FALSE(seeded->stuck());
        model.assign(*resolved, items);
        // With the indexes that this array has in its cache, and as another process reads it.
        std::vector<std::byte> mine(model.values.size());
        ASSERT_TRUE(opened->read(tensor_view::contiguous(mine.data(), opened->type(), opened->shape())).ok());
        ASSERT_EQ(mine, model.values) << describe(options, which);
        ASSERT_EQ(read_all(store, model.values.size()), model.values) << describe(options, which);
      }
    }
  }
}

index_list random_positions(std::mt19937_64& random, std::uint64_t size, std::size_t most) {
  index_list out;
  if (size == 0) return out;
  for (std::size_t i = 1 + random() % most; i-- > 0;)
    out.push_back(static_cast<std::int64_t>(random() % (2 * size)) - static_cast<std::int64_t>(size));
  return out;
}

// Index lists, points and masks, with duplicates: reads of single elements return what a write stored, and the last of
// two values for one element is kept.
TEST_P(WriteParity, ListsPointsAndMasksAreWrittenAsElementByElement) {
  std::mt19937_64 random(GetParam() + 100);
  const auto pool_context = context_with(3);
  for (std::uint64_t round = 0; round < cases(40); ++round) {
    const model_options options = random_model(random);
    const std::size_t rank = options.shape.size();
    const auto store = make_memory_store();
    model_array model = write_model(*store, "a/", options);
    open_options where;
    where.context = round % 2 == 0 ? pool_context : context_with(1);
    where.path = "a";
    const array opened = open_array(store, where).value();
    const auto set = [&](const std::vector<std::int64_t>& at, const std::byte* item) {
      basic_selection one;
      for (const std::int64_t each : at) one.items.emplace_back(each);
      model.assign(*resolve(one, options.shape), std::vector<std::byte>(item, item + model.item_bytes));
    };
    for (int i = 0; i < 4; ++i) {
      selection which;
      std::vector<std::vector<std::int64_t>> elements;  // in C order of the result
      if (i == 0) {
        orthogonal_selection lists;
        std::vector<index_list> each(rank);
        elements.emplace_back();
        for (std::size_t d = 0; d < rank; ++d) {
          each[d] = random_positions(random, options.shape[d], 5);
          lists.items.emplace_back(each[d]);
          std::vector<std::vector<std::int64_t>> longer;
          for (const auto& before : elements)
            for (const std::int64_t position : each[d]) {
              longer.push_back(before);
              longer.back().push_back(position);
            }
          elements = std::move(longer);
        }
        which = lists;
      } else if (i == 1) {
        const std::uint64_t count = product(options.shape);
        std::vector<std::uint8_t> mask(count);
        for (std::uint64_t k = 0; k < count; ++k) {
          mask[k] = random() % 3 == 0 ? 1 : 0;
          if (mask[k] == 0) continue;
          std::vector<std::int64_t> at(rank);
          std::uint64_t rest = k;
          for (std::size_t d = rank; d-- > 0; rest /= options.shape[d])
            at[d] = static_cast<std::int64_t>(rest % options.shape[d]);
          elements.push_back(at);
        }
        which = mask_selection::pack(options.shape, mask);
      } else {
        coordinate_selection points;
        const std::size_t count = product(options.shape) == 0 ? 0 : 1 + random() % 60;
        points.points.resize(rank);
        elements.resize(count, std::vector<std::int64_t>(rank));
        for (std::size_t d = 0; d < rank; ++d)
          for (std::size_t k = 0; k < count; ++k) {
            const std::int64_t position = random_positions(random, options.shape[d], 1)[0];
            points.points[d].push_back(position);
            elements[k][d] = position;
          }
        points.shape = extents{count};
        which = points;
      }
      const auto shape = opened.result_shape(which);
      if (!shape.ok()) continue;  // this kind of selection does not support the rank
      ASSERT_EQ(product(*shape), elements.size());
      std::vector<std::byte> items(elements.size() * model.item_bytes);
      for (std::byte& each : items) each = static_cast<std::byte>(random() % 2);
      const auto done = opened.write(which, tensor_view::contiguous(items.data(), opened.type(), *shape));
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      for (std::size_t k = 0; k < elements.size(); ++k) set(elements[k], items.data() + k * model.item_bytes);
      ASSERT_EQ(read_all(store, model.values.size()), model.values) << describe(options, {}) << " kind " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WriteParity, testing::Range<std::uint64_t>(0, 8));

}  // namespace
}  // namespace penstock::test
