// The time at which memory of results is reused, and refused allocations.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

class DeviceRelease : public FakeDevice {
 protected:
  DeviceRelease() {
    model_options wanted;
    wanted.shape = {8 * 1024};
    wanted.chunks = {1024};
    wanted.dtype = "float32";
    wanted.codecs = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
    model = write_model(*files, "a/", wanted);
    open_options where;
    where.context = context::make({}).value();
    where.path = "a";
    opened.emplace(open_array(files, where).value());
    wanted.seed += 1;
    write_model(*files, "b/", wanted);
    where.path = "b";
    other.emplace(open_array(files, where).value());
  }
  device_tensor read() const { return read_of(*opened); }
  static device_tensor read_of(const array& from) {
    auto made = read_to_device(from, basic_selection());
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return std::move(made).value();
  }
  static bool ends(const device_tensor& which) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!which.done())
      if (std::chrono::steady_clock::now() > until) return false;
    return true;
  }
  static stream_handle handle(cuda::stream_ref stream) { return reinterpret_cast<stream_handle>(stream); }

  const std::shared_ptr<store> files = make_memory_store();
  model_array model;
  std::optional<array> opened, other;  // of one size
};

// Another stream of the context is always busy, as in training. The chunks are copied without a kernel.
TEST_F(DeviceRelease, MemoryIsReusedAfterItsStreamOnly) {
  const cuda::stream_ref busy = make_stream(), mine = make_stream();
  const auto nothing = [](void*) {};
  void* first = nullptr;
  {
    device_tensor tensor = read();
    first = tensor.view().data;
    penstock_fake_cuda_hold_kernels(1);
    ASSERT_EQ(penstock_fake_cuda_enqueue(busy, nothing, nullptr), 0);
    ASSERT_TRUE(tensor.release(handle(mine)).ok());
    const auto refused = tensor.order(handle(mine));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
  device_tensor next = read();
  EXPECT_EQ(next.view().data, first);
  EXPECT_TRUE(ends(next));
  EXPECT_EQ(driver.stream_query(busy), cuda::kNotReady);
  EXPECT_EQ(penstock_fake_cuda_count("cuCtxRecordEvent"), 0U);
  penstock_fake_cuda_hold_kernels(0);
  ASSERT_EQ(driver.stream_synchronize(busy), cuda::kSuccess);
}

TEST_F(DeviceRelease, MemoryIsNotWrittenBeforeTheStreamIsDone) {
  const cuda::stream_ref one = make_stream(), two = make_stream();
  struct seen_values {
    void* from;
    std::vector<std::byte> bytes;
  };
  const auto look = [](void* argument) {
    auto* const into = static_cast<seen_values*>(argument);
    std::memcpy(into->bytes.data(), into->from, into->bytes.size());
  };
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::vector<seen_values> seen(2, {nullptr, std::vector<std::byte>(model.values.size())});
    {
      device_tensor tensor = read();
      for (seen_values& each : seen) each.from = tensor.view().data;
      ASSERT_TRUE(tensor.order(handle(one)).ok());
      ASSERT_TRUE(tensor.order(handle(two)).ok());
      penstock_fake_cuda_configure(seed, 1, 0);
      ASSERT_EQ(penstock_fake_cuda_enqueue(one, look, &seen[0]), 0);
      ASSERT_EQ(penstock_fake_cuda_enqueue(two, look, &seen[1]), 0);
      ASSERT_TRUE(tensor.release(handle(one)).ok());
      ASSERT_TRUE(tensor.release(handle(two)).ok());
    }
    device_tensor again = read_of(*other);
    EXPECT_EQ(again.view().data, seen[0].from);
    ASSERT_TRUE(again.synchronize().ok());
    ASSERT_EQ(driver.stream_synchronize(one), cuda::kSuccess);
    ASSERT_EQ(driver.stream_synchronize(two), cuda::kSuccess);
    EXPECT_EQ(seen[0].bytes, model.values);
    EXPECT_EQ(seen[1].bytes, model.values);
    penstock_fake_cuda_configure(seed, 0, 0);
  }
}

// A block whose last reader has not begun is taken from the pool and returned before anything waits for that reader.
// The driver does not mark all work of the context, as before 12.5.
TEST_F(DeviceRelease, MemoryTakenInVainStillWaitsForItsReader) {
  struct seen_values {
    void* from;
    std::vector<std::byte> bytes;
  };
  const auto look = [](void* argument) {
    auto* const into = static_cast<seen_values*>(argument);
    std::memcpy(into->bytes.data(), into->from, into->bytes.size());
  };
  const cuda::stream_ref mine = make_stream();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    seen_values seen{nullptr, std::vector<std::byte>(model.values.size())};
    {
      device_tensor tensor = read();
      seen.from = tensor.view().data;
      ASSERT_TRUE(tensor.order(handle(mine)).ok());
      penstock_fake_cuda_configure(seed, 1, 0);
      ASSERT_EQ(penstock_fake_cuda_enqueue(mine, look, &seen), 0);
      ASSERT_TRUE(tensor.release(handle(mine)).ok());
    }
    {
      const auto in_vain = device_memory(*opened->context(), 0, opened->type(), opened->shape());
      ASSERT_TRUE(in_vain.ok()) << in_vain.error().to_string();
      ASSERT_EQ(in_vain->view().data, seen.from);
      penstock_fake_cuda_fail("cuCtxRecordEvent", 0, cuda::kInvalidValue);
    }
    device_tensor again = read_of(*other);
    EXPECT_EQ(again.view().data, seen.from);
    ASSERT_TRUE(again.synchronize().ok());
    ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
    EXPECT_EQ(seen.bytes, model.values) << "seed " << seed;
    penstock_fake_cuda_configure(seed, 0, 0);
  }
}

