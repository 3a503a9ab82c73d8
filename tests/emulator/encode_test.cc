// The encoders on the emulator make the same bytes as their host form.

#include "cuda/encode/zstd_encode.h"

#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/lz4_encode.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

namespace penstock::inline v0::device {
namespace {

using emulator::content;
using emulator::use;

TEST(Emulated, Lz4EncoderMakesWhatItsHostFormDoes) {
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

TEST(Emulated, ZstdEncoderMakesWhatItsHostFormDoes) {
  const emulator::kernel* const kernel = emulator::find_kernel("penstock_encode_zstd");
  ASSERT_NE(kernel, nullptr);
  const auto shared = std::make_unique<zstd_encode_shared>();
  const auto workspace = std::make_unique<zstd_encode_workspace>();
  for (const char* kind : kKinds) {
    for (const std::size_t size : {0u, 5u, 100u, 3001u, 30'000u, 140'000u}) {
      if (size > 100'000 && std::string_view(kind) != "packed") continue;  // two blocks, once: it takes its time
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

}  // namespace
}  // namespace penstock::inline v0::device
