// Crops of many arrays as one read, on the device and on the host: they equal the model's, and each chunk is decoded
// once.

#include <cstring>
#include <random>

#include <penstock/penstock.h>
#include "engine/blocking_read.h"
#include "small_arrays.h"

namespace penstock::test {
namespace {

struct batch {
  std::vector<array_crop> crops;
  std::vector<std::byte> expected;
  extents shape;
};

// Boxes of one shape, of any of the arrays; some of them twice.
batch random_batch(std::mt19937_64& random, const std::vector<opened_array>& arrays, std::size_t crops) {
  batch out;
  const extents& shape = arrays[0].model.options.shape;
  out.shape.push_back(crops);
  for (const std::uint64_t length : shape) out.shape.push_back(1 + random() % length);
  for (std::size_t i = 0; i < crops; ++i) {
    const opened_array& from = arrays[random() % arrays.size()];
    basic_selection box;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto start = static_cast<std::int64_t>(random() % (shape[d] - out.shape[d + 1] + 1));
      box.items.emplace_back(slice{start, start + static_cast<std::int64_t>(out.shape[d + 1]), 1});
    }
    const bool again = !out.crops.empty() && random() % 4 == 0;
    const auto values =
        again ? std::vector<std::byte>(out.expected.end() - static_cast<std::ptrdiff_t>(out.expected.size() / i),
                                       out.expected.end())
              : from.model.select(selection(box));
    out.crops.push_back(again ? out.crops.back() : array_crop{from.from, from.from.select(selection(box)).value()});
    out.expected.insert(out.expected.end(), values.begin(), values.end());
  }
  return out;
}

class DeviceCrops : public FakeDevice, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(DeviceCrops, EqualTheModelsInEverySchedule) {
  std::mt19937_64 random(GetParam());
  const auto [seeded, ctx] = make_seeded(GetParam(), random());
  const auto store = make_memory_store();
  std::vector<opened_array> arrays;
  for (std::uint64_t i = 0; i < 3; ++i)
    arrays.push_back(make_array(store, ctx, "a" + std::to_string(i), small_model(GetParam() * 3 + i)));
  for (int round = 0; round < 6; ++round) {
    const batch wanted = random_batch(random, arrays, 1 + random() % 7);
    auto made = read_crops_to_device(wanted.crops);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_EQ(made->view().extents, wanted.shape);
    std::vector<std::byte> seen(wanted.expected.size());
    const auto copied = made->copy_to_host(seen.data());
    ASSERT_TRUE(copied.ok()) << copied.error().to_string();
    ASSERT_EQ(seen, wanted.expected) << "round " << round;
    ASSERT_FALSE(seeded->stuck());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceCrops, testing::Range<std::uint64_t>(1, 9));

class Crops : public FakeDevice {};

TEST_F(Crops, OnTheHostEqualTheModels) {
  std::mt19937_64 random(11);
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  for (const char* const codecs : {kZstd, R"([{"name":"bytes","configuration":{"endian":"big"}}])"}) {
    std::vector<opened_array> arrays;
    for (std::uint64_t i = 0; i < 3; ++i) {
      model_options options = small_model(i);
      options.codecs = codecs;
      arrays.push_back(make_array(store, ctx, "a" + std::to_string(i), options));
    }
    for (int round = 0; round < 40; ++round) {
      const batch wanted = random_batch(random, arrays, 1 + random() % 9);
      std::vector<std::byte> seen(wanted.expected.size(), std::byte{0x5A});
      const tensor_view out = tensor_view::contiguous(seen.data(), arrays[0].from.type(), wanted.shape);
      auto job = read_crops_async(wanted.crops, out);
      ASSERT_TRUE(job.ok()) << job.error().to_string();
      const auto done = job->wait();
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      ASSERT_EQ(seen, wanted.expected) << "round " << round;
    }
  }
}

// The bytes of each chunk are counted when it is decoded.
std::uint64_t decoded_bytes(const profile_report& report) {
  for (const profile_stage& each : report.stages)
    if (each.what == stage::decode) return each.bytes_out;
  return 0;
}

TEST_F(Crops, DecodeEachChunkOnce) {
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  model_options options = small_model(1);
  options.missing = 0;
  const opened_array all = make_array(store, ctx, "a", options);
  std::vector<array_crop> crops;
  for (std::int64_t i = 0; i < 12; ++i) {
    basic_selection box;  // rows 0 to 11 one by one: chunks of four rows
    box.items.emplace_back(slice{i, i + 1, 1});
    crops.push_back({all.from, all.from.select(selection(box)).value()});
  }
  const std::uint64_t chunk_bytes = 4 * 5 * 9 * 2, chunks = 3 * 4;
  ASSERT_TRUE(ctx->start_profile().ok());
  {
    auto made = read_crops_to_device(crops);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->synchronize().ok());
  }
  ASSERT_EQ(driver.mem_free(allocate(1)), cuda::kSuccess);  // waits for all streams: the host was notified
  EXPECT_EQ(decoded_bytes(ctx->stop_profile()), chunks * chunk_bytes);
  std::vector<std::byte> out(12 * 17 * 9 * 2);
  ASSERT_TRUE(ctx->start_profile().ok());
  {
    auto job = read_crops_async(crops, tensor_view::contiguous(out.data(), all.from.type(), extents{12, 1, 17, 9}));
    ASSERT_TRUE(job.ok()) << job.error().to_string();
    ASSERT_TRUE(job->wait().ok());
  }
  EXPECT_EQ(decoded_bytes(ctx->stop_profile()), chunks * chunk_bytes);
}

TEST_F(Crops, AFailedChunkIsCountedOnceAndMarkedEverywhere) {
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  model_options options;
  options.shape = {4096};
  options.chunks = {2048};
  options.dtype = "float32";
  options.codecs = kZstd;
  const opened_array all = make_array(store, ctx, "a", options);
  const auto old = read_and_wait(*store, "a/c/1", byte_range{}, 1 << 20).value();
  std::vector<std::byte> bytes(old.bytes.begin(), old.bytes.end());
  ASSERT_GT(bytes.size(), 64U);
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 30; ++i) bytes[i] ^= std::byte{0x5A};
  const part whole(bytes);
  ASSERT_TRUE(store->put("a/c/1", {&whole, 1}, {}).ok());
  std::vector<array_crop> crops;
  for (std::int64_t start : {0, 1000, 2048, 3000}) {
    basic_selection box;
    box.items.emplace_back(slice{start, start + 1000, 1});
    crops.push_back({all.from, all.from.select(selection(box)).value()});
  }
  auto made = read_crops_to_device(crops);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const auto outcome = made->synchronize();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), errc::corrupt_data);
  EXPECT_EQ(outcome.error().to_string().find("chunks failed"), std::string::npos) << outcome.error().to_string();
  const auto seen = peek(reinterpret_cast<cuda::device_address>(made->view().data), 4 * 1000 * 4);
  EXPECT_EQ(std::memcmp(seen.data(), all.model.values.data(), 4000), 0);
  EXPECT_EQ(std::vector<std::uint8_t>(seen.begin() + 8000, seen.end()), std::vector<std::uint8_t>(8000, 0xFF));
}

