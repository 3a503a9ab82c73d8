// Page-locked memory: blocks of any size next to each other, large ones after small ones, and no copy without it.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include <penstock/penstock.h>
#include "base/memory_node.h"
#include "cuda/page_locked_ring.h"
#include "fake_device.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class PageLocked : public FakeDevice {
 protected:
  // How often the driver copied from ordinary memory while `which` was read.
  std::uint64_t pageable_copies(const array& from, const model_array& model) {
    const auto target = allocate(model.values.size());
    tensor_view out = tensor_view::contiguous(reinterpret_cast<void*>(target), from.type(), model.options.shape);
    out.space = memory_space::cuda;
    const std::uint64_t before = penstock_fake_cuda_count("pageable copy");
    auto made = read_to_device(from, basic_selection(), out);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    if (!made.ok()) return 0;
    const auto done = made->synchronize();
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    const std::uint64_t copies = penstock_fake_cuda_count("pageable copy") - before;
    const auto seen = peek(target, model.values.size());
    EXPECT_EQ(std::memcmp(seen.data(), model.values.data(), seen.size()), 0);
    EXPECT_EQ(driver.mem_free(target), cuda::kSuccess);
    return copies;
  }
  static array open_in(const std::shared_ptr<store>& from, std::uint64_t page_locked,
                       std::shared_ptr<penstock::executor> runs = nullptr) {
    context_options options;
    options.threads = 4;
    options.page_locked_bytes = page_locked;
    options.executor = std::move(runs);
    open_options where;
    where.context = context::make(options).value();
    where.path = "a";
    return open_array(from, where).value();
  }
  static model_options chunks_of(std::uint64_t bytes, std::uint64_t count, const char* codec) {
    model_options out;
    out.shape = {bytes * count};
    out.chunks = {bytes};
    out.dtype = "uint8";
    out.values = 256;
    out.codecs = std::string(R"([{"name":"bytes"})") + codec + "]";
    return out;
  }
};

// As in a sandbox that ignores the driver's mappings.
TEST_F(PageLocked, MemoryThatTheSystemCannotWriteToIsReplaced) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_page_locked_" + std::to_string(::getpid()));
  const std::shared_ptr<store> files = open_file_store(folder.string());
  const model_array model = write_model(*files, "a/", chunks_of(64 << 10, 8, ""));
  penstock_fake_cuda_refuse_system_calls(1);
  penstock_fake_cuda_reset_counts();
  {
    const array opened = open_in(files, 0);
    EXPECT_EQ(pageable_copies(opened, model), 0U);
    EXPECT_GE(penstock_fake_cuda_count("cuMemHostRegister"), 1U);
  }
  for (int i = 0; i < 10000 && penstock_fake_cuda_retained() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(penstock_fake_cuda_count("cuMemHostUnregister"), penstock_fake_cuda_count("cuMemHostRegister"));
  EXPECT_EQ(penstock_fake_cuda_page_locked_bytes(), 0U);
  std::filesystem::remove_all(folder);
}

