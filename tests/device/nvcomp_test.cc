// nvCOMP as the decoder, through a stand-in with its functions: reads equal the model, the library's status of a stream
// becomes the user's error, and our own decoders handle what it does not support.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/penstock.h>
#include "cuda/decode/nvcomp.h"
#include "cuda/decode/wave.h"
#include "fake_device.h"
#include "model_reads.h"
#include "support/fake_nvcomp/fake_nvcomp.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr const char* kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";

std::string chain(const std::string& codec) { return std::string("[") + kBytes + "," + codec + "]"; }

std::string zstd(bool checksum) {
  return chain(std::string(R"({"name":"zstd","configuration":{"level":1,"checksum":)") + (checksum ? "true" : "false") +
               "}}");
}

std::string blosc(const char* compressor) {
  return chain(std::string(R"({"name":"blosc","configuration":{"cname":")") + compressor +
               R"(","clevel":9,"shuffle":"bitshuffle","typesize":1,"blocksize":0}})");
}

class Nvcomp : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    setenv("PENSTOCK_NVCOMP", PENSTOCK_FAKE_NVCOMP, 1);
  }
  void TearDown() override {
    penstock_fake_nvcomp_say(0);
    penstock_fake_nvcomp_fail(0);
    penstock_fake_nvcomp_workspace(24);
    penstock_fake_cuda_engine(0, 0);
    unsetenv("PENSTOCK_NVCOMP");
    EXPECT_EQ(penstock_fake_cuda_count("legacy stream"), 0U);
    FakeDevice::TearDown();
  }

  static std::shared_ptr<penstock::context> context_with(const char* decoder, std::uint64_t device_memory = 0) {
    context_options options;
    options.threads = 2;
    options.device_decoder = decoder;
    options.device_memory_bytes = device_memory;
    auto made = penstock::context::make(options);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return std::move(made).value();
  }
  static result<std::vector<std::byte>> read(const array& from) {
    PENSTOCK_ASSIGN(auto made, read_to_device(from, basic_selection()));
    std::uint64_t bytes = from.type().item_bytes();
    for (const std::uint64_t each : made.view().extents) bytes *= each;
    std::vector<std::byte> out(bytes);
    PENSTOCK_TRY(made.copy_to_host(out.data()));
    PENSTOCK_TRY(made.synchronize());
    return out;
  }
  static model_options small(std::string codecs) {
    model_options options;
    options.shape = {64, 96};
    options.chunks = {16, 24};
    options.shards = extents{32, 96};
    options.dtype = "int32";
    options.codecs = std::move(codecs);
    return options;
  }
};

TEST_F(Nvcomp, DecodesEveryCodecToTheModelsValues) {
  const auto with = context_with("nvcomp");
  EXPECT_EQ(with->device_decoder(), "nvcomp 6.0.0");
  EXPECT_EQ(context_with("")->device_decoder(), "penstock");
  const std::pair<std::string, const char*> cases[] = {
      {zstd(false), "zstd"},
      {chain(R"({"name":"numcodecs.lz4","configuration":{"acceleration":1}})"), "lz4"},
      {chain(R"({"name":"numcodecs.zlib","configuration":{"level":6}})"), "deflate"},
      {chain(R"({"name":"gzip","configuration":{"level":6}})"), "gzip"},
      {blosc("zstd"), "zstd"},
      {blosc("lz4"), "lz4"},
      {blosc("zlib"), "deflate"},
      {chain(R"({"name":"zstd","configuration":{"level":1,"checksum":false}},{"name":"crc32c"})"), "zstd"},
  };
  for (const auto& [codecs, codec] : cases) {
    const auto store = make_memory_store();
    model_options options = small(codecs);
    // Blosc leaves chunks unchanged that it cannot make smaller.
    if (codecs.find("blosc") != std::string::npos) {
      options.dtype = "bool";
      options.chunks = options.shape = {256, 256};
      options.shards.reset();
    }
    const model_array model = write_model(*store, "a/", options);
    const std::uint64_t before = penstock_fake_nvcomp_streams(codec);
    for (const std::uint64_t seed : {1, 2}) {
      penstock_fake_cuda_configure(seed, 0, seed == 1 ? 0 : 30);
      auto made = read(open_in(store, with));
      ASSERT_TRUE(made.ok()) << codecs << made.error().to_string();
      EXPECT_EQ(*made, model.values) << codecs;
    }
    // 16 chunks, or one of Blosc's, twice.
    EXPECT_GE(penstock_fake_nvcomp_streams(codec) - before, options.shards ? 32U : 2U) << codecs;
  }
}