array_crop first_rows(const array& from, std::int64_t rows) {
  basic_selection box;
  box.items.emplace_back(slice{0, rows, 1});
  return {from, from.select(selection(box)).value()};
}

TEST_F(Crops, ThatDoNotFitAreRefused) {
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  const opened_array all = make_array(store, ctx, "a", small_model(1));
  const array_crop two[] = {first_rows(all.from, 1), first_rows(all.from, 2)};
  EXPECT_EQ(read_crops_to_device(two).error().code(), errc::invalid_argument);
  EXPECT_EQ(read_crops_to_device({}).error().code(), errc::invalid_argument);
  device_read_options options;
  options.type = dtype::from_name("uint8").value();
  EXPECT_EQ(read_crops_to_device({two, 1}, std::nullopt, options).error().code(), errc::invalid_argument);
  std::vector<std::byte> out(17 * 9 * 2);
  const tensor_view wrong = tensor_view::contiguous(out.data(), all.from.type(), extents{1, 1, 17, 8});
  EXPECT_EQ(read_crops_async({two, 1}, wrong).error().code(), errc::invalid_argument);
}

/// A generator of the crops of `from`.
crop_generator each_of(const std::vector<array_crop>& from, std::size_t* asked = nullptr) {
  return [from, asked, at = std::size_t{0}]() mutable -> result<std::optional<array_crop>> {
    if (asked != nullptr) ++*asked;
    if (at == from.size()) return std::optional<array_crop>();
    return std::optional(from[at++]);
  };
}

