// Hostile bytes through the device's decoders of deflate, LZ4 and Blosc on the host: the reference library accepts all
// that they accept, with the same bytes.

#include <blosc.h>
#include <libdeflate.h>
#include <lz4.h>

#include <cstring>
#include <memory>

#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/warp.h"

using namespace penstock;
using device::step_kind;

namespace {

// Whether the library decodes the bytes to exactly `out`; true for formats that no library here decodes.
bool reference(step_kind kind, std::span<const std::byte> from, std::span<std::byte> out) {
  static libdeflate_decompressor* const inflater = libdeflate_alloc_decompressor();
  std::size_t made = out.size();
  switch (kind) {
    case step_kind::lz4_block:
      return LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(out.data()),
                                 static_cast<int>(from.size()),
                                 static_cast<int>(out.size())) == static_cast<int>(out.size());
    case step_kind::deflate:
      return libdeflate_deflate_decompress(inflater, from.data(), from.size(), out.data(), out.size(), nullptr) ==
             LIBDEFLATE_SUCCESS;
    case step_kind::zlib:
      return libdeflate_zlib_decompress(inflater, from.data(), from.size(), out.data(), out.size(), nullptr) ==
             LIBDEFLATE_SUCCESS;
    case step_kind::gzip:  // the first member
      return libdeflate_gzip_decompress_ex(inflater, from.data(), from.size(), out.data(), out.size(), nullptr,
                                           &made) == LIBDEFLATE_SUCCESS;
    case step_kind::blosc:
      return blosc_decompress_ctx(from.data(), out.data(), out.size(), 1) == static_cast<int>(out.size());
    default:
      return true;
  }
}

}  // namespace

extern "C" int run_device_formats(const std::uint8_t* data, std::size_t size) {
  constexpr step_kind kKinds[] = {step_kind::lz4_block, step_kind::deflate, step_kind::zlib,  step_kind::gzip,
                                  step_kind::blosc,     step_kind::lz4,     step_kind::snappy};
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const step_kind kind = kKinds[input.below(7)];
  const std::uint32_t out_bytes = input.byte() | input.byte() << 8;
  const auto rest = input.rest();
  const auto encoded = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(encoded.get(), rest.data(), rest.size());
  const std::span<const std::byte> bytes(encoded.get(), rest.size());
  const auto ours = std::make_unique<std::byte[]>(out_bytes), theirs = std::make_unique<std::byte[]>(out_bytes);
  const device::device_step step[] = {{kind}};
  const auto done = device::decode_on_host(step, bytes, std::span(ours.get(), out_bytes));
  if (!done.ok()) {
    require(done.error().code() == errc::corrupt_data || done.error().code() == errc::unsupported);
    return 0;
  }
  require(reference(kind, bytes, std::span(theirs.get(), out_bytes)));
  if (kind == step_kind::gzip || kind == step_kind::lz4 || kind == step_kind::snappy) return 0;
  require(out_bytes == 0 || std::memcmp(ours.get(), theirs.get(), out_bytes) == 0);
  return 0;
}