std::atomic<bool> reading_headers{false}, may_go_on{true};

// A read whose headers take long does not delay other reads of the device.
TEST_F(Nvcomp, HeadersAreReadWithoutTheEnginesLock) {
  const auto with = context_with("nvcomp");
  const auto store = make_memory_store();
  model_options one_chunk = small(zstd(false));
  one_chunk.chunks = one_chunk.shape = {64, 64};
  one_chunk.shards.reset();
  const model_array slow = write_model(*store, "a/", one_chunk);
  // Chunks that are copied straight to their place, so that the two reads share no wave.
  model_options rows = small(std::string("[") + kBytes + "]");
  rows.chunks = {16, 96};
  rows.shards.reset();
  const auto other_store = make_memory_store();
  const model_array other = write_model(*other_store, "a/", rows);
  ASSERT_TRUE(read(open_in(other_store, with)).ok());  // objects that are created once exist
  penstock_fake_cuda_reset_counts();
  may_go_on = false;
  penstock_fake_nvcomp_on_workspace([] {
    reading_headers = true;
    while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  result<std::vector<std::byte>> slow_values = error(errc::internal, "not read");
  std::thread reader([&] { slow_values = read(open_in(store, with)); });
  while (!reading_headers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(penstock_fake_cuda_count("cuMemcpyHtoDAsync"), 1U) << "the copy is queued before headers are read";
  EXPECT_EQ(penstock_fake_cuda_count("kernel"), 0U);
  auto reading = std::async(std::launch::async, [&] { return read(open_in(other_store, with)); });
  const bool is_free = reading.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  may_go_on = true;
  reader.join();
  penstock_fake_nvcomp_on_workspace(nullptr);
  EXPECT_TRUE(is_free) << "the other read waited for the headers";
  const auto other_values = reading.get();
  ASSERT_TRUE(other_values.ok()) << other_values.error().to_string();
  EXPECT_EQ(*other_values, other.values);
  ASSERT_TRUE(slow_values.ok()) << slow_values.error().to_string();
  EXPECT_EQ(*slow_values, slow.values);
}

// Streams that the device's decompression engine accepts are passed to it in a separate call: formats that the device
// and the library both support, and streams that are short enough.
TEST_F(Nvcomp, TheDecompressionEngineDecodesItsFormats) {
  constexpr int kAll = cuda::kDecompressDeflate | cuda::kDecompressSnappy | cuda::kDecompressLz4;
  const std::string lz4 = chain(R"({"name":"numcodecs.lz4","configuration":{"acceleration":1}})");
  const std::string zlib = chain(R"({"name":"numcodecs.zlib","configuration":{"level":6}})");
  const std::string gzip = chain(R"({"name":"gzip","configuration":{"level":6}})");
  struct one {
    int formats, most_bytes;
    std::string codecs;
    std::uint64_t by_engine;  // of 16 chunks of 1536 bytes
  };
  for (const one& each : {one{kAll, 1 << 22, lz4, 16}, one{kAll, 1 << 22, zlib, 16}, one{kAll, 1 << 22, gzip, 16},
                          one{kAll, 1 << 22, zstd(false), 0}, one{cuda::kDecompressLz4, 1 << 22, lz4, 16},
                          one{cuda::kDecompressLz4, 1 << 22, zlib, 0}, one{kAll, 1535, lz4, 0}, one{0, 1 << 22, lz4, 0},
                          one{kAll, 0, lz4, 0}}) {
    penstock_fake_cuda_engine(each.formats, each.most_bytes);
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", small(each.codecs));
    const std::uint64_t before = penstock_fake_nvcomp_engine_streams(), all = penstock_fake_nvcomp_streams(nullptr);
    auto made = read(open_in(store, context_with("nvcomp")));
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(*made, model.values) << each.codecs;
    EXPECT_EQ(penstock_fake_nvcomp_engine_streams() - before, each.by_engine) << each.codecs << each.formats;
    EXPECT_EQ(penstock_fake_nvcomp_streams(nullptr) - all, 16U) << each.codecs;
  }
}

TEST_F(Nvcomp, AStreamTooLongForTheEngineExcludesNoOther) {
  auto library = device::nvcomp::open();
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  const device::device_step step{device::step_kind::lz4_block};
  device::library_use use{library->get()};
  use.engine_bytes[static_cast<std::size_t>(device::nvcomp_codec::lz4)] = 1000;
  auto wave = device::decode_wave::make({&step, 1}, true, use);
  ASSERT_TRUE(wave.ok());
  const std::vector<std::byte> encoded(2000);
  const std::span<const std::byte> all(encoded);
  // At most 1000 bytes, decoded or encoded.
  const std::pair<std::size_t, std::uint64_t> sizes[] = {{100, 1000}, {100, 1001}, {1000, 10}, {1001, 10}, {5, 5}};
  for (const auto& [source_bytes, target_bytes] : sizes)
    ASSERT_TRUE(wave->add({all.first(source_bytes), 0x10000, 0x20000, target_bytes}).ok());
  std::vector<std::byte> descriptors(wave->descriptor_bytes());
  std::vector<device::kernel_launch> launches;
  wave->emit(descriptors, 0x100000, 0x200000, 0x300000, launches);
  std::vector<std::pair<device::nvcomp_backend, std::uint32_t>> calls;
  for (const device::kernel_launch& each : launches) {
    if (each.kernel != device::kernel_id::nvcomp) continue;
    device::nvcomp_call call;
    std::memcpy(&call, each.argument.data(), sizeof call);
    calls.emplace_back(call.backend, call.count);
  }
  using enum device::nvcomp_backend;
  EXPECT_EQ(calls, (decltype(calls){{kernels, 2}, {engine_or_kernels, 3}}));
}

// Made by hand, because not every c-blosc has Snappy.
TEST_F(Nvcomp, DecodesSnappyInsideBlosc) {
  const auto store = make_memory_store();
  model_options options;
  options.shape = options.chunks = {8};
  options.dtype = "uint8";
  options.codecs = blosc("lz4");
  write_model(*store, "a/", options);
  // Blosc 2, Snappy, whole blocks; one block of 8 bytes in a split of 5: a literal, and 7 bytes from 1 before.
  std::vector<std::byte> frame;
  for (const int each :
       {2, 1, 0x50, 1, 8, 0, 0, 0, 8, 0, 0, 0, 29, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0x61, 0x0d, 1})
    frame.push_back(static_cast<std::byte>(each));
  const part whole(frame);
  ASSERT_TRUE(store->put("a/c/0", {&whole, 1}, {}).ok());
  const std::uint64_t before = penstock_fake_nvcomp_streams("snappy");
  auto made = read(open_in(store, context_with("nvcomp")));
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(*made, std::vector<std::byte>(8, std::byte{'a'}));
  EXPECT_EQ(penstock_fake_nvcomp_streams("snappy"), before + 1);
}

TEST_F(Nvcomp, OurDecodersHandleUnsupportedStreams) {
  const auto with = context_with("nvcomp");
  for (const std::string& codecs : {zstd(true), blosc("blosclz"), std::string("[") + kBytes + "]"}) {
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", small(codecs));
    const std::uint64_t before = penstock_fake_nvcomp_calls();
    auto made = read(open_in(store, with));
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(*made, model.values) << codecs;
    EXPECT_EQ(penstock_fake_nvcomp_calls(), before) << codecs;
  }
}

TEST_F(Nvcomp, ReadsRandomArraysOfAllLayouts) {
  const auto roomy = context_with("nvcomp"), narrow = context_with("nvcomp", 3 * 65536);
  std::mt19937_64 random(11);
  const std::string chains[] = {zstd(false), blosc("lz4"), chain(R"({"name":"gzip","configuration":{"level":1}})")};
  for (int round = 0; round < 12; ++round) {
    penstock_fake_cuda_configure(random(), 0, round % 3 == 0 ? 20 : 0);
    model_options options = random_model(random);
    if (options.dtype != "bool") options.codecs = chains[round % 3];
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    for (const auto& ctx : {roomy, narrow}) {
      auto made = read(open_in(store, ctx));
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      ASSERT_EQ(*made, model.values) << options.codecs << " seed " << options.seed;
    }
  }
}

TEST_F(Nvcomp, CallsShareAWorkspaceOfLimitedSize) {
  auto library = device::nvcomp::open();
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  constexpr std::uint64_t kGigabyte = std::uint64_t{1} << 30;
  penstock_fake_nvcomp_workspace(8 * kGigabyte / 1000);  // close to a gigabyte for each stream
  const device::device_step step{device::step_kind::lz4_block};
  auto wave = device::decode_wave::make({&step, 1}, true, {library->get()});
  ASSERT_TRUE(wave.ok());
  const std::vector<std::byte> encoded(100);
  for (std::uint64_t i = 0; i < 10; ++i)
    ASSERT_TRUE(wave->add({encoded, 0x10000 + 100 * i, 0x20000 + 1000 * i, 1000}).ok());
  const std::uint64_t workspace = wave->workspace_bytes();
  EXPECT_LE(workspace, 4 * kGigabyte + 1024);
  EXPECT_GE(workspace, 2 * kGigabyte);
  std::vector<std::byte> descriptors(wave->descriptor_bytes());
  std::vector<device::kernel_launch> launches;
  wave->emit(descriptors, 0x100000, 0x200000, 0x300000, launches);
  std::uint64_t streams = 0, calls = 0;
  for (const device::kernel_launch& each : launches) {
    if (each.kernel != device::kernel_id::nvcomp) continue;
    device::nvcomp_call call;
    std::memcpy(&call, each.argument.data(), sizeof call);
    // A call's tables begin where the one before ended.
    std::uint64_t source = 0;
    std::memcpy(&source, descriptors.data() + (call.sources - 0x100000), sizeof source);
    EXPECT_EQ(source, 0x10000 + 100 * streams);
    EXPECT_LE(call.workspace + call.workspace_bytes, 0x200000 + workspace);
    streams += call.count;
    ++calls;
  }
  EXPECT_EQ(streams, 10U);
  EXPECT_EQ(calls, 4U);  // of three streams at most
  EXPECT_EQ(launches.back().kernel, device::kernel_id::library_check);
  EXPECT_EQ(launches.back().grid, 10U);
}

TEST_F(Nvcomp, OurDecodersReportInvalidStreams) {
  auto library = device::nvcomp::open();
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  using device::step_kind;
  const auto given = [&](step_kind kind, const std::vector<std::byte>& encoded, std::uint64_t decoded_bytes) {
    const device::device_step step{kind};
    auto wave = device::decode_wave::make({&step, 1}, true, {library->get()});
    EXPECT_TRUE(wave.ok());
    if (!wave->add({encoded, 0x10000, 0x20000, decoded_bytes}).ok()) return false;
    std::vector<std::byte> descriptors(wave->descriptor_bytes());
    std::vector<device::kernel_launch> launches;
    wave->emit(descriptors, 0x100000, 0x200000, 0x300000, launches);
    return std::any_of(launches.begin(), launches.end(),
                       [](const auto& each) { return each.kernel == device::kernel_id::nvcomp; });
  };
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> out;
    for (const int each : values) out.push_back(static_cast<std::byte>(each));
    return out;
  };
  // A valid frame of one raw block of five bytes, then frames and sizes that differ from it in one detail.
  const auto frame = bytes({0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x29, 0, 0, 'a', 'b', 'c', 'd', 'e'});
  EXPECT_TRUE(given(step_kind::zstd, frame, 5));
  EXPECT_FALSE(given(step_kind::zstd, bytes({0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 1, 0, 0}), 5));  // no block of content
  EXPECT_FALSE(given(step_kind::zstd, frame, 6));
  auto doubled = frame;
  doubled.insert(doubled.end(), frame.begin(), frame.end());
  EXPECT_FALSE(given(step_kind::zstd, doubled, 10));
  auto skipped = bytes({0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0});
  skipped.insert(skipped.end(), frame.begin(), frame.end());
  EXPECT_FALSE(given(step_kind::zstd, skipped, 5));
  EXPECT_FALSE(given(step_kind::zlib, bytes({0x78, 0x9c, 3, 0, 0, 0}), 5));
  EXPECT_FALSE(given(step_kind::zlib, bytes({0x78, 0x9d, 3, 0, 0, 0, 0, 1}), 5));  // no header of zlib
  EXPECT_FALSE(given(step_kind::gzip, std::vector<std::byte>(17), 5));
  EXPECT_FALSE(given(step_kind::gzip, std::vector<std::byte>(18), 5));  // its size field is 0
  EXPECT_FALSE(given(step_kind::lz4_block, {}, 5));
  EXPECT_FALSE(given(step_kind::lz4_block, bytes({0}), 0));
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    auto damaged = frame;
    for (int k = 0; k < 2; ++k) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    damaged.resize(1 + random() % damaged.size());
    given(step_kind::zstd, damaged, random() % 8);
  }
}

struct spoken {
  int status;
  errc code;
  const char* sentence;
};

TEST_F(Nvcomp, ItsStatusOfAStreamIsTheChunksError) {
  const auto store = make_memory_store();
  write_model(*store, "a/", small(zstd(false)));
  for (const spoken& each :
       {spoken{12, errc::corrupt_data, "the stream is damaged"},
        spoken{13, errc::corrupt_data, "the checksum does not match the content"},
        spoken{15, errc::corrupt_data, "its decoded size differs from that of the chunk"},
        spoken{11, errc::io_error, "nvCOMP failed to decode"}, spoken{1000, errc::io_error, "nvCOMP failed to decode"},
        spoken{-1, errc::io_error, "nvCOMP failed to decode"}}) {
    penstock_fake_nvcomp_say(each.status);
    auto made = read(open_in(store, context_with("nvcomp")));
    ASSERT_FALSE(made.ok()) << each.status;
    EXPECT_EQ(made.error().code(), each.code) << each.status;
    const std::string text = made.error().to_string();
    EXPECT_NE(text.find(each.sentence), std::string::npos) << text;
    EXPECT_NE(text.find("on the device"), std::string::npos) << text;
  }
}

TEST_F(Nvcomp, ChecksumsOfStreamsAreVerifiedAfterIt) {
  const char* const kZlib = R"({"name":"numcodecs.zlib","configuration":{"level":6}})";
  const auto with = context_with("nvcomp");
  model_options options = small(chain(kZlib));
  options.shards.reset();
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_nvcomp_" + std::to_string(::getpid()));
  const std::shared_ptr<store> store = open_file_store(folder.string());
  write_model(*store, "a/", options);
  ASSERT_TRUE(read(open_in(store, with)).ok());
  {
    std::fstream chunk(folder / "a/c/1/2", std::ios::in | std::ios::out | std::ios::binary);
    chunk.seekg(-1, std::ios::end);
    const int last = chunk.get();  // of the Adler-32
    chunk.seekp(-1, std::ios::end);
    chunk.put(static_cast<char>(last ^ 1));
  }
  auto made = read(open_in(store, with));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().to_string().find("the checksum does not match the content"), std::string::npos)
      << made.error().to_string();
  EXPECT_NE(made.error().to_string().find("c/1/2"), std::string::npos) << made.error().to_string();
  std::filesystem::remove_all(folder);
}

