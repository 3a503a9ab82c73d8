// A frame that several warps encode together has the same bytes as a frame that one warp encodes.

#include "cuda/encode/zstd_encode_blocks.h"

#include <memory>

#include "cuda/decode/decode_fixture.h"

namespace penstock::inline v0::device {
namespace {

// Encodes a part with one warp.
bytes by_one_warp(const bytes& content, bool checksum) {
  bytes out(zstd_bound(content.size()));
  const auto shared = std::make_unique<zstd_encode_shared>();
  const auto workspace = std::make_unique<zstd_encode_workspace>();
  const encode_part part{reinterpret_cast<std::uintptr_t>(content.data()), reinterpret_cast<std::uintptr_t>(out.data()),
                         static_cast<std::uint32_t>(content.size()), static_cast<std::uint32_t>(out.size())};
  out.resize(encode_zstd(part, checksum, *workspace, *shared, warp{}));
  return out;
}

// Encodes all parts, of one size, with a warp for each block, the last block first. `less`: bytes less than each part
// needs.
std::vector<bytes> by_blocks(const std::vector<bytes>& contents, bool checksum, std::uint32_t less = 0) {
  std::vector<bytes> out;
  std::vector<encode_part> parts;
  std::vector<std::uint32_t> made(contents.size());
  const auto size = static_cast<std::uint32_t>(contents[0].size());
  for (const bytes& content : contents) {
    out.emplace_back(by_one_warp(content, checksum).size() - less);
    parts.push_back({reinterpret_cast<std::uintptr_t>(content.data()), 0, size, 0});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].target = reinterpret_cast<std::uintptr_t>(out[i].data());
    parts[i].target_bytes = static_cast<std::uint32_t>(out[i].size());
  }
  const std::uint32_t part_blocks = zstd_blocks_of(size);
  const auto count = static_cast<std::uint32_t>(parts.size() * part_blocks);
  const auto workspaces = std::make_unique<zstd_block_workspace[]>(count);
  const zstd_encode_blocks_wave wave{
      {reinterpret_cast<std::uintptr_t>(parts.data()), reinterpret_cast<std::uintptr_t>(made.data()),
       static_cast<std::uint32_t>(parts.size()), 0},
      reinterpret_cast<std::uintptr_t>(workspaces.get()),
      part_blocks,
      checksum ? 1u : 0u};
  const auto shared = std::make_unique<zstd_encode_block_shared>();
  zstd_join_shared joining;
  for (std::uint32_t turn = count; turn-- > 0;) encode_zstd_block_warp(wave, turn, *shared, warp{});
  for (std::uint32_t turn = count; turn-- > 0;) join_zstd_block_warp(wave, turn, joining, warp{});
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(made[i], less == 0 ? out[i].size() : kDoesNotFit) << i;
  return out;
}

TEST(ZstdEncodeBlocks, EncodesTheSameBytesAsOneWarp) {
  constexpr std::size_t kManyBlocks = 34 * std::size_t{kMostBlockBytes} + 5;  // more than lanes
  for (const std::size_t size : {std::size_t{1}, std::size_t{131'072}, std::size_t{131'073}, kManyBlocks}) {
    std::vector<bytes> contents = {bytes(size)};
    if (size != kManyBlocks) contents.insert(contents.end(), {content_of("packed", size), content_of("noise", size)});
    for (const bool checksum : {false, true}) {
      const auto made = by_blocks(contents, checksum);
      for (std::size_t i = 0; i < contents.size(); ++i)
        ASSERT_EQ(made[i], by_one_warp(contents[i], checksum)) << size << " " << i << " " << checksum;
    }
  }
}

TEST(ZstdEncodeBlocks, DoesNotWriteToATargetThatIsTooSmall) {
  for (const bytes& target : by_blocks({content_of("packed", 300'000), content_of("noise", 300'000)}, true, 1))
    EXPECT_EQ(target, bytes(target.size()));
}

}  // namespace
}  // namespace penstock::inline v0::device
