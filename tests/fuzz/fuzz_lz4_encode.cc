// Any bytes through the device's LZ4 encoder on the host, with any output size: liblz4 decodes its output to the same
// bytes.

#include <lz4.h>

#include <cstring>
#include <memory>

#include "codec_fuzz.h"
#include "cuda/encode/lz4_encode.h"

using namespace penstock;

namespace {
/// Longer than the largest offset of a match, so that content also repeats at greater distances.
constexpr std::size_t kBeyondAnyOffset = 70'000;
}  // namespace

extern "C" int run_lz4_encode(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const bool ample = input.below(4) != 0;
  const std::size_t asked = input.byte() | input.byte() << 8;
  // One long input takes as long as a hundred others.
  const bool is_long = asked % 256 == 255;
  const auto content = repeated(input.rest(), is_long ? kBeyondAnyOffset : 0);
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
