#include <penstock/batches.h>

#include <gtest/gtest.h>
#include <penstock/array_source.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/variable.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/without_threads.h"

namespace penstock {
namespace {

// (rows, 7) of `type`, element (i, j) = 7 i + j, in chunks of (4, 7). `reads`
// counts boxes; a box of row `fails` fails.
template <class T>
array numbered(const char* type, std::uint64_t rows, std::atomic<int>* reads = nullptr,
               std::uint64_t fails = ~std::uint64_t{0}) {
  array_source out;
  out.name = type;
  out.type = *dtype::from_name(type);
  out.shape = {rows, 7};
  out.chunks = {4, 7};
  out.read = [=](const box& which, std::span<std::byte> to) -> result<> {
    if (reads != nullptr) ++*reads;
    if (which.origin[0] <= fails && fails < which.origin[0] + which.size[0])
      return error(errc::io_error, "no such row");
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < which.size[0]; ++i) {
      for (std::uint64_t j = 0; j < which.size[1]; ++j, at += sizeof(T)) {
        const T value = static_cast<T>(7 * (which.origin[0] + i) + which.origin[1] + j);
        std::memcpy(to.data() + at, &value, sizeof(T));
      }
    }
    return {};
  };
  auto made = open_sources({out}, 0);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *made;
}

array_crop crop_of(const array& from, std::uint64_t row, std::uint64_t rows = 2) {
  resolved_selection which;
  which.from.push_back({static_cast<std::int64_t>(row), 1, rows});
  which.from.push_back({1, 1, 3});
  which.axis.push_back(0);
  which.axis.push_back(1);
  which.shape = {rows, 3};
  return {from, which};
}

/// A generator of these crops; `asked` counts its calls.
crop_generator each_of(std::vector<array_crop> crops, std::size_t* asked = nullptr) {
  return [crops = std::move(crops), asked, at = std::size_t{0}]() mutable -> result<std::optional<array_crop>> {
    if (asked != nullptr) ++*asked;
    if (at == crops.size()) return std::optional<array_crop>();
    return std::optional(crops[at++]);
  };
}

template <class T>
std::vector<T> values_of(const owned_tensor& from) {
  std::size_t count = 1;
  for (const std::uint64_t each : from.view.extents) count *= each;
  std::vector<T> out(count);
  std::memcpy(out.data(), from.view.data, count * sizeof(T));
  return out;
}

TEST(CropBatches, AreInTheOrderOfTheCrops) {
  const array a = numbered<std::int32_t>("int32", 20);
  for (const std::size_t depth : {0U, 1U, 9U}) {
    batch_options options;
    options.size = 2;
    options.depth = depth;
    auto made = crop_batches::make(each_of({crop_of(a, 9), crop_of(a, 0), crop_of(a, 17)}), options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    auto first = made->next();
    ASSERT_TRUE(first.ok() && *first) << first.error().to_string();
    EXPECT_EQ((*first)->view.extents, (extents{2, 2, 3}));
    EXPECT_EQ(values_of<std::int32_t>(**first), (std::vector<std::int32_t>{64, 65, 66, 71, 72, 73, 1, 2, 3, 8, 9, 10}));
    auto last = made->next();
    ASSERT_TRUE(last.ok() && *last);
    EXPECT_EQ(values_of<std::int32_t>(**last), (std::vector<std::int32_t>{120, 121, 122, 127, 128, 129}));
    EXPECT_FALSE(*made->next());
    EXPECT_FALSE(*made->next());
  }
}

TEST(CropBatches, AnIncompleteLastBatchCanBeOmitted) {
  const array a = numbered<std::int32_t>("int32", 20);
  batch_options options;
  options.size = 2;
  options.drop_last = true;
  auto made = crop_batches::make(each_of({crop_of(a, 0), crop_of(a, 1), crop_of(a, 2)}), options);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(*made->next());
  EXPECT_FALSE(*made->next());
}

TEST(CropBatches, RequestTheCropsOfTheBatchesAhead) {
  const array a = numbered<std::int32_t>("int32", 20);
  std::size_t asked = 0;
  batch_options options;
  options.size = 2;
  options.depth = 1;
  auto made = crop_batches::make(each_of(std::vector<array_crop>(20, crop_of(a, 3)), &asked), options);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(asked, 0U);
  ASSERT_TRUE(made->next().ok());
  EXPECT_EQ(asked, 4U);
}

TEST(CropBatches, AChunkOfSeveralCropsIsReadOnce) {
  std::atomic<int> reads = 0;
  const array a = numbered<std::int32_t>("int32", 20, &reads);
  batch_options options;
  options.depth = 0;
  auto made = crop_batches::make(each_of(std::vector<array_crop>(8, crop_of(a, 1))), options);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made->next().ok());
  EXPECT_EQ(reads, 1);
}

TEST(CropBatches, ArraysOfSeveralTypesBecomeOne) {
  const array a = numbered<std::int16_t>("int16", 20), b = numbered<float>("float32", 20);
  auto refused = crop_batches::make(each_of({crop_of(a, 0), crop_of(b, 0)}));
  ASSERT_TRUE(refused.ok());
  const auto failed = refused->next();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::invalid_argument);
  EXPECT_NE(failed.error().message().find("int16 and float32"), std::string::npos) << failed.error().message();
  EXPECT_FALSE(*refused->next());

  batch_options options;
  options.type = *dtype::from_name("float32");
  auto made = crop_batches::make(each_of({crop_of(a, 2), crop_of(b, 0), crop_of(a, 0)}), options);
  ASSERT_TRUE(made.ok());
  const auto batch = made->next();
  ASSERT_TRUE(batch.ok() && *batch) << batch.error().to_string();
  EXPECT_EQ(values_of<float>(**batch),
            (std::vector<float>{15, 16, 17, 22, 23, 24, 1, 2, 3, 8, 9, 10, 1, 2, 3, 8, 9, 10}));
}

