// The encoders on the emulator produce the same bytes as their host form.

#include "cuda/encode/zstd_encode_blocks.h"

#include <array>
#include <memory>

#include <gtest/gtest.h>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_plan.h"
#include "cuda/encode/lz4_encode.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

namespace penstock::inline v0::device {
namespace {

using emulator::content;
using emulator::use;

TEST(Emulated, Lz4EncoderEqualsItsHostForm) {
  const emulator::kernel* const kernel = emulator::find_kernel("penstock_encode_lz4");
  ASSERT_NE(kernel, nullptr);
  for (const char* kind : kKinds) {
    for (const std::size_t size : {0u, 5u, 13u, 100u, 3001u, 70'000u}) {
      const bytes source = content_of(kind, size);
      bytes target(lz4_bound(size)), expected(target.size());
      encode_part part{reinterpret_cast<std::uintptr_t>(source.data()),
                       reinterpret_cast<std::uintptr_t>(expected.data()), static_cast<std::uint32_t>(size),
                       static_cast<std::uint32_t>(target.size())};
      const auto shared = std::make_unique<lz4_encode_shared>();
      const std::uint32_t wanted = encode_lz4(part, *shared, warp{});
      part.target = reinterpret_cast<std::uintptr_t>(target.data());
      std::uint32_t made = 0;
      const encode_wave wave{reinterpret_cast<std::uintptr_t>(&part), reinterpret_cast<std::uintptr_t>(&made), 1, 0};
      emulator::forget_memory();
      emulator::give_memory(source.data(), size, "the source", content::written, use::read);
      emulator::give_memory(target.data(), target.size(), "the target", content::unwritten, use::write);
      emulator::give_memory(&part, sizeof part, "the part", content::written, use::read);
      emulator::give_memory(&made, sizeof made, "the sizes", content::unwritten, use::write);
      emulator::give_memory(&wave, sizeof wave, "the argument", content::written, use::read);
      emulator::set_turn(emulator::turn::random);
      emulator::launch(1, 32, kernel->shared_bytes, [&] { kernel->lane(&wave); });
      ASSERT_EQ(made, wanted) << kind << " " << size;
      ASSERT_TRUE(std::equal(target.begin(), target.begin() + made, expected.begin())) << kind << " " << size;
    }
  }
}

TEST(Emulated, ZstdEncoderEqualsItsHostForm) {
  const emulator::kernel* const kernel = emulator::find_kernel("penstock_encode_zstd");
  ASSERT_NE(kernel, nullptr);
  const auto shared = std::make_unique<zstd_encode_shared>();
  const auto workspace = std::make_unique<zstd_encode_workspace>();
  for (const char* kind : kKinds) {
    for (const std::size_t size : {0u, 5u, 100u, 3001u, 30'000u}) {
      const bytes source = content_of(kind, size);
      bytes target(zstd_bound(size)), expected(target.size());
      encode_part part{reinterpret_cast<std::uintptr_t>(source.data()),
                       reinterpret_cast<std::uintptr_t>(expected.data()), static_cast<std::uint32_t>(size),
                       static_cast<std::uint32_t>(target.size())};
      const std::uint32_t wanted = encode_zstd(part, true, *workspace, *shared, warp{});
      part.target = reinterpret_cast<std::uintptr_t>(target.data());
      std::uint32_t made = 0;
      const zstd_encode_wave wave{
          {reinterpret_cast<std::uintptr_t>(&part), reinterpret_cast<std::uintptr_t>(&made), 1, 0},
          reinterpret_cast<std::uintptr_t>(workspace.get()),
          1,
          0};
      emulator::forget_memory();
      emulator::give_memory(source.data(), size, "the source", content::written, use::read);
      emulator::give_memory(target.data(), target.size(), "the target", content::unwritten, use::write);
      emulator::give_memory(workspace.get(), sizeof *workspace, "the workspace", content::unwritten, use::write);
      emulator::give_memory(&part, sizeof part, "the part", content::written, use::read);
      emulator::give_memory(&made, sizeof made, "the sizes", content::unwritten, use::write);
      emulator::give_memory(&wave, sizeof wave, "the argument", content::written, use::read);
      emulator::set_turn(emulator::turn::random);
      emulator::launch(1, 32, kernel->shared_bytes, [&] { kernel->lane(&wave); });
      ASSERT_EQ(made, wanted) << kind << " " << size;
      ASSERT_TRUE(std::equal(target.begin(), target.begin() + made, expected.begin())) << kind << " " << size;
    }
  }
}

TEST(Emulated, ZstdEncoderOfBlocksEqualsOneWarp) {
  const emulator::kernel* const encode = emulator::find_kernel("penstock_encode_zstd_blocks");
  const emulator::kernel* const join = emulator::find_kernel("penstock_join_zstd_blocks");
  ASSERT_TRUE(encode != nullptr && join != nullptr);
  constexpr std::uint32_t kSize = 140'000, kBlocks = 2;
  const std::array sources{content_of("packed", kSize), content_of("zeros", kSize)};
  std::array<bytes, 2> targets, expected;
  std::array<encode_part, 2> parts;
  const auto shared = std::make_unique<zstd_encode_shared>();
  const auto workspace = std::make_unique<zstd_encode_workspace>();
  for (std::size_t i = 0; i < 2; ++i) {
    expected[i].resize(zstd_bound(kSize));
    parts[i] = {reinterpret_cast<std::uintptr_t>(sources[i].data()),
                reinterpret_cast<std::uintptr_t>(expected[i].data()), kSize,
                static_cast<std::uint32_t>(expected[i].size())};
    expected[i].resize(encode_zstd(parts[i], true, *workspace, *shared, warp{}));
    targets[i].resize(expected[i].size());
    parts[i].target = reinterpret_cast<std::uintptr_t>(targets[i].data());
    parts[i].target_bytes = static_cast<std::uint32_t>(targets[i].size());
  }
  std::array<std::uint32_t, 2> made{};
  const auto workspaces = std::make_unique<std::array<zstd_block_workspace, 2 * kBlocks>>();
  const zstd_encode_blocks_wave wave{
      {reinterpret_cast<std::uintptr_t>(parts.data()), reinterpret_cast<std::uintptr_t>(made.data()), 2, 0},
      reinterpret_cast<std::uintptr_t>(workspaces->data()),
      kBlocks,
      1};
  emulator::forget_memory();
  for (std::size_t i = 0; i < 2; ++i) {
    emulator::give_memory(sources[i].data(), sources[i].size(), "a source", content::written, use::read);
    emulator::give_memory(targets[i].data(), targets[i].size(), "a target", content::unwritten, use::write);
  }
  emulator::give_memory(workspaces->data(), sizeof *workspaces, "the workspaces", content::unwritten, use::write);
  emulator::give_memory(parts.data(), sizeof parts, "the parts", content::written, use::read);
  emulator::give_memory(made.data(), sizeof made, "the sizes", content::unwritten, use::write);
  emulator::give_memory(&wave, sizeof wave, "the argument", content::written, use::read);
  emulator::set_turn(emulator::turn::random);
  for (const emulator::kernel* const kernel : {encode, join})
    emulator::launch(2 * kBlocks, 32, kernel->shared_bytes, [&] { kernel->lane(&wave); });
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(made[i], expected[i].size());
    EXPECT_EQ(targets[i], expected[i]);
  }
}

// All kernels of a chain, one after the other, in the memory of a wave.
TEST(Emulated, DecodersReadTheOutputOfAnEncodePlan) {
  const std::vector<std::vector<device_step>> chains = {
      {{step_kind::shuffle, 4}, {step_kind::lz4}, {step_kind::crc32c}},
      {{step_kind::bitshuffle, 2}, {step_kind::zstd, 1, 1}, {step_kind::crc32c}},
      {{step_kind::shuffle, 3}, {step_kind::crc32c}}};
  for (const auto& steps : chains) {
    for (const std::size_t size : {12u, 1608u, 4020u}) {
      constexpr std::uint32_t kChunks = 2;
      const encode_plan plan = encode_plan::make(steps, size, ~0ull).value();
      const std::size_t bytes_in_all = plan.bytes(kChunks);
      const auto block = std::make_unique<std::byte[]>(bytes_in_all + 256);
      void* at = block.get();
      std::size_t room = bytes_in_all + 256;
      auto* const begin = static_cast<std::byte*>(std::align(256, bytes_in_all, at, room));
      std::vector<kernel_launch> launches;
      plan.emit(kChunks, {begin, plan.table_bytes(kChunks)}, reinterpret_cast<std::uintptr_t>(begin), launches);
      emulator::forget_memory();
      emulator::give_memory(begin, plan.table_bytes(kChunks), "sizes and tables", content::written, use::write);
      std::byte* const values = begin + plan.values_at(kChunks, 0);
      const bytes first = content_of("walk", size), second = content_of("noise", size);
      const auto stride = static_cast<std::size_t>(plan.stride());
      std::memcpy(values, first.data(), size);
      std::memcpy(values + stride, second.data(), size);
      emulator::give_memory(values, stride + size, "values", content::written, use::write);
      emulator::give_memory(values + stride + size, bytes_in_all - plan.values_at(kChunks, 1) - size, "the rest",
                            content::unwritten, use::write);
      emulator::set_turn(emulator::turn::random);
      for (const kernel_launch& each : launches)
        run_on_host(each.kernel, each.grid, each.threads, each.argument.data());
      const std::vector<device_step> decoding(steps.rbegin(), steps.rend());
      for (std::uint32_t i = 0; i < kChunks; ++i) {
        std::uint32_t made = 0;
        std::memcpy(&made, begin + 4 * i, 4);
        ASSERT_LE(made, plan.room());
        const std::byte* const from = begin + plan.encoded_at(kChunks, i);
        expect_decodes(decoding, bytes(from, from + made), i == 0 ? first : second, std::to_string(size));
      }
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
