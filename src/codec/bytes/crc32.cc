// crc32 and adler32, as in zlib.

#include <libdeflate.h>

#include "codec/byte_codecs.h"
#include "codec/bytes/checksum_codec.h"

namespace penstock::inline v0 {
namespace {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t) noexcept {
  return bytes.empty() ? 0 : libdeflate_crc32(0, bytes.data(), bytes.size());
}

std::uint32_t adler32_of(std::span<const std::byte> bytes, std::uint32_t) noexcept {
  return bytes.empty() ? 1 : libdeflate_adler32(1, bytes.data(), bytes.size());
}

}  // namespace

result<compiled_codec> make_crc32_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const checksum_place place, checksum_place_of(config, checksum_place::start));
  return make_checksum_codec("crc32", crc32_of, place, input);
}

result<compiled_codec> make_adler32_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const checksum_place place, checksum_place_of(config, checksum_place::start));
  return make_checksum_codec("adler32", adler32_of, place, input);
}

}  // namespace penstock::inline v0
