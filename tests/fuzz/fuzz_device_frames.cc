// Hostile bytes through the device's decoders of LZ4 frames and of HDF5's bitshuffle on the host: the host's decoders
// accept all that they accept, with the same bytes.

#include <lz4frame.h>

#include <cstring>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <penstock/extend/json.h>
#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/warp.h"

using namespace penstock;
using device::step_kind;

namespace {

bool library_decodes(std::span<const std::byte> encoded, std::span<std::byte> out) {
  LZ4F_dctx* context = nullptr;
  require(!LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
  std::size_t at = 0, made = 0, wanted = 1;
  while (at < encoded.size()) {
    std::size_t from = encoded.size() - at, to = out.size() - made;
    wanted = LZ4F_decompress(context, out.data() + made, &to, encoded.data() + at, &from, nullptr);
    if (LZ4F_isError(wanted) || (from == 0 && to == 0)) break;
    at += from;
    made += to;
  }
  LZ4F_freeDecompressionContext(context);
  return !LZ4F_isError(wanted) && wanted == 0 && at == encoded.size() && made == out.size();
}

bool codec_decodes(const device::device_step& step, std::span<const std::byte> encoded, std::span<std::byte> out) {
  if (out.empty()) return true;  // every chunk has elements
  const char* const inside = step.kind == step_kind::bitshuffle_plain ? "none"
                             : step.kind == step_kind::bitshuffle_lz4 ? "lz4"
                                                                      : "zstd";
  const auto settings = json::parse(
      fmt::format(R"({{"elementsize":{},"blocksize":{},"compression":"{}"}})", step.item_bytes, step.settings, inside));
  const std::vector<codec_config> codecs{{"bytes", json()}, {"hdf5.bitshuffle", *settings}};
  const auto chain = codec_chain::compile(codecs, *dtype::from_name("uint8"), extents{out.size()});
  require(chain.ok());
  worker_scratch scratch;
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain->cell(), 1);
  target.covers_cell = true;
  return chain->decode(encoded, target, scratch).ok();
}

}  // namespace

extern "C" int run_device_frames(const std::uint8_t* data, std::size_t size) {
  constexpr step_kind kKinds[] = {step_kind::lz4_frame, step_kind::bitshuffle_plain, step_kind::bitshuffle_lz4,
                                  step_kind::bitshuffle_zstd};
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  device::device_step step{kKinds[input.below(4)]};
  const std::uint32_t out_bytes = input.byte() | input.byte() << 8;
  if (step.kind != step_kind::lz4_frame) {
    step.item_bytes = 1 + input.below(20);
    step.settings = input.byte();
  }
  const auto rest = input.rest();
  const auto encoded = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(encoded.get(), rest.data(), rest.size());
  const std::span<const std::byte> bytes(encoded.get(), rest.size());
  const auto ours = std::make_unique<std::byte[]>(out_bytes), theirs = std::make_unique<std::byte[]>(out_bytes);
  const auto done = device::decode_on_host({&step, 1}, bytes, std::span(ours.get(), out_bytes));
  if (!done.ok()) {
    require(done.error().code() == errc::corrupt_data || done.error().code() == errc::unsupported);
    return 0;
  }
  const std::span<std::byte> out(theirs.get(), out_bytes);
  require(step.kind == step_kind::lz4_frame ? library_decodes(bytes, out) : codec_decodes(step, bytes, out));
  require(out_bytes == 0 || std::memcmp(ours.get(), theirs.get(), out_bytes) == 0);
  return 0;
}
