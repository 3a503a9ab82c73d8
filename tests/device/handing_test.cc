// Data of device reads in other libraries and on the host: tensors through DLPack, and chunks that the device's scan
// refuses.

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include <penstock/penstock.h>
#include "chains.h"
#include "engine/blocking_read.h"
#include "fake_device.h"
#include "support/cases.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

class DeviceHanding : public FakeDevice {
 protected:
  static array open_in(const std::shared_ptr<store>& from, unsigned threads, std::uint64_t device_memory = 0,
                       std::shared_ptr<penstock::executor> runs = nullptr) {
    context_options options;
    options.threads = threads;
    options.device_memory_bytes = device_memory;
    options.executor = std::move(runs);
    open_options where;
    where.context = context::make(options).value();
    where.path = "a";
    return open_array(from, where).value();
  }
  static model_array write_image(store& to) {
    model_options options;
    options.shape = {64, 96};
    options.chunks = {16, 24};
    options.dtype = "float32";
    options.codecs = kZstd;
    return write_model(to, "a/", options);
  }
};

TEST_F(DeviceHanding, AnExportedTensorIsOrderedAndReturnedByItsDeleter) {
  const auto store = make_memory_store();
  const model_array model = write_image(*store);
  const array opened = open_in(store, 2);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    penstock_fake_cuda_configure(seed, 1, 0);
    const auto mine = make_stream();
    const auto kept = allocate(model.values.size());
    DLManagedTensorVersioned* handed = nullptr;
    cuda::device_address address = 0;
    {
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      EXPECT_EQ(made->to_dlpack(0).error().code(), errc::invalid_argument);
      auto exported = made->to_dlpack(reinterpret_cast<stream_handle>(mine));
      ASSERT_TRUE(exported.ok()) << exported.error().to_string();
      handed = *exported;
      address = reinterpret_cast<cuda::device_address>(made->view().data);
    }  // only the consumer holds it
    auto* const seen = reinterpret_cast<dlpack_managed_versioned*>(handed);
    EXPECT_EQ(seen->tensor.device.type, 2);
    EXPECT_EQ(seen->tensor.device.index, 0);
    EXPECT_EQ(seen->tensor.type.code, 2);
    EXPECT_EQ(seen->tensor.rank, 2);
    EXPECT_EQ(seen->tensor.shape[1], 96);
    EXPECT_EQ(seen->tensor.strides[0], 96);
    EXPECT_EQ(reinterpret_cast<cuda::device_address>(seen->tensor.data), address);
    auto other = read_to_device(opened, basic_selection());
    ASSERT_TRUE(other.ok());
    EXPECT_NE(reinterpret_cast<cuda::device_address>(other->view().data), address);
    ASSERT_EQ(driver.copy_on_device(kept, address, model.values.size(), mine), cuda::kSuccess);
    seen->deleter(seen);  // the copy has not begun
    auto again = read_to_device(opened, basic_selection());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(reinterpret_cast<cuda::device_address>(again->view().data), address);
    ASSERT_TRUE(again->synchronize().ok());
    ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
    EXPECT_EQ(std::memcmp(peek(kept, model.values.size()).data(), model.values.data(), model.values.size()), 0);
    ASSERT_EQ(driver.mem_free(kept), cuda::kSuccess);
    ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
  }
}

// The consumer's stream may be destroyed when its memory is returned, while work on it has not begun.
TEST_F(DeviceHanding, MemoryIsReturnedAfterTheConsumersStreamWasDestroyed) {
  const auto store = make_memory_store();
  const model_array model = write_image(*store);
  const array opened = open_in(store, 2);
  const auto kept = allocate(model.values.size());
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    penstock_fake_cuda_configure(seed, 1, 0);
    const auto mine = make_stream();
    cuda::device_address address = 0;
    {
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
      address = reinterpret_cast<cuda::device_address>(made->view().data);
      ASSERT_EQ(driver.copy_on_device(kept, address, model.values.size(), mine), cuda::kSuccess);
      ASSERT_EQ(driver.stream_destroy(mine), cuda::kSuccess);
    }
    basic_selection part;
    part.items = {slice{}, slice{std::nullopt, std::nullopt, -1}};
    auto again = read_to_device(opened, part);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(reinterpret_cast<cuda::device_address>(again->view().data), address);
    ASSERT_TRUE(again->synchronize().ok());
    EXPECT_EQ(std::memcmp(peek(kept, model.values.size()).data(), model.values.data(), model.values.size()), 0);
  }
  ASSERT_EQ(driver.mem_free(kept), cuda::kSuccess);
}

