// Values in device memory that the host writes: storage then holds the same as after a write from host memory.

#include <cstring>
#include <random>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "model_reads.h"
#include "support/cases.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

class DeviceWrite : public FakeDevice, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(DeviceWrite, StoresTheModelsValues) {
  std::mt19937_64 random(GetParam());
  penstock_fake_cuda_configure(GetParam(), GetParam() % 3 == 0 ? 1 : 0, GetParam() % 2 == 0 ? 0 : 20);
  context_options roomy, narrow;
  roomy.threads = narrow.threads = 3;
  narrow.page_locked_bytes = 4096;
  narrow.device_memory_bytes = 3 * 512;
  for (const context_options& options : {roomy, narrow}) {
    const auto ctx = context::make(options).value();
    for (std::uint64_t round = 0; round < cases(12); ++round) {
      const model_options how = random_model(random);
      const auto store = make_memory_store();
      model_array model = write_model(*store, "a/", how);
      const array opened = open_in(store, ctx);
      const selection which = round % 4 == 0 ? selection(basic_selection()) : random_selection(random, how.shape);
      const auto resolved = opened.select(which).value();
      std::uint64_t bytes = model.item_bytes;
      for (const std::uint64_t each : resolved.shape) bytes *= each;
      std::vector<std::byte> items(bytes);
      for (std::byte& each : items) each = static_cast<std::byte>(random() % (how.dtype == "bool" ? 2 : 256));

      // In the order of the axes, or in reverse order.
      strides steps = c_order_strides(resolved.shape, model.item_bytes);
      std::vector<std::byte> stored = items;
      if (round % 2 == 1 && resolved.shape.size() > 1) {
        std::int64_t step = model.item_bytes;
        for (std::size_t d = 0; d < resolved.shape.size(); ++d) {
          steps[d] = step;
          step *= static_cast<std::int64_t>(resolved.shape[d]);
        }
        for (std::uint64_t i = 0; i < bytes / model.item_bytes; ++i) {
          std::uint64_t rest = i, to = 0;
          for (std::size_t d = resolved.shape.size(); d-- > 0;) {
            to += rest % resolved.shape[d] * static_cast<std::uint64_t>(steps[d]);
            rest /= resolved.shape[d];
          }
          std::memcpy(stored.data() + to, items.data() + i * model.item_bytes, model.item_bytes);
        }
      }
      const auto mine = make_stream();
      const cuda::device_address address = allocate(std::max<std::uint64_t>(bytes, 1));
      ASSERT_EQ(driver.copy_to_device(address, stored.data(), bytes, mine), cuda::kSuccess);
      tensor_view value;
      value.data = reinterpret_cast<std::byte*>(address);
      value.type = opened.type();
      value.extents = resolved.shape;
      value.strides = steps;
      value.space = memory_space::cuda;
      write_options with;
      with.stream = reinterpret_cast<stream_handle>(mine);
      const auto written = opened.write(resolved, value, with);
      ASSERT_TRUE(written.ok()) << written.error().to_string();
      model.assign(which, items);
      ASSERT_EQ(read_all(opened), model.values)
          << "shape " << to_string(how.shape) << " chunks " << to_string(how.chunks) << " " << how.dtype << " "
          << how.codecs << " [" << to_text(which) << "] seed " << how.seed;
      ASSERT_EQ(driver.mem_free(address), cuda::kSuccess);
      ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
    }
  }
  EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceWrite, testing::Range<std::uint64_t>(1, 7));

// The values of JAX do not change: they are copied on our stream, and may be freed once the write has ended.
TEST_F(FakeDevice, ACancelledWriteEndsAfterTheCopyOfItsValues) {
  model_options options;
  options.shape = {64};
  options.chunks = {16};
  options.dtype = "float32";
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  const auto ctx = context::make({}).value();
  const array opened = open_in(store, ctx);
  const cuda::device_address memory = allocate(model.values.size());
  tensor_view value = tensor_view::contiguous(reinterpret_cast<void*>(memory), opened.type(), opened.shape());
  value.space = memory_space::cuda;
  write_options how;
  how.device = 0;
  how.stream = write_stream(*ctx, 0).value();
  penstock_fake_cuda_configure(1, 1, 0);
  auto begun = opened.write_async(basic_selection(), value, how);
  ASSERT_TRUE(begun.ok()) << begun.error().to_string();
  EXPECT_TRUE(penstock_fake_cuda_pending());
  begun->cancel();
  const auto outcome = begun->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), errc::cancelled) << outcome.error().to_string();
  EXPECT_FALSE(penstock_fake_cuda_pending());
  penstock_fake_cuda_configure(1, 0, 0);
  ASSERT_EQ(driver.mem_free(memory), cuda::kSuccess);
}

TEST_F(FakeDevice, AnAppenderTakesRowsOfADevice) {
  for (const std::size_t axis : {0U, 1U}) {
    const auto store = make_memory_store();
    model_options how;
    how.shape = axis == 0 ? extents{0, 6} : extents{6, 0};
    how.chunks = {4, 4};
    write_model(*store, "a/", how);
    const array opened = open_in(store, context::make({}).value());
    std::vector<std::int32_t> values(18);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
    const auto mine = make_stream();
    const cuda::device_address memory = allocate(values.size() * sizeof(std::int32_t));
    ASSERT_EQ(driver.copy_to_device(memory, values.data(), values.size() * sizeof(std::int32_t), mine), cuda::kSuccess);
    const extents shape = axis == 0 ? extents{3, 6} : extents{6, 3};
    tensor_view rows = tensor_view::contiguous(reinterpret_cast<void*>(memory), opened.type(), shape);
    rows.space = memory_space::cuda;
    {
      auto to = appender::make(opened, axis);
      ASSERT_TRUE(to.ok()) << to.error().to_string();
      EXPECT_EQ(to->try_append(rows).error().code(), errc::unsupported);
      ASSERT_TRUE(to->append(rows, nullptr, reinterpret_cast<std::uintptr_t>(mine)).ok());
      ASSERT_TRUE(to->flush().ok());
      ASSERT_TRUE(to->append(rows).ok());
      const auto longer = to->close();
      ASSERT_TRUE(longer.ok()) << longer.error().to_string();
      std::vector<std::int32_t> expected;
      for (std::size_t row = 0; row < (axis == 0 ? 1U : 6U); ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * 3);
        for (int twice = 0; twice < 2; ++twice)
          expected.insert(expected.end(), axis == 0 ? values.begin() : first, axis == 0 ? values.end() : first + 3);
      }
      const std::vector<std::byte> stored = read_all(*longer);
      ASSERT_EQ(stored.size(), expected.size() * sizeof(std::int32_t));
      EXPECT_EQ(std::memcmp(stored.data(), expected.data(), stored.size()), 0);
    }
    ASSERT_EQ(driver.mem_free(memory), cuda::kSuccess);
    ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
  }
}

TEST_F(FakeDevice, ValuesWithoutADeviceAreRefused) {
  const auto store = make_memory_store();
  model_options how;
  how.shape = {4};
  how.chunks = {2};
  write_model(*store, "a/", how);
  const array opened = open_in(store, context::make({}).value());
  std::int32_t here[4] = {};
  tensor_view value = tensor_view::contiguous(here, opened.type(), opened.shape());
  value.space = memory_space::cuda;
  EXPECT_EQ(opened.write(basic_selection(), value).error().code(), errc::invalid_argument);
  value.type = dtype::from_name("float32").value();
  EXPECT_EQ(opened.write(basic_selection(), value).error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::test
