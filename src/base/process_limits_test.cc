#include "base/process_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class ProcessLimits : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("penstock-limits-" + std::to_string(::getpid()));
    fs::create_directory(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void own(const char* text) const { write("proc/self/cgroup", text); }
  void group(const std::string& file, const char* text) const { write("sys/fs/cgroup/" + file, text); }
  process_limits found() const { return find_process_limits(root_.string()); }

 private:
  void write(const std::string& name, const char* text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  fs::path root_;
};

TEST_F(ProcessLimits, AreTheMachinesWithoutGroups) {
  const process_limits limits = found();
  EXPECT_FALSE(limits.cgroup_memory);
  EXPECT_FALSE(limits.cgroup_processors);
  EXPECT_EQ(limits.memory(), limits.machine_memory);
  EXPECT_GE(limits.machine_memory, kGiB / 4);
  EXPECT_GE(limits.processors(), 1U);
  EXPECT_LE(limits.allowed_processors, limits.machine_processors);
}

TEST_F(ProcessLimits, OfVersion2AreTheLowestOfAllGroupsAbove) {
  own("0::/slice/job/step\n");
  group("slice/job/step/memory.max", "max\n");
  group("slice/job/memory.max", "2147483648\n");
  group("slice/memory.max", "1073741824\n");
  group("slice/job/step/cpu.max", "max 100000\n");
  group("slice/job/cpu.max", "150000 100000\n");
  group("slice/cpu.max", "400000 100000\n");
  const process_limits limits = found();
  EXPECT_EQ(limits.cgroup_memory, kGiB);
  EXPECT_EQ(limits.memory(), std::min(kGiB, limits.machine_memory));
  EXPECT_EQ(limits.cgroup_processors, 1.5);
}

TEST_F(ProcessLimits, OfVersion1AreThoseOfTheirControllers) {
  own("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n3:cpuset:/docker/abc\n");
  group("memory/docker/abc/memory.limit_in_bytes", "536870912\n");
  group("memory/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  group("cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  group("cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  group("cpu/cpu.cfs_quota_us", "-1\n");
  group("cpu/cpu.cfs_period_us", "100000\n");
  const process_limits limits = found();
  EXPECT_EQ(limits.cgroup_memory, kGiB / 2);
  EXPECT_EQ(limits.cgroup_processors, 0.5);
  EXPECT_EQ(limits.processors(), 1U);
}

TEST_F(ProcessLimits, OfAContainerThatSeesThePathOutsideAreAtTheRoot) {
  own("0::/system.slice/docker-123.scope\n");
  group("memory.max", "1073741824");
  group("cpu.max", "300000 200000");
  const process_limits limits = found();
  EXPECT_EQ(limits.cgroup_memory, kGiB);
  EXPECT_EQ(limits.cgroup_processors, 1.5);
}

TEST_F(ProcessLimits, IgnoreWhatIsNotANumber) {
  own("nonsense\n0::/a\n\n:::\n");
  group("a/memory.max", "-5\n");
  group("memory.max", "99999999999999999999999\n");
  group("a/cpu.max", "5\n");
  group("cpu.max", "1 0\n");
  const process_limits limits = found();
  EXPECT_FALSE(limits.cgroup_memory);
  EXPECT_FALSE(limits.cgroup_processors);
}

TEST(ProcessLimitsOfNow, ProcessorsAreRoundedUpAndWithinThoseAllowed) {
  process_limits limits;
  limits.machine_processors = 64;
  limits.allowed_processors = 8;
  EXPECT_EQ(limits.processors(), 8U);
  limits.cgroup_processors = 2.5;
  EXPECT_EQ(limits.processors(), 3U);
  limits.cgroup_processors = 0.1;
  EXPECT_EQ(limits.processors(), 1U);
  limits.cgroup_processors = 100;
  EXPECT_EQ(limits.processors(), 8U);
}

#ifdef __linux__
TEST(ProcessLimitsOfNow, FollowTheAffinityOfTheThread) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(find_process_limits().allowed_processors, static_cast<unsigned>(CPU_COUNT(&before)));
  unsigned alone = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) alone = find_process_limits().processors();
  }).join();
  EXPECT_EQ(alone, 1U);
}
#endif

}  // namespace
}  // namespace penstock::inline v0