TEST(CropBatches, AFailureEndsThem) {
  const array a = numbered<std::int32_t>("int32", 20, nullptr, 10);
  batch_options options;
  options.size = 1;
  auto made = crop_batches::make(each_of({crop_of(a, 0), crop_of(a, 10), crop_of(a, 1)}), options);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->next().ok());
  const auto failed = made->next();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::io_error);
  EXPECT_FALSE(*made->next());

  auto shapes = crop_batches::make(each_of({crop_of(a, 0, 2), crop_of(a, 0, 3)}));
  ASSERT_TRUE(shapes.ok());
  EXPECT_EQ(shapes->next().error().code(), errc::invalid_argument);

  auto broken = crop_batches::make([]() -> result<std::optional<array_crop>> { return error(errc::io_error, "none"); });
  ASSERT_TRUE(broken.ok());
  EXPECT_EQ(broken->next().error().message(), "none");
  EXPECT_FALSE(crop_batches::make(nullptr).ok());
  options.size = 0;
  EXPECT_FALSE(crop_batches::make(each_of({}), options).ok());
}

#ifdef __GLIBC__
TEST(CropBatches, AReadWithoutAThreadIsAnError) {
  const array a = numbered<std::int32_t>("int32", 10);
  auto batches = crop_batches::make(each_of({crop_of(a, 0), crop_of(a, 2)}));
  ASSERT_TRUE(batches.ok()) << batches.error().to_string();
  const auto refused = test::without_threads([&] { return batches->next(); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_NE(refused.error().to_string().find("array '"), std::string::npos) << refused.error().to_string();
}
#endif

TEST(CropBatches, CropsMayBeListsAndPoints) {
  const array a = numbered<std::int32_t>("int32", 20), b = numbered<std::int16_t>("int16", 20);
  orthogonal_selection lists;
  lists.items = {index_list{9, 2}, index_list{6, 0, 3}};
  coordinate_selection points;
  points.points = {index_list{1, 2, 3, 19, 0, 5}, index_list{1, 2, 3, 6, 0, 5}};
  points.shape = {2, 3};
  const resolved_selection listed = a.select(lists).value(), pointed = a.select(points).value();
  batch_options options;
  options.size = 3;
  auto made = crop_batches::make(each_of({crop_of(a, 2), {a, listed}, {a, pointed}, crop_of(a, 0)}), options);
  const auto batch = made->next();
  ASSERT_TRUE(batch.ok() && *batch) << batch.error().to_string();
  EXPECT_EQ((*batch)->view.extents, (extents{3, 2, 3}));
  EXPECT_EQ(values_of<std::int32_t>(**batch),
            (std::vector<std::int32_t>{15, 16, 17, 22, 23, 24, 69, 63, 66, 20, 14, 17, 8, 16, 24, 139, 0, 40}));
  const auto last = made->next();
  ASSERT_TRUE(last.ok() && *last);
  EXPECT_EQ(values_of<std::int32_t>(**last), (std::vector<std::int32_t>{1, 2, 3, 8, 9, 10}));

  auto mixed = crop_batches::make(each_of({{a, listed}, {b, listed}}), options);
  EXPECT_EQ(mixed->next().error().code(), errc::invalid_argument);
  options.type = *dtype::from_name("float64");
  mixed = crop_batches::make(each_of({{a, listed}, {b, listed}}), options);
  const auto converted = mixed->next();
  ASSERT_TRUE(converted.ok() && *converted) << converted.error().to_string();
  EXPECT_EQ(values_of<double>(**converted), (std::vector<double>{69, 63, 66, 20, 14, 17, 69, 63, 66, 20, 14, 17}));
  auto shapes = crop_batches::make(each_of({{a, listed}, crop_of(a, 0, 3)}));
  EXPECT_EQ(shapes->next().error().code(), errc::invalid_argument);
}

TEST(CropBatches, TextOwnsItsBytes) {
  create_options how;
  how.type = dtype::variable_utf8();
  how.shape = {4};
  how.chunks = extents{2};
  const array made = create_array(std::shared_ptr<store>(make_memory_store()), how).value();
  const std::vector<std::string> words = {"", "a", "word that is longer than others", "b"};
  std::vector<variable_item> items;
  for (const std::string& each : words) items.push_back({reinterpret_cast<const std::byte*>(each.data()), each.size()});
  ASSERT_TRUE(made.write(basic_selection(),
                         tensor_view::contiguous(reinterpret_cast<std::byte*>(items.data()), how.type, how.shape))
                  .ok());
  const auto rows = [&](std::int64_t low) {
    basic_selection which;
    which.items = {slice{low, low + 2, {}}};
    return array_crop{made, made.select(which).value()};
  };
  auto batches = crop_batches::make(each_of({rows(2), rows(0), rows(1)}));
  const auto batch = batches->next();
  ASSERT_TRUE(batch.ok() && *batch) << batch.error().to_string();
  batches->cancel();
  std::vector<std::string> read;
  const auto* const first = reinterpret_cast<const variable_item*>((*batch)->view.data);
  for (std::size_t i = 0; i < 6; ++i) read.emplace_back(first[i].text());
  EXPECT_EQ(read, (std::vector<std::string>{words[2], "b", "", "a", "a", words[2]}));
}

TEST(CropBatches, EndWhenCancelled) {
  const array a = numbered<std::int32_t>("int32", 20);
  auto made = crop_batches::make(each_of(std::vector<array_crop>(30, crop_of(a, 3))));
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made->next().ok());
  made->cancel();
  EXPECT_FALSE(*made->next());
}

}  // namespace
}  // namespace penstock