#ifdef __linux__
// Otherwise, pages that this process writes after a fork could be others than those that the device reads.
TEST_F(PageLocked, RegisteredMemoryIsNotInForkedProcesses) {
  penstock_fake_cuda_refuse_system_calls(1);
  cuda::page_locked_ring ring(driver, context, 8 * kMiB);
  std::byte* const block = ring.take(4096);
  ASSERT_NE(block, nullptr);
  ASSERT_GE(penstock_fake_cuda_count("cuMemHostRegister"), 1U);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* const begin = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block) / page * page);
  unsigned char seen = 0;
  ASSERT_EQ(::mincore(begin, page, &seen), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char there = 0;
    ::_exit(::mincore(begin, page, &there) == -1 && errno == ENOMEM ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ring.give(block);
}
#endif

// Most machines have one node, 0: a device near it differs from a device of which no node is known.
TEST_F(PageLocked, TheRingAllocatesOnTheDevicesNode) {
  constexpr const char* kNear = "page-locked near node 0";
  {
    const preferred_node near(0U);
    void* made = nullptr;
    ASSERT_EQ(driver.mem_host_alloc(&made, 1, cuda::kHostAllocPortable), cuda::kSuccess);
    ASSERT_EQ(driver.mem_free_host(made), cuda::kSuccess);
  }
  if (penstock_fake_cuda_count(kNear) == 0) GTEST_SKIP() << "the system lets no process choose a node";
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", chunks_of(64 << 10, 8, ""));
  for (const int node : {0, -1, 1023}) {  // the last one does not exist
    for (int i = 0; i < 10000 && penstock_fake_cuda_retained() > 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    penstock_fake_cuda_attribute(cuda::kAttributeHostNode, node, cuda::kSuccess);
    penstock_fake_cuda_reset_counts();
    EXPECT_EQ(pageable_copies(open_in(store, 8 * kMiB), model), 0U);
    EXPECT_EQ(penstock_fake_cuda_count(kNear), node == 0 ? 1U : 0U) << node;  // the ring's one segment
    EXPECT_GE(penstock_fake_cuda_count("cuMemHostAlloc"), 1U);
  }
}

TEST_F(PageLocked, IdleSegmentsAreReleasedForALargerBlock) {
  cuda::page_locked_ring ring(driver, context, 96 * kMiB);
  std::vector<std::byte*> blocks;
  while (std::byte* const each = ring.take(8 * kMiB)) blocks.push_back(each);
  ASSERT_EQ(blocks.size(), 12U);
  EXPECT_EQ(ring.held_bytes(), 96 * kMiB);
  EXPECT_EQ(ring.take(64 * kMiB), nullptr);
  for (int i = 0; i < 7; ++i) ring.give(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(ring.take(64 * kMiB), nullptr);  // one segment of three is idle
  ring.give(blocks[7]);
  std::byte* const large = ring.take(64 * kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_LE(ring.held_bytes(), 96 * kMiB);
  EXPECT_EQ(ring.used_bytes(), 96 * kMiB);
  for (int i = 8; i < 12; ++i) ring.give(blocks[static_cast<std::size_t>(i)]);
  ring.give(large);
  EXPECT_EQ(ring.used_bytes(), 0U);
  EXPECT_FALSE(ring.can_hold(96 * kMiB + 1));
  std::byte* const all = ring.take(96 * kMiB);
  ASSERT_NE(all, nullptr);
  ring.give(all);
}

TEST_F(PageLocked, ABlockReturnsUnneededBytes) {
  cuda::page_locked_ring ring(driver, context, 1024);
  std::byte* const first = ring.take(1024);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(ring.take(1), nullptr);
  ring.shrink(first, 257);
  EXPECT_EQ(ring.used_bytes(), 512U);
  std::byte* const second = ring.take(512);
  EXPECT_EQ(second, first + 512);
  ring.shrink(first, 400);  // nothing of that remains
  EXPECT_EQ(ring.used_bytes(), 1024U);
  ring.give(second);
  ring.give(first);
  EXPECT_EQ(ring.take(1024), first);
  ring.give(first);
}

TEST_F(PageLocked, DoesNotWaitForMemoryThatDoesNotExist) {
  cuda::page_locked_ring ring(driver, context, 64 * kMiB);
  constexpr int kOutOfMemory = 2;
  penstock_fake_cuda_fail("cuMemHostAlloc", 0, kOutOfMemory);
  EXPECT_EQ(ring.take(48 * kMiB), nullptr);
  EXPECT_FALSE(ring.can_hold(48 * kMiB));
  std::byte* const less = ring.take(24 * kMiB);
  EXPECT_NE(less, nullptr);
  ring.give(less);
}

// Four workers and space for two chunks: two of them wait.
TEST_F(PageLocked, LongChunksWaitForSpace) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_page_locked_" + std::to_string(::getpid()));
  for (const char* const codec : {"", R"(,{"name":"zstd","configuration":{"level":1,"checksum":false}})",
                                  R"(,{"name":"numcodecs.bz2","configuration":{"level":1}})"}) {
    for (const bool lends : {false, true}) {
      std::filesystem::remove_all(folder);
      const std::shared_ptr<store> store = lends ? make_memory_store() : open_file_store(folder.string());
      const std::uint64_t bytes = std::strstr(codec, "bz2") != nullptr ? kMiB / 4 : 5 * kMiB;
      const model_array model = write_model(*store, "a/", chunks_of(bytes, 8, codec));
      penstock_fake_cuda_configure(1, 0, 200);
      const array opened = open_in(store, bytes * 12 / 5);
      EXPECT_EQ(pageable_copies(opened, model), 0U) << codec << lends;
      EXPECT_EQ(pageable_copies(opened, model), 0U) << codec << lends;
      // A chunk that is longer than all of this memory takes another path, and is read.
      EXPECT_NE(pageable_copies(open_in(store, bytes / 2), model), 0U) << codec << lends;
    }
  }
  std::filesystem::remove_all(folder);
}

// A device that reads ordinary memory may do so after the call that queues the copy: the memory is not used again
// before.
TEST_F(PageLocked, OrdinaryMemoryIsReadBeforeItIsUsedAgain) {
  constexpr std::uint64_t kChunk = 64 << 10;
  for (const char* const codec : {"", R"(,{"name":"zstd","configuration":{"level":1,"checksum":false}})"}) {
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", chunks_of(kChunk, 16, codec));
    penstock_fake_cuda_configure(1, 0, 500);
    penstock_fake_cuda_attribute(cuda::kAttributePageableAccess, 1, cuda::kSuccess);
    EXPECT_NE(pageable_copies(open_in(store, 1024), model), 0U) << codec;
  }
}

// A driver call may wait for queued work: memory that is freed while it waits wakes the job, which needs the job's
// lock.
TEST_F(PageLocked, ARequestForMoreMemoryHoldsNoCompletionLock) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", chunks_of(kMiB, 40, ""));
  penstock_fake_cuda_configure(1, 1, 0);
  penstock_fake_cuda_pump_at("cuMemHostAlloc");  // by the second segment the first has been reported
  const auto seeded = std::make_shared<deterministic_executor>(1);
  seeded->wakes_from_outside = kCompletionTime;
  const array opened = open_in(store, 48 * kMiB, seeded);
  EXPECT_EQ(pageable_copies(opened, model), 0U);
  EXPECT_FALSE(seeded->stuck());
}

TEST_F(PageLocked, LongChunksFollowShortOnes) {
  const auto store = make_memory_store();
  const model_array shorts = write_model(*store, "a/", chunks_of(kMiB, 48, ""));
  const array opened = open_in(store, 64 * kMiB);
  EXPECT_EQ(pageable_copies(opened, shorts), 0U);
  const model_array longs = write_model(*store, "b/", chunks_of(40 * kMiB, 2, ""));
  open_options where;
  where.context = opened.context();
  where.path = "b";
  EXPECT_EQ(pageable_copies(open_array(store, where).value(), longs), 0U);
  EXPECT_LE(opened.context()->usage().page_locked_bytes, 64 * kMiB + kMiB);
}

}  // namespace
}  // namespace penstock::test
