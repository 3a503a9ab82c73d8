// Hostile bytes through the device's zstd decoder on the host, and through libzstd, which accepts all that ours
// accepts, with the same bytes. It may accept more (an offset of 0, which it reads as 1).

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/warp.h"

using namespace penstock;

extern "C" int run_device_zstd(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const std::uint32_t wanted = input.byte() | input.byte() << 8 | (input.byte() & 3) << 16;
  const auto rest = input.rest();
  const auto encoded = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(encoded.get(), rest.data(), rest.size());
  const std::span<const std::byte> bytes(encoded.get(), rest.size());

  // The size of the frames' content if they decode; otherwise the size in the input.
  const auto theirs = std::make_unique<std::byte[]>(1 << 18);
  const std::size_t made = ZSTD_decompress(theirs.get(), 1 << 18, bytes.data(), bytes.size());
  const std::size_t out_bytes = ZSTD_isError(made) ? wanted : made;
  const auto ours = std::make_unique<std::byte[]>(out_bytes);
  const device::device_step step[] = {{device::step_kind::zstd}};
  const auto done = device::decode_on_host(step, bytes, std::span(ours.get(), out_bytes));
  if (!done.ok()) {
    require(done.error().code() == errc::corrupt_data || done.error().code() == errc::unsupported);
    return 0;
  }
  require(!ZSTD_isError(made) && (made == 0 || std::memcmp(ours.get(), theirs.get(), made) == 0));
  return 0;
}
