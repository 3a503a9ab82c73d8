#include "cuda/decode/host_decode.h"

#include <cstdint>
#include <string>
#include <utility>

#include "cuda/decode/host_run.h"
#include "cuda/decode/lz4_frame.h"

namespace penstock::inline v0::device {
namespace {

std::uint64_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

result<device_step> step_of_codec(std::string_view name, std::span<const std::byte> encoded,
                                  std::uint64_t decoded_bytes) {
  if (name == "lz4" && encoded.size() >= 4) {
    const std::uint32_t word = load_bytes(reinterpret_cast<const std::uint8_t*>(encoded.data()), 4);
    const bool frame = word == kLz4Magic || (word & 0xfffffff0u) == kSkippableMagic;
    if (frame && word != decoded_bytes) return device_step{step_kind::lz4_frame};
  }
  constexpr std::pair<std::string_view, step_kind> kNames[] = {{"zstd", step_kind::zstd},
                                                               {"lz4", step_kind::lz4},
                                                               {"lz4_block", step_kind::lz4_block},
                                                               {"snappy", step_kind::snappy},
                                                               {"blosc", step_kind::blosc},
                                                               {"zlib", step_kind::zlib},
                                                               {"gzip", step_kind::gzip},
                                                               {"deflate", step_kind::deflate},
                                                               {"lz4_frame", step_kind::lz4_frame},
                                                               {"lzw", step_kind::lzw},
                                                               {"tiff_packbits", step_kind::packbits}};
  for (const auto& [known, kind] : kNames)
    if (known == name) return device_step{kind};
  return error{errc::unsupported, "unknown device decoder '" + std::string(name) +
                                      "'; known: zstd, lz4, lz4_block, lz4_frame, snappy, blosc, zlib, "
                                      "gzip, deflate, lzw and tiff_packbits"};
}

result<> decode_on_host(std::span<const device_step> steps, std::span<const std::byte> encoded,
                        std::span<std::byte> out) {
  PENSTOCK_ASSIGN(decode_wave wave, decode_wave::make(steps));
  auto added = wave.add({encoded, address(encoded.data()), address(out.data()), out.size()});
  if (!added.ok() && added.error().code() == errc::unsupported)
    return std::move(added).error().note("the device's decoders refuse this chunk; an engine decodes it on the host");
  PENSTOCK_TRY(std::move(added));
  const std::vector<std::uint32_t> statuses = run_wave_on_host(wave);
  if (statuses[0] != 0) return status_error(statuses[0], "chunk");
  return {};
}

}  // namespace penstock::inline v0::device
