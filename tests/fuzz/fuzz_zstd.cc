#include "codec_fuzz.h"

extern "C" int run_zstd(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  fuzz_input input(data, size);
  const std::uint32_t setting = input.byte();
  const auto codec = codec_of("zstd", {{"level", std::int64_t{setting % 12} - 3}, {"checksum", setting >= 128}});
  fuzz_byte_codec(*codec, input);
  return 0;
}
