// Any bytes through the device's zstd encoder on the host, with any output size: libzstd and the device's decoder
// decode its output to the same bytes.

#include <zstd.h>

#include <array>
#include <cstring>
#include <memory>

#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/encode/zstd_encode.h"

using namespace penstock;

namespace {
constexpr std::size_t kHowAt = 1;           // the position of the byte `how` in an input
constexpr std::uint8_t kOfTwoBlocks = 255;  // its value for two blocks
}  // namespace

extern "C" [[gnu::weak]] std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// An input of two blocks takes as long as a hundred others, and leads to more such inputs: only one in 256 is used.
extern "C" std::size_t mutate_zstd_encode(std::uint8_t* data, std::size_t size, std::size_t most, unsigned random) {
  size = LLVMFuzzerMutate(data, size, most);
  if (size <= kHowAt) return size;
  if (random % 256 == 0) {
    data[kHowAt] = kOfTwoBlocks;
  } else if (data[kHowAt] == kOfTwoBlocks) {
    data[kHowAt] = static_cast<std::uint8_t>((random >> 8) % kOfTwoBlocks);
  }
  return size;
}

extern "C" int run_zstd_encode(const std::uint8_t* data, std::size_t size) {
  static const auto shared = std::make_unique<device::zstd_encode_shared>();
  static const auto workspace = std::make_unique<device::zstd_encode_workspace>();
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const std::uint32_t how = input.byte();
  const bool ample = how % 4 != 0, checksum = how / 4 % 2 != 0, two_blocks = how == kOfTwoBlocks;
  const std::size_t asked = input.byte() | input.byte() << 8;
  const auto content = repeated(input.rest(), two_blocks ? device::kMostBlockBytes + 5000 : 0);
  const std::size_t room = ample ? device::zstd_bound(content.size()) : asked;
  const auto source = std::make_unique<std::byte[]>(content.size()), target = std::make_unique<std::byte[]>(room);
  if (!content.empty()) std::memcpy(source.get(), content.data(), content.size());
  const device::encode_part part{reinterpret_cast<std::uintptr_t>(source.get()),
                                 reinterpret_cast<std::uintptr_t>(target.get()),
                                 static_cast<std::uint32_t>(content.size()), static_cast<std::uint32_t>(room)};
  const std::uint32_t made = device::encode_zstd(part, checksum, *workspace, *shared, device::warp{});
  if (made == device::kDoesNotFit) {
    require(!ample);
    return 0;
  }
  require(made <= room);
  const auto is_content = [&](const std::byte* back) {
    return content.empty() || std::memcmp(back, content.data(), content.size()) == 0;
  };
  const auto back = std::make_unique<std::byte[]>(content.size() + 1);
  require(ZSTD_decompress(back.get(), content.size(), target.get(), made) == content.size() && is_content(back.get()));
  std::memset(back.get(), 0, content.size());
  constexpr std::array kSteps{device::device_step{device::step_kind::zstd}};
  require(device::decode_on_host(kSteps, std::span(target.get(), made), std::span(back.get(), content.size())).ok() &&
          is_content(back.get()));
  return 0;
}
