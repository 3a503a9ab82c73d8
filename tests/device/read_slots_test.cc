// The memory of reads' records of failures.

#include <utility>

#include "cuda/read_slots.h"
#include "fake_device.h"

namespace penstock::test {
namespace {

class DeviceReadSlots : public FakeDevice {};

TEST_F(DeviceReadSlots, AreFreedWhicheverCallOfTheDriverFailed) {
  const auto stream = make_stream();
  const std::uint64_t device_bytes = penstock_fake_cuda_live_bytes();
  const std::uint64_t host_bytes = penstock_fake_cuda_page_locked_bytes();
  cuda::read_slots slots(driver);
  for (const auto& [call, after] : {std::pair{"cuMemAlloc", 0U}, std::pair{"cuMemHostAlloc", 0U},
                                    std::pair{"cuMemcpyHtoDAsync", 0U}, std::pair{"cuEventCreate", 5U}}) {
    penstock_fake_cuda_fail(call, after, cuda::kOutOfMemory);
    const auto taken = slots.take(stream);
    ASSERT_FALSE(taken.ok()) << call;
    EXPECT_EQ(taken.error().code(), errc::resource_exhausted) << call;
  }
  for (int i = 0; i < 5 + 1; ++i) ASSERT_TRUE(slots.take(stream).ok()) << "the five that were made, and a new one";
  slots.clear();
  EXPECT_EQ(penstock_fake_cuda_live_bytes(), device_bytes);
  EXPECT_EQ(penstock_fake_cuda_page_locked_bytes(), host_bytes);
}

}  // namespace
}  // namespace penstock::test