TEST_F(DeviceRelease, MemoryOfAnotherContextIsNotReadFrom) {
  const cuda::device_address memory = allocate(model.values.size());
  tensor_view value = tensor_view::contiguous(reinterpret_cast<void*>(memory), opened->type(), opened->shape());
  value.space = memory_space::cuda;
  std::vector<std::byte> seen(model.values.size());
  for (const auto encoder : {chunk_encoder::host, chunk_encoder::device}) {
    write_options how;
    how.encoder = encoder;
    penstock_fake_cuda_foreign(memory, model.values.size());
    const auto written = opened->write(basic_selection(), value, how);
    const auto copied = copy_to_host(*opened->context(), 0, value, seen.data(), std::nullopt);
    penstock_fake_cuda_foreign(0, 0);
    for (const auto* each : {&written, &copied}) {
      ASSERT_FALSE(each->ok());
      EXPECT_EQ(each->error().code(), errc::invalid_argument);
      EXPECT_NE(each->error().to_string().find("another CUDA context"), std::string::npos);
    }
  }
  device_tensor unchanged = read();
  ASSERT_TRUE(unchanged.copy_to_host(seen.data()).ok());
  EXPECT_EQ(seen, model.values);
  ASSERT_EQ(driver.mem_free(memory), cuda::kSuccess);
}

TEST_F(DeviceRelease, MemoryOfAnotherContextIsRefused) {
  const cuda::device_address memory = allocate(model.values.size());
  tensor_view out = tensor_view::contiguous(reinterpret_cast<void*>(memory), opened->type(), opened->shape());
  out.space = memory_space::cuda;
  penstock_fake_cuda_foreign(memory, model.values.size());
  const auto refused = read_to_device(*opened, basic_selection(), out);
  penstock_fake_cuda_foreign(0, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().to_string().find("another CUDA context"), std::string::npos);
  auto taken = read_to_device(*opened, basic_selection(), out);
  ASSERT_TRUE(taken.ok());
  ASSERT_TRUE(taken->synchronize().ok());
  ASSERT_EQ(driver.mem_free(memory), cuda::kSuccess);
}

// The caller may free or change its memory after an error, and after it has dropped the result.
TEST_F(DeviceRelease, TheCallersMemoryIsNotWrittenToAfterwards) {
  model_options wanted;
  wanted.shape = {8 * 16384};
  wanted.chunks = {16384};
  wanted.dtype = "float32";
  wanted.codecs = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
  const auto large = make_memory_store();
  const model_array values = write_model(*large, "a/", wanted);
  open_options where;
  where.path = "a";
  context_options with;
  with.threads = 1;
  where.context = context::make(with).value();
  const array from = open_array(large, where).value();
  const cuda::device_address memory = allocate(values.values.size());
  tensor_view out = tensor_view::contiguous(reinterpret_cast<void*>(memory), from.type(), from.shape());
  out.space = memory_space::cuda;
  ASSERT_TRUE(read_to_device(from, basic_selection(), out).value().synchronize().ok());  // the engine starts
  for (const bool fails : {false, true}) {
    if (fails) {
      const std::vector<std::byte> few(10);
      const part whole(few);
      ASSERT_TRUE(large->put("a/c/7", {&whole, 1}, {}).ok());
    }
    for (const bool is_ordered : {false, true}) {
      penstock_fake_cuda_configure(1, 1, 0);
      {
        auto made = read_to_device(from, basic_selection(), out);
        ASSERT_TRUE(made.ok()) << made.error().to_string();
        const auto queued = fails && is_ordered ? made->order(handle(make_stream())) : made->wait();
        ASSERT_EQ(queued.ok(), !fails);
        EXPECT_EQ(penstock_fake_cuda_pending(), !fails);
      }
      EXPECT_FALSE(penstock_fake_cuda_pending());
      const auto seen = peek(memory, values.values.size());
      EXPECT_TRUE(fails || std::memcmp(seen.data(), values.values.data(), seen.size()) == 0);
      penstock_fake_cuda_configure(1, 0, 0);
    }
  }
  ASSERT_EQ(driver.mem_free(memory), cuda::kSuccess);
}

TEST_F(DeviceRelease, AForkedProcessReportsThatItCannotUseTheDevice) {
  auto before = std::make_unique<device_tensor>(read());
  const pid_t child = ::fork();
  if (child == 0) {
    before.reset();
    const auto refused = read_to_device(*opened, basic_selection());
    const bool is_named = !refused.ok() && refused.error().code() == errc::unsupported &&
                          refused.error().to_string().find("forked") != std::string::npos;
    ::_exit(is_named ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(before->synchronize().ok());
}

}  // namespace
}  // namespace penstock::test
