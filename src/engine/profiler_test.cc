#include "engine/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace penstock {
namespace {

profile_event event_of(stage what, std::uint32_t worker, std::uint64_t begin, std::uint64_t end) {
  return {what, worker, 0, 0, begin, end, 1, 1};
}

TEST(Profiler, DividesTheTimeOfADevice) {
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

// As before, for two devices, in another order, and without space for events.
TEST(Profiler, SharesAreRightIfEventsAreDropped) {
  profiler recording(1);
  const auto on = [](std::int32_t device, stage what, std::uint32_t worker, std::uint64_t begin, std::uint64_t end) {
    profile_event out = event_of(what, worker, begin, end);
    out.device = device;
    return out;
  };
  recording.record(on(-1, stage::fetch, 0, 0, 40));
  recording.record(on(1, stage::decode, kDeviceWorker, 90, 100));
  recording.record(on(0, stage::decode, kDeviceWorker, 80, 100));
  recording.record(on(0, stage::transfer, kCopyWorker, 50, 70));
  recording.record(on(0, stage::scatter, kDeviceWorker, 60, 85));
  recording.record(on(-1, stage::fetch, 1, 55, 65));
  const profile_report report = recording.finish();
  EXPECT_EQ(report.dropped_events, 5U);
  ASSERT_EQ(report.wall_ns, 100U);
  EXPECT_EQ(report.device.ordinal, -1);
  EXPECT_EQ(report.device.computing_ns, 40U);
  EXPECT_EQ(report.device.copying_ns, 20U);
  EXPECT_EQ(report.device.waiting_ns, 50U);
  EXPECT_EQ(report.device.storage_ns, 40U);
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].ordinal, 0);
  EXPECT_EQ(report.devices[0].computing_ns, 40U);
  EXPECT_EQ(report.devices[0].waiting_ns, 50U);
  EXPECT_EQ(report.devices[1].ordinal, 1);
  EXPECT_EQ(report.devices[1].computing_ns, 10U);
  EXPECT_EQ(report.devices[1].copying_ns, 0U);
  EXPECT_EQ(report.devices[1].waiting_ns, 90U);
  EXPECT_EQ(report.devices[1].storage_ns, 50U);
}

TEST(CoveredTime, IsThatOfAllIntervalsInAnyOrder) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<bool> covered(200, false);
    covered_time sum;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t begin = random() % 190, end = begin + random() % 10;
      sum.add(begin, end);
      std::fill(covered.begin() + static_cast<std::ptrdiff_t>(begin),
                covered.begin() + static_cast<std::ptrdiff_t>(end), true);
    }
    EXPECT_EQ(sum.sum_ns(), static_cast<std::uint64_t>(std::count(covered.begin(), covered.end(), true)));
  }
}

TEST(CoveredTime, AddsUpTheEarlierHalfOfTooManyGaps) {
  covered_time sum(8);
  for (std::uint64_t i = 0; i < 100; ++i) sum.add(10 * i, 10 * i + 4);
  EXPECT_EQ(sum.sum_ns(), 400U);
  sum.add(0, 100);  // already summed
  EXPECT_EQ(sum.sum_ns(), 400U);
  sum.add(990, 1000);
  EXPECT_EQ(sum.sum_ns(), 406U);
}

TEST(Profiler, ReportsThatAnUnusedDeviceWaitsAllTheTime) {
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
  recording.record_kernel("lz", 2, 3);
  const profile_report report = recording.finish();
  ASSERT_EQ(report.kernels.size(), 2U);
  EXPECT_EQ(report.kernels[0].name, "lz");
  EXPECT_EQ(report.kernels[0].busy_ns, 7U);
  EXPECT_EQ(report.kernels[0].launches, 4U);
  EXPECT_EQ(report.kernels[1].name, "move");
}

}  // namespace
}  // namespace penstock