TEST_F(Nvcomp, AFailedCallFailsTheReadAndTheContext) {
  const auto store = make_memory_store();
  const model_array model = write_model(*store, "a/", small(zstd(false)));
  const auto with = context_with("nvcomp");
  penstock_fake_nvcomp_fail(1000);
  auto made = read(open_in(store, with));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().to_string().find("nvcompBatchedZstdDecompressAsync: status 1000"), std::string::npos)
      << made.error().to_string();
  penstock_fake_nvcomp_fail(0);
  EXPECT_FALSE(read(open_in(store, with)).ok());  // the state of the device is unknown: a new context has a new engine
  auto again = read(open_in(store, context_with("nvcomp")));
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, model.values);
}

TEST_F(Nvcomp, AfterWarmUpNothingIsAllocatedAndNothingWaits) {
  const auto store = make_memory_store();
  write_model(*store, "a/", small(zstd(false)));
  const array opened = open_in(store, context_with("nvcomp"));
  const auto mine = make_stream();
  const auto read_once = [&] {
    device_read_options options;
    options.stream = reinterpret_cast<stream_handle>(mine);
    auto made = read_to_device(opened, basic_selection(), options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_TRUE(made->order(reinterpret_cast<stream_handle>(mine)).ok());
  };
  for (int i = 0; i < 6; ++i) read_once();
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
  penstock_fake_cuda_reset_counts();
  for (int i = 0; i < 10; ++i) read_once();
  for (const char* const call : {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
                                 "cuEventSynchronize", "legacy stream"})
    EXPECT_EQ(penstock_fake_cuda_count(call), 0U) << call;
  ASSERT_EQ(driver.stream_synchronize(mine), cuda::kSuccess);
}

// The accepted versions, and the function that returns the workspace in each.
TEST_F(Nvcomp, ItsVersionDeterminesWhetherItIsUsed) {
  const auto opened_as = [](const char* version) {
    setenv("PENSTOCK_FAKE_NVCOMP_VERSION", version, 1);
    auto made = device::nvcomp::open();
    std::string text = made.ok() ? "takes " + (*made)->version() : made.error().message();
    if (made.ok()) {
      const auto bytes =
          (*made)->workspace_bytes(device::nvcomp_codec::lz4, device::nvcomp_backend::kernels, 3, 1000, 2000);
      text += bytes.ok() ? ", " + std::to_string(*bytes) : ", " + bytes.error().message();
    }
    unsetenv("PENSTOCK_FAKE_NVCOMP_VERSION");
    return text;
  };
  EXPECT_EQ(opened_as("5301"), "takes 5.3.1, 6000");
  EXPECT_EQ(opened_as("6000"), "takes 6.0.0, 6000");
  EXPECT_EQ(opened_as("4210").rfind("nvCOMP 4.2.10 is too old: Penstock supports versions 5 and 6", 0), 0U);
  EXPECT_EQ(opened_as("7000"), "nvCOMP 7.0.0 is newer than this release supports: it supports versions 5 and 6");
}

TEST_F(Nvcomp, IsOneClearErrorIfAbsent) {
  setenv("PENSTOCK_NVCOMP", "/nowhere/libnvcomp.so.6", 1);
  auto absent = device::nvcomp::open();
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), errc::unsupported);
  EXPECT_EQ(absent.error().message().rfind("nvCOMP does not load: /nowhere/libnvcomp.so.6", 0), 0U)
      << absent.error().message();
  setenv("PENSTOCK_NVCOMP", "libm.so.6", 1);
  EXPECT_EQ(device::nvcomp::open().error().message(),
            "the library that was loaded as nvCOMP has no nvcompGetProperties");
  context_options options;
  options.device_decoder = "magic";
  auto made = penstock::context::make(options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::test
