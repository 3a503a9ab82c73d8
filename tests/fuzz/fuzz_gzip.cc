#include "codec_fuzz.h"

extern "C" int run_gzip(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  fuzz_input input(data, size);
  const auto codec = codec_of("gzip", {{"level", std::uint64_t{input.below(10)}}});
  fuzz_byte_codec(*codec, input);
  return 0;
}