TEST_F(Crops, BatchesOnADeviceEqualThoseOfTheHost) {
  std::mt19937_64 random(5);
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  std::vector<opened_array> arrays;
  for (std::uint64_t i = 0; i < 3; ++i)
    arrays.push_back(make_array(store, ctx, "a" + std::to_string(i), small_model(i)));
  const batch wanted = random_batch(random, arrays, 11);
  for (const std::size_t depth : {0U, 1U, 9U}) {
    batch_options options;
    options.size = 3;
    options.depth = depth;
    options.device = 0;
    std::size_t asked = 0;
    auto made = crop_batches::make(each_of(wanted.crops, &asked), options).value();
    EXPECT_EQ(made.next().error().code(), errc::invalid_argument);
    std::vector<std::byte> seen;
    for (std::uint64_t crops : {3U, 3U, 3U, 2U}) {
      auto next = made.next_on_device();
      ASSERT_TRUE(next.ok() && *next) << next.error().to_string();
      if (seen.empty()) {
        EXPECT_EQ(asked, std::min<std::size_t>(3 * (depth + 1), 12));
      }
      device_tensor& tensor = **next;
      ASSERT_EQ(tensor.view().extents[0], crops);
      const std::size_t bytes = wanted.expected.size() / 11 * crops;
      seen.resize(seen.size() + bytes);
      ASSERT_TRUE(tensor.copy_to_host(seen.data() + seen.size() - bytes).ok());
    }
    EXPECT_EQ(seen, wanted.expected);
    EXPECT_FALSE(*made.next_on_device());
    options.drop_last = true;
    auto whole = crop_batches::make(each_of(wanted.crops), options).value();
    int batches = 0;
    while (*whole.next_on_device()) ++batches;
    EXPECT_EQ(batches, 3);
    auto left = crop_batches::make(each_of(wanted.crops), options).value();
    ASSERT_TRUE(*left.next_on_device());
    left.cancel();
    EXPECT_FALSE(*left.next_on_device());
  }
  batch_options on_host;
  on_host.size = 3;
  auto host = crop_batches::make(each_of(wanted.crops), on_host).value();
  EXPECT_EQ(host.next_on_device().error().code(), errc::invalid_argument);
  ASSERT_TRUE(*host.next());
}

TEST_F(Crops, BatchesOnADeviceConvertAndEndWithAnError) {
  const auto ctx = context::make({}).value();
  const auto store = make_memory_store();
  const opened_array all = make_array(store, ctx, "a", small_model(1));
  batch_options options;
  options.size = 2;
  options.depth = 0;
  options.device = 0;
  options.check = true;
  options.type = dtype::from_name("float32").value();
  auto made = crop_batches::make(each_of({first_rows(all.from, 1), first_rows(all.from, 1), first_rows(all.from, 1),
                                          first_rows(all.from, 2), first_rows(all.from, 1)}),
                                 options)
                  .value();
  auto first = made.next_on_device();
  ASSERT_TRUE(first.ok() && *first) << first.error().to_string();
  EXPECT_EQ((*first)->view().type, *options.type);
  std::vector<float> seen(2 * 17 * 9);
  ASSERT_TRUE((*first)->copy_to_host(reinterpret_cast<std::byte*>(seen.data())).ok());
  std::vector<std::int16_t> expected(17 * 9);
  std::memcpy(expected.data(), all.model.values.data(), expected.size() * 2);
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], static_cast<float>(expected[i % expected.size()]));
  EXPECT_EQ(made.next_on_device().error().code(), errc::invalid_argument);  // two shapes
  EXPECT_FALSE(*made.next_on_device());
}

}  // namespace
}  // namespace penstock::test
