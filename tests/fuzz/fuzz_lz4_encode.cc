// Any bytes through the device's LZ4 encoder on the host, with any output size: liblz4 decodes its output to the same
// bytes.

#include <lz4.h>

#include <cstring>
#include <memory>

#include "codec_fuzz.h"
#include "cuda/encode/lz4_encode.h"

using namespace penstock;

namespace {

constexpr std::size_t kMostDescribed = 150'000;  // more than twice the largest offset

/// Content made of spans that `input` describes: new bytes, or bytes that are repeated from one of three ranges of
/// offsets, the last around the largest that LZ4 has. Lengths are up to 65,057, of which each 255 take a byte.
std::vector<std::byte> described(fuzz_input& input) {
  std::vector<std::byte> out;
  std::uint32_t noise = 1;
  while (!input.rest().empty() && out.size() < kMostDescribed) {
    const std::uint32_t span = input.byte();
    const std::size_t length = 1 + span / 8 + (span % 2 != 0 ? 255 * input.byte() : 0);
    std::size_t offset = 0;
    if (span / 2 % 4 == 1 || span / 2 % 4 == 2) offset = 1 + input.byte();
    if (span / 2 % 4 == 2) offset += input.byte() << 8;
    if (span / 2 % 4 == 3) offset = device::kLz4Window - 8 + input.below(16);
    for (std::size_t i = 0; i < length; ++i) {
      noise = noise * 1'664'525 + 1'013'904'223;
      const bool repeats = offset != 0 && offset <= out.size();
      out.push_back(repeats ? out[out.size() - offset] : static_cast<std::byte>(noise >> 24));
    }
  }
  return out;
}

}  // namespace

extern "C" int run_lz4_encode(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const bool ample = input.below(4) != 0;
  const std::size_t asked = input.byte() | input.byte() << 8;
  const bool is_long = asked % 256 == 255;  // takes as long as a hundred others
  const auto content = is_long ? described(input) : repeated(input.rest(), 0);
  const std::size_t room = ample ? device::lz4_bound(content.size()) : asked;
  const auto source = std::make_unique<std::byte[]>(content.size()), target = std::make_unique<std::byte[]>(room);
  if (!content.empty()) std::memcpy(source.get(), content.data(), content.size());
  const auto shared = std::make_unique<device::lz4_encode_shared>();
  const device::encode_part part{reinterpret_cast<std::uintptr_t>(source.get()),
                                 reinterpret_cast<std::uintptr_t>(target.get()),
                                 static_cast<std::uint32_t>(content.size()), static_cast<std::uint32_t>(room)};
  const std::uint32_t made = device::encode_lz4(part, *shared, device::warp{});
  if (made == device::kDoesNotFit) {
    require(!ample);
    return 0;
  }
  require(made <= room);
  const auto back = std::make_unique<char[]>(content.size() + 1);
  require(LZ4_decompress_safe(reinterpret_cast<const char*>(target.get()), back.get(), static_cast<int>(made),
                              static_cast<int>(content.size())) == static_cast<int>(content.size()));
  require(content.empty() || std::memcmp(back.get(), content.data(), content.size()) == 0);
  return 0;
}