// A failure of a read that was exported and dropped is reported later. Its record does not refer to the context or the
// array.
TEST_F(DeviceHanding, AnUnreportedFailureHoldsNoContext) {
  model_options options;
  options.shape = {4, 4096};
  options.chunks = {1, 4096};
  options.dtype = "float32";
  options.codecs = kZstd;
  const auto store = make_memory_store();
  write_model(*store, "a/", options);
  std::weak_ptr<penstock::context> watched;
  for (const bool asks : {true, false}) {
    std::shared_ptr<penstock::context> ctx;
    const auto mine = make_stream();
    {
      const array opened = open_in(store, 2);
      ctx = opened.context();
      auto made = read_to_device(opened, basic_selection());
      ASSERT_TRUE(made.ok());
      ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
    }
    watched = ctx;
    if (asks) {
      EXPECT_TRUE(ctx->synchronize().ok());
    }
    ctx.reset();
    for (int i = 0; i < 5000 && !watched.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(watched.expired()) << asks;  // a worker may have been about to release it
    ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  }
}

// The engine forgets its completions when a call of the driver fails, but not the failures of reads that end later.
TEST_F(DeviceHanding, ABrokenEngineStillReportsEarlierFailures) {
  model_options options;
  options.shape = {8 * 2048};
  options.chunks = {2048};
  options.dtype = "float32";
  options.codecs = kZstd;
  const auto store = make_memory_store();
  write_model(*store, "a/", options);
  const auto old = read_and_wait(*store, "a/c/1", byte_range{}, 1 << 20).value();
  std::vector<std::byte> bytes(old.bytes.begin(), old.bytes.end());
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 30; ++i) bytes[i] ^= std::byte{0x5A};
  const part whole(bytes);
  ASSERT_TRUE(store->put("a/c/1", {&whole, 1}, {}).ok());
  const array opened = open_in(store, 2);
  const auto mine = make_stream();
  penstock_fake_cuda_configure(1, 1, 0);
  auto made = read_to_device(opened, basic_selection());
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  std::optional<device_tensor> exported(std::move(made).value());
  ASSERT_TRUE(exported->order(reinterpret_cast<stream_handle>(mine)).ok());
  penstock_fake_cuda_fail("cuMemcpyHtoDAsync", 0, cuda::kInvalidValue);
  auto next = read_to_device(opened, basic_selection());
  ASSERT_TRUE(next.ok()) << next.error().to_string();
  const auto failed = next->wait();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::io_error) << failed.error().to_string();
  exported.reset();
  const auto outcome = opened.context()->synchronize();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), errc::corrupt_data);
  EXPECT_NE(outcome.error().to_string().find("a/c/1"), std::string::npos) << outcome.error().to_string();
  penstock_fake_cuda_configure(1, 0, 0);
}

// A valid frame of raw blocks of one byte each: their tables are much longer than their content.
std::vector<std::byte> small_blocks(std::span<const std::byte> content) {
  std::vector<std::byte> out;
  const auto put = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  put(0xfd2fb528U, 4);
  put(0xa0, 1);
  put(static_cast<std::uint32_t>(content.size()), 4);
  for (std::size_t i = 0; i < content.size(); ++i) {
    put((i + 1 == content.size() ? 1U : 0U) | 1U << 3, 3);
    out.push_back(content[i]);
  }
  return out;
}

// In numcodecs' form: four bytes before the frame.
std::vector<std::byte> with_adler(std::span<const std::byte> content) {
  std::uint32_t a = 1, b = 0;
  for (const std::byte each : content) {
    a = (a + static_cast<std::uint32_t>(each)) % 65521;
    b = (b + a) % 65521;
  }
  std::vector<std::byte> out;
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>((b << 16 | a) >> (8 * i)));
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

