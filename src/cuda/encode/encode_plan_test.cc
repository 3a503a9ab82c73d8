// Chunks through all kernels of a chain: the host's codecs and the device's decoders read the output. If the format
// allows only one encoding, the output equals that of the host's codecs.

#include "cuda/encode/encode_plan.h"

#include <array>
#include <memory>
#include <new>

#include "codec/codec_chain.h"
#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_parts.h"
#include "cuda/encode/zstd_encode_parts.h"

namespace penstock::inline v0::device {
namespace {

struct aligned_free {
  void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t{256}); }
};

// Each chunk as the plan encodes it; empty if it does not fit.
std::vector<bytes> encoded_by(const encode_plan& plan, const std::vector<bytes>& chunks) {
  const auto count = static_cast<std::uint32_t>(chunks.size());
  const std::unique_ptr<std::byte, aligned_free> block(
      static_cast<std::byte*>(::operator new(plan.bytes(count), std::align_val_t{256})));
  std::memset(block.get(), 0xa5, plan.bytes(count));
  std::vector<kernel_launch> launches;
  plan.emit(count, {block.get(), plan.table_bytes(count)}, reinterpret_cast<std::uintptr_t>(block.get()), launches);
  for (std::uint32_t i = 0; i < count; ++i)
    std::memcpy(block.get() + plan.values_at(count, i), chunks[i].data(), chunks[i].size());
  for (const kernel_launch& each : launches) run_on_host(each.kernel, each.grid, each.threads, each.argument.data());
  std::vector<bytes> out(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t made = 0;
    std::memcpy(&made, block.get() + 4 * i, 4);
    if (made == kDoesNotFit) continue;
    EXPECT_LE(made, plan.room());
    const std::byte* const from = block.get() + plan.encoded_at(count, i);
    out[i].assign(from, from + made);
  }
  return out;
}

// The chain in Zarr's form, for chunks of `size` bytes.
codec_chain host_chain(const std::vector<codec_config>& codecs, std::size_t size) {
  return codec_chain::compile(codecs, dtype::from_name("uint8").value(), {size}).value();
}

bytes encoded_by_host(const codec_chain& chain, const bytes& content) {
  worker_scratch scratch(nullptr);
  bytes out(chain.max_encoded_bytes()), copy = content;
  const auto view = tensor_view::contiguous(copy.data(), chain.type(), chain.cell());
  const auto made = chain.encode(view, out, scratch);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  out.resize(made.ok() ? *made : 0);
  return out;
}

bytes decoded_by_host(const codec_chain& chain, const bytes& encoded) {
  worker_scratch scratch(nullptr);
  bytes out(chain.decoded_bytes());
  strided_box all{{0, 1, out.size()}};
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain.cell(), 1);
  target.in_cell = &all;
  target.covers_cell = true;
  const auto done = chain.decode(encoded, target, scratch);
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

codec_config shuffle_of(int item) {
  return {"numcodecs.shuffle", json(json::object_t{{"elementsize", json(std::int64_t{item})}})};
}

TEST(EncodePlan, ShufflesAndChecksumsEqualTheHosts) {
  for (const int item : {1, 2, 3, 4, 5, 8, 12, 16}) {
    for (const std::size_t items : {1u, 7u, 8u, 64u, 100u, 1000u, 9001u}) {
      const std::size_t size = items * static_cast<std::size_t>(item);
      const device_step shuffle{step_kind::shuffle, static_cast<std::uint32_t>(item)};
      const encode_plan plan =
          encode_plan::make(std::array{shuffle, device_step{step_kind::crc32c}}, size, ~0ull).value();
      const codec_chain chain = host_chain({{"bytes", {}}, shuffle_of(item), {"crc32c", {}}}, size);
      const std::vector<bytes> chunks = {content_of("noise", size), content_of("walk", size)};
      const std::vector<bytes> made = encoded_by(plan, chunks);
      for (std::size_t i = 0; i < chunks.size(); ++i)
        ASSERT_EQ(made[i], encoded_by_host(chain, chunks[i])) << size << " bytes, items of " << item;
    }
  }
}

TEST(EncodePlan, TheDecoderUndoesBitshuffle) {
  for (const std::uint32_t item : {1u, 2u, 3u, 4u, 8u, 16u}) {
    for (const std::size_t size : {1u, 64u, 1000u, 4096u, 4099u}) {
      const device_step step{step_kind::bitshuffle, item};
      const encode_plan plan = encode_plan::make({&step, 1}, size, ~0ull).value();
      const bytes content = content_of("noise", size);
      const bytes made = encoded_by(plan, {content})[0];
      ASSERT_EQ(made.size(), size);
      expect_decodes({&step, 1}, made, content, std::to_string(size) + " bytes, items of " + std::to_string(item));
    }
  }
}

