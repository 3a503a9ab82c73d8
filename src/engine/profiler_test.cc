#include "engine/profiler.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

profile_event event_of(stage what, std::uint32_t worker, std::uint64_t begin, std::uint64_t end) {
  return {what, worker, 0, 0, begin, end, 1, 1};
}

TEST(Profiler, SharesOutTheTimeOfADevice) {
  profiler recording(100);
  recording.record(event_of(stage::fetch, 0, 0, 100));                // the device waits for [0, 60)
  recording.record(event_of(stage::transfer, kCopyWorker, 60, 110));  // copies overlap each other and kernels
  recording.record(event_of(stage::transfer, kCopyWorker, 100, 120));
  recording.record(event_of(stage::decode, kDeviceWorker, 80, 150));
  recording.record(event_of(stage::scatter, kDeviceWorker + 1, 140, 160));
  recording.record(event_of(stage::decode, 0, 160, 190));  // the host's decoding leaves the device idle
  recording.record(event_of(stage::index, 1, 170, 175));
  recording.record(event_of(stage::compute, kComputeWorker, 190, 200));
  const profile_report report = recording.finish();
  ASSERT_EQ(report.wall_ns, 200U);
  EXPECT_EQ(report.device.computing_ns, 80U + 10U);
  EXPECT_EQ(report.device.copying_ns, 60U);
  EXPECT_EQ(report.device.waiting_ns, 60U + 30U);
  EXPECT_EQ(report.device.storage_ns, 60U + 5U);
}

TEST(Profiler, SaysThatAnUnusedDeviceWaitsAllTheTime) {
  profiler recording(100);
  recording.record(event_of(stage::fetch, 0, 0, 10));
  recording.record(event_of(stage::decode, 0, 10, 30));
  const profile_report report = recording.finish();
  EXPECT_EQ(report.device.computing_ns, 0U);
  EXPECT_EQ(report.device.waiting_ns, 30U);
  EXPECT_EQ(report.device.storage_ns, 10U);
}

TEST(Profiler, SumsKernelsByName) {
  profiler recording(100);
  recording.record_kernel("lz", 5);
  recording.record_kernel("move", 7);
  recording.record_kernel("lz", 2);
  const profile_report report = recording.finish();
  ASSERT_EQ(report.kernels.size(), 2U);
  EXPECT_EQ(report.kernels[0].name, "lz");
  EXPECT_EQ(report.kernels[0].busy_ns, 7U);
  EXPECT_EQ(report.kernels[0].launches, 2U);
  EXPECT_EQ(report.kernels[1].name, "move");
}

}  // namespace
}  // namespace penstock
