// Hostile bytes through the device's decoders of LZ4 frames and of TIFF's codecs, on the host: LZW and PackBits accept
// what the host engine accepts, with the same bytes.

#include <cstring>
#include <memory>

#include "codec/tiff/tiff_codecs.h"
#include "codec/worker_scratch.h"
#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/numbers.h"
#include "cuda/decode/warp.h"

using namespace penstock;
using device::step_kind;

extern "C" int run_device_tiff(const std::uint8_t* data, std::size_t size) {
  constexpr step_kind kKinds[] = {step_kind::lz4_frame,    step_kind::lzw,         step_kind::packbits,
                                  step_kind::zlib_or_more, step_kind::unpack_bits, step_kind::delta};
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  device::device_step step{kKinds[input.below(6)]};
  if (step.kind == step_kind::unpack_bits) step.settings = input.below(8);
  if (step.kind == step_kind::delta) {
    const auto bytes = [&] { return 1U << input.below(4); };
    const std::uint32_t stored = bytes(), item = bytes();
    step.settings = device::delta_layout{stored, item, input.below(2) != 0, input.below(2) != 0, false}.parameter();
  }
  const std::uint32_t out_bytes = input.byte() | input.byte() << 8;
  const auto rest = input.rest();
  const auto encoded = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(encoded.get(), rest.data(), rest.size());
  const std::span<const std::byte> bytes(encoded.get(), rest.size());
  const auto ours = std::make_unique<std::byte[]>(out_bytes), theirs = std::make_unique<std::byte[]>(out_bytes);
  const auto done = device::decode_on_host({&step, 1}, bytes, std::span(ours.get(), out_bytes));
  if (!done.ok()) require(done.error().code() == errc::corrupt_data || done.error().code() == errc::unsupported);
  if (step.kind != step_kind::lzw && step.kind != step_kind::packbits) return 0;
  const auto codec = step.kind == step_kind::lzw ? make_tiff_lzw_codec() : make_tiff_packbits_codec();
  worker_scratch scratch;
  const auto made = codec->decode(bytes, std::span(theirs.get(), out_bytes), scratch);
  const bool whole = made.ok() && made->size() == out_bytes;
  require(done.ok() == whole);
  if (whole) require(out_bytes == 0 || std::memcmp(ours.get(), theirs.get(), out_bytes) == 0);
  return 0;
}
