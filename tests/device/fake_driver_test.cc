// The engine's tests rely on the fake driver: it must be as late, as unordered and as strict as documented.

#include <atomic>
#include <cstring>
#include <numeric>

#include "cuda/move/move.h"
#include "fake_device.h"

namespace penstock::test {
namespace {

using cuda::kSuccess;
using FakeDriver = FakeDevice;

TEST_F(FakeDriver, RunsNothingBeforeAWait) {
  penstock_fake_cuda_configure(7, 1, 0);
  const auto memory = allocate(4);
  const auto stream = make_stream();
  const std::uint8_t value[4] = {1, 2, 3, 4};
  ASSERT_EQ(driver.copy_to_device(memory, value, 4, stream), kSuccess);
  EXPECT_EQ(peek(memory, 4)[0], 0xCD);
  ASSERT_EQ(driver.stream_synchronize(stream), kSuccess);
  EXPECT_EQ(peek(memory, 4), (std::vector<std::uint8_t>{1, 2, 3, 4}));
  EXPECT_EQ(penstock_fake_cuda_count("pageable copy"), 1U);
  ASSERT_EQ(driver.mem_free(memory), kSuccess);
  ASSERT_EQ(driver.stream_destroy(stream), kSuccess);
}

TEST_F(FakeDriver, ReadsPageLockedMemoryOnlyWhenTheCopyRuns) {
  penstock_fake_cuda_configure(7, 1, 0);
  const auto memory = allocate(1);
  const auto stream = make_stream();
  void* host = nullptr;
  ASSERT_EQ(driver.mem_host_alloc(&host, 1, cuda::kHostAllocPortable), kSuccess);
  auto* const byte = static_cast<std::uint8_t*>(host);
  *byte = 1;
  ASSERT_EQ(driver.copy_to_device(memory, host, 1, stream), kSuccess);
  *byte = 2;  // too early, as if a ring reused memory too soon
  ASSERT_EQ(driver.stream_synchronize(stream), kSuccess);
  EXPECT_EQ(peek(memory, 1)[0], 2);
  ASSERT_EQ(driver.mem_free_host(host), kSuccess);
  ASSERT_EQ(driver.mem_free(memory), kSuccess);
}

TEST_F(FakeDriver, OrdersStreamsOnlyByEvents) {
  bool saw_unordered = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    penstock_fake_cuda_configure(seed, 1, 0);
    const auto memory = allocate(2);
    const auto one = make_stream(), other = make_stream();
    const auto event = make_event();
    // An event that was never recorded delays nothing.
    ASSERT_EQ(driver.stream_wait_event(other, event, 0), kSuccess);
    ASSERT_EQ(driver.set_bytes(memory, 1, 1, one), kSuccess);
    ASSERT_EQ(driver.copy_on_device(memory + 1, memory, 1, other), kSuccess);  // unordered
    ASSERT_EQ(driver.stream_synchronize(other), kSuccess);
    ASSERT_EQ(driver.stream_synchronize(one), kSuccess);
    saw_unordered = saw_unordered || peek(memory, 2)[1] == 0xCD;

    ASSERT_EQ(driver.set_bytes(memory, 9, 1, one), kSuccess);
    ASSERT_EQ(driver.event_record(event, one), kSuccess);
    ASSERT_EQ(driver.stream_wait_event(other, event, 0), kSuccess);
    ASSERT_EQ(driver.copy_on_device(memory + 1, memory, 1, other), kSuccess);
    EXPECT_EQ(driver.event_query(event), cuda::kNotReady);
    ASSERT_EQ(driver.stream_synchronize(other), kSuccess);
    EXPECT_EQ(driver.event_query(event), kSuccess);
    EXPECT_EQ(peek(memory, 2)[1], 9) << "seed " << seed;
    ASSERT_EQ(driver.mem_free(memory), kSuccess);
    for (const auto each : {one, other}) ASSERT_EQ(driver.stream_destroy(each), kSuccess);
    ASSERT_EQ(driver.event_destroy(event), kSuccess);
  }
  EXPECT_TRUE(saw_unordered);
}

TEST_F(FakeDriver, RecognisesMemoryOfOthers) {
  const auto memory = allocate(100);
  const auto stream = make_stream();
  std::uint8_t host[200] = {};
  EXPECT_EQ(driver.copy_to_device(memory, host, 101, stream), cuda::kInvalidValue);
  EXPECT_EQ(driver.copy_to_device(memory + 50, host, 50, stream), kSuccess);
  EXPECT_EQ(driver.copy_to_device(reinterpret_cast<cuda::device_address>(host), host + 100, 10, stream),
            cuda::kInvalidValue);
  unsigned kind = 0;
  EXPECT_EQ(driver.pointer_get_attribute(&kind, cuda::kPointerMemoryType, memory + 99), kSuccess);
  EXPECT_EQ(kind, cuda::kMemoryTypeDevice);
  ASSERT_EQ(driver.mem_free(memory), kSuccess);
  EXPECT_EQ(driver.mem_free(memory), cuda::kInvalidValue);
  EXPECT_EQ(driver.copy_to_device(memory, host, 1, stream), cuda::kInvalidValue);
}

TEST_F(FakeDriver, RefusesAccessToDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto memory = allocate(64);
  EXPECT_DEATH({ *reinterpret_cast<volatile char*>(memory) = 1; }, "");
  EXPECT_EQ(peek(memory, 64)[0], 0xCD);  // makes the memory accessible, and inaccessible again
  EXPECT_DEATH({ *reinterpret_cast<volatile char*>(memory) = 1; }, "");
  ASSERT_EQ(driver.mem_free(memory), kSuccess);
}

TEST_F(FakeDriver, NeedsACurrentContextAndCountsTheLegacyStream) {
  cuda::context_ref popped = nullptr;
  ASSERT_EQ(driver.context_pop(&popped), kSuccess);
  cuda::device_address memory = 0;
  EXPECT_EQ(driver.mem_alloc(&memory, 1), cuda::kInvalidContext);
  ASSERT_EQ(driver.context_push(popped), kSuccess);
  EXPECT_EQ(driver.stream_synchronize(nullptr), kSuccess);
  EXPECT_EQ(driver.stream_synchronize(cuda::kLegacyStream), kSuccess);
  EXPECT_EQ(driver.stream_synchronize(cuda::kPerThreadStream), kSuccess);
  EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 2U);
}