/// Device memory that has no room for the tables of such a frame.
constexpr std::uint64_t kNarrow = 3 * 65536;

void expect_values(const array& opened, const model_array& model, const basic_selection& which,
                   const std::string& how) {
  auto made = read_to_device(opened, which);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const auto wanted = model.select(which);
  std::vector<std::byte> seen(wanted.size());
  const auto copied = made->copy_to_host(seen.data());
  ASSERT_TRUE(copied.ok()) << copied.error().to_string();
  ASSERT_EQ(std::memcmp(seen.data(), wanted.data(), wanted.size()), 0) << how;
}

class DeviceRefusal : public DeviceHanding, public testing::WithParamInterface<bool> {};

// With and without a stage that is left to the host in any case, which has then run already.
TEST_P(DeviceRefusal, RefusedChunksAreDecodedByTheHostsWorkers) {
  const bool host_stage = GetParam();
  model_options options;
  options.shape = {48, 4096};
  options.chunks = {1, 4096};
  options.dtype = "uint8";
  options.codecs = kZstd;
  if (host_stage) options.codecs.insert(options.codecs.size() - 1, R"(,{"name":"numcodecs.adler32"})");
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", options);
  for (std::size_t i = 0; i < 48; ++i) {
    if (i % 5 == 0) continue;  // some stay the device's
    const auto frame = small_blocks(std::span(model.values).subspan(i * 4096, 4096));
    const auto encoded = host_stage ? with_adler(frame) : frame;
    const part whole(encoded);
    ASSERT_TRUE(store->put("a/c/" + std::to_string(i) + "/0", {&whole, 1}, {}).ok());
  }
  for (const unsigned threads : {1U, 4U}) {
    const array opened = open_in(store, threads, kNarrow);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      penstock_fake_cuda_configure(seed, 0, seed == 4 ? 20 : 0);
      for (const std::int64_t step : {1, 3}) {
        basic_selection which;
        which.items = {slice{}, slice{{}, {}, step}};
        expect_values(opened, model, which, fmt::format("{} threads, seed {}, step {}", threads, seed, step));
      }
    }
  }
}

// Space for the last chunk may become free while the read is about to end, at any of its steps: if the device refuses
// the chunk then, the host decodes it before the end.
TEST_F(DeviceHanding, AChunkRefusedAtTheEndIsDecoded) {
  constexpr std::uint64_t kBytes = 8192;
  constexpr std::uint64_t kMostSteps = 40;
  for (std::uint64_t chunks = 8; chunks < 8 + cases(4); ++chunks) {
    model_options options;
    options.shape = {chunks * kBytes};
    options.chunks = {kBytes};
    options.dtype = "uint8";
    options.values = 256;
    options.codecs = kZstd;
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    const auto frame = small_blocks(std::span(model.values).last(kBytes));
    const part whole(frame);
    ASSERT_TRUE(store->put("a/c/" + std::to_string(chunks - 1), {&whole, 1}, {}).ok());
    for (std::uint64_t late = 1; late <= kMostSteps; ++late) {
      penstock_fake_cuda_configure(1, 1, 0);
      bool holds = true;
      const auto seeded = std::make_shared<deterministic_executor>(late);
      seeded->pending = [&] { return holds || penstock_fake_cuda_pending(); };
      seeded->deliver = [&](std::uint64_t) {
        if (!holds) penstock_fake_cuda_pump(1);
      };
      seeded->wakes_from_outside = kCompletionTime;
      seeded->between = [&](std::uint64_t step) {
        if (step != late) return;
        holds = false;
        penstock_fake_cuda_pump_at("cuCtxPushCurrent");
      };
      const array opened = open_in(store, 1, kNarrow, seeded);
      expect_values(opened, model, basic_selection(), fmt::format("{} chunks, step {}", chunks, late));
      ASSERT_FALSE(seeded->stuck());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, DeviceRefusal, testing::Bool());

}  // namespace
}  // namespace penstock::test
