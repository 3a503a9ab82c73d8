#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/driver.h"
#include "support/fake_cuda/fake_cuda.h"

namespace penstock::test {

/// Within this time an engine's completion thread has processed all completions, also on a busy machine.
inline constexpr std::chrono::seconds kCompletionTime{10};

/// Loads the fake driver in place of the machine's, for this process.
inline const cuda::driver& fake_driver_table() {
  setenv("PENSTOCK_CUDA_DRIVER", PENSTOCK_FAKE_CUDA, 1);
  auto loaded = cuda::load_driver();
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.error().to_string();
    std::abort();
  }
  return **loaded;
}

/// Calls of the driver without the completion thread's queries, whose number depends on time.
inline std::uint64_t calls_but_queries() {
  return penstock_fake_cuda_calls() - penstock_fake_cuda_count("cuEventQuery");
}

/// Device 0's context, current for the test.
class FakeDevice : public testing::Test {
 protected:
  void SetUp() override {
    // A worker may be about to release an earlier test's context. A lazy driver would run operations for any caller.
    for (int i = 0; i < 10000 && penstock_fake_cuda_retained() != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(penstock_fake_cuda_retained(), 0) << "an engine of an earlier test is still there";
    penstock_fake_cuda_configure(1, 0, 0);
    ASSERT_EQ(driver.primary_context_retain(&context, 0), cuda::kSuccess);
    ASSERT_EQ(driver.context_push(context), cuda::kSuccess);
    penstock_fake_cuda_reset_counts();
  }
  void TearDown() override {
    cuda::context_ref popped = nullptr;
    ASSERT_EQ(driver.context_pop(&popped), cuda::kSuccess);
    ASSERT_EQ(driver.primary_context_release(0), cuda::kSuccess);
    penstock_fake_cuda_configure(1, 0, 0);
  }

  cuda::stream_ref make_stream(unsigned flags = cuda::kStreamNonBlocking) {
    cuda::stream_ref made = nullptr;
    EXPECT_EQ(driver.stream_create(&made, flags), cuda::kSuccess);
    return made;
  }
  cuda::event_ref make_event() {
    cuda::event_ref made = nullptr;
    EXPECT_EQ(driver.event_create(&made, cuda::kEventDisableTiming), cuda::kSuccess);
    return made;
  }
  cuda::device_address allocate(std::size_t bytes) {
    cuda::device_address made = 0;
    EXPECT_EQ(driver.mem_alloc(&made, bytes), cuda::kSuccess);
    return made;
  }
  static std::vector<std::uint8_t> peek(cuda::device_address from, std::size_t bytes) {
    std::vector<std::uint8_t> out(bytes);
    EXPECT_TRUE(penstock_fake_cuda_peek(out.data(), from, bytes));
    return out;
  }

  const cuda::driver& driver = fake_driver_table();
  cuda::context_ref context = nullptr;
};

}  // namespace penstock::test