TEST_F(FakeDriver, FailsACallOnRequest) {
  penstock_fake_cuda_fail("cuMemAlloc", 1, cuda::kOutOfMemory);
  cuda::device_address memory = 0;
  EXPECT_EQ(driver.mem_alloc(&memory, 1), kSuccess);
  EXPECT_EQ(driver.mem_alloc(&memory, 1), cuda::kOutOfMemory);
  EXPECT_EQ(driver.failure(cuda::kOutOfMemory, "cuMemAlloc").to_string(),
            "resource_exhausted: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (as the fake driver has it)");
}

TEST_F(FakeDriver, RunsKernelsAsTheirHostForm) {
  cuda::module_ref module = nullptr;
  cuda::function_ref function = nullptr;
  ASSERT_EQ(driver.module_load(&module, "x"), kSuccess);
  EXPECT_EQ(driver.module_get_function(&function, module, "penstock_nothing"), cuda::kNotFound);
  ASSERT_EQ(driver.module_get_function(&function, module, cuda::kMoveKernel), kSuccess);

  // 2 x 3 uint16 transposed and byte-swapped.
  const std::uint16_t values[6] = {0x0102, 0x0304, 0x0506, 0x0708, 0x090A, 0x0B0C};
  const auto from = allocate(12), to = allocate(12), table = allocate(512);
  cuda::move_item item;
  item.from = from;
  item.to = to;
  item.units = 6;
  item.unit_bytes = 2;
  item.swap = 1;
  item.axes = 2;
  const cuda::move_axis axes[2] = {{2, 6, 2}, {3, 2, 4}};
  const cuda::move_tile tiles[2] = {{0, 0, 0, 4}, {0, 0, 4, 2}};
  std::vector<std::byte> packed(512);
  std::memcpy(packed.data(), &item, sizeof item);
  std::memcpy(packed.data() + 128, axes, sizeof axes);
  std::memcpy(packed.data() + 256, tiles, sizeof tiles);
  const auto stream = make_stream();
  ASSERT_EQ(driver.copy_to_device(from, values, 12, stream), kSuccess);
  ASSERT_EQ(driver.copy_to_device(table, packed.data(), packed.size(), stream), kSuccess);
  cuda::move_parameters parameters;
  parameters.items = reinterpret_cast<const cuda::move_item*>(table);
  parameters.axes = reinterpret_cast<const cuda::move_axis*>(table + 128);
  parameters.tiles = reinterpret_cast<const cuda::move_tile*>(table + 256);
  void* arguments[] = {&parameters};
  ASSERT_EQ(driver.launch_kernel(function, 2, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr), kSuccess);
  parameters.items = nullptr;  // the launch has its own copy
  ASSERT_EQ(driver.stream_synchronize(stream), kSuccess);
  EXPECT_EQ(peek(to, 12), (std::vector<std::uint8_t>{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}));
  for (const auto each : {from, to, table}) ASSERT_EQ(driver.mem_free(each), kSuccess);
}

}  // namespace
}  // namespace penstock::test