TEST(EncodePlan, CompressedChunksAreReadByHostAndDevice) {
  const json none;
  const auto zstd_of = [](bool checksum) {
    return json(json::object_t{{"level", json(std::int64_t{1})}, {"checksum", json(checksum)}});
  };
  const struct {
    std::vector<device_step> steps;
    std::vector<codec_config> codecs;
  } chains[] = {
      {{{step_kind::lz4}}, {{"bytes", none}, {"numcodecs.lz4", none}}},
      {{{step_kind::shuffle, 4}, {step_kind::lz4}, {step_kind::crc32c}},
       {{"bytes", none}, shuffle_of(4), {"numcodecs.lz4", none}, {"crc32c", none}}},
      {{{step_kind::shuffle, 2}, {step_kind::shuffle, 4}, {step_kind::lz4}},
       {{"bytes", none}, shuffle_of(2), shuffle_of(4), {"numcodecs.lz4", none}}},
      {{{step_kind::zstd, 1, 1}, {step_kind::crc32c}}, {{"bytes", none}, {"zstd", zstd_of(true)}, {"crc32c", none}}},
      {{{step_kind::shuffle, 4}, {step_kind::zstd, 1, 0}}, {{"bytes", none}, shuffle_of(4), {"zstd", zstd_of(false)}}}};
  for (const auto& each : chains) {
    const std::vector<device_step> decoding(each.steps.rbegin(), each.steps.rend());
    // The last size has two blocks of zstd, which two warps encode. With sanitizers it takes long, so few contents use
    // it.
    for (const std::size_t size : {4u, 12u, 1000u, 40'000u, 140'000u}) {
      const codec_chain chain = host_chain(each.codecs, size);
      const encode_plan plan = encode_plan::make(each.steps, size, chain.max_encoded_bytes()).value();
      if (size > kMostEncodedBlock && plan.warps() == 1) continue;
      std::vector<const char*> kinds(std::begin(kKinds), std::end(kKinds));
      if (plan.warps() > 1) kinds = {"packed", "noise"};
      std::vector<bytes> chunks;
      for (const char* kind : kinds) chunks.push_back(content_of(kind, size));
      const std::vector<bytes> made = encoded_by(plan, chunks);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        ASSERT_EQ(decoded_by_host(chain, made[i]), chunks[i]) << chain.describe() << " " << size << " " << kinds[i];
        expect_decodes(decoding, made[i], chunks[i], chain.describe());
      }
    }
  }
}

TEST(EncodePlan, ReportsChunksThatNeedMoreSpace) {
  const std::size_t size = 5000;
  for (const step_kind kind : {step_kind::lz4, step_kind::zstd}) {
    for (const bool checks : {false, true}) {
      std::vector<device_step> steps = {{kind, 1, 0}};
      if (checks) steps.push_back({step_kind::crc32c});
      const encode_plan tight = encode_plan::make(steps, size, 1000).value();
      const auto made = encoded_by(tight, {content_of("noise", size), content_of("zeros", size)});
      EXPECT_TRUE(made[0].empty());
      ASSERT_FALSE(made[1].empty());
      // There is space for the compressed bytes, but not for the checksum.
      if (checks) {
        const encode_plan exact = encode_plan::make(steps, size, made[1].size() - 1).value();
        EXPECT_TRUE(encoded_by(exact, {content_of("zeros", size)})[0].empty());
      }
    }
  }
}

TEST(EncodePlan, RefusesOtherChains) {
  const device_step shuffle{step_kind::shuffle, 4}, lz4{step_kind::lz4}, zstd{step_kind::zstd}, crc{step_kind::crc32c},
      gzip{step_kind::gzip};
  const auto refused = [](std::vector<device_step> steps, std::uint64_t size) {
    const auto made = encode_plan::make(steps, size, ~0ull);
    return !made.ok() && made.error().code() == errc::unsupported;
  };
  EXPECT_TRUE(refused({}, 100));
  EXPECT_TRUE(refused({gzip}, 100));
  EXPECT_TRUE(refused({lz4, shuffle}, 100));
  EXPECT_TRUE(refused({lz4, zstd}, 100));
  EXPECT_TRUE(refused({crc, lz4}, 100));
  EXPECT_TRUE(refused({crc, crc}, 100));
  EXPECT_TRUE(refused({{step_kind::shuffle, 0}, lz4}, 100));
  EXPECT_TRUE(refused({shuffle, lz4}, 102));
  EXPECT_TRUE(refused({lz4}, 0));
  EXPECT_TRUE(refused({lz4}, kMostEncodedChunk + 1));
}

}  // namespace
}  // namespace penstock::inline v0::device
