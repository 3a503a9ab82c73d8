#include "codec/bytes/crc32c.h"

#include "codec_fuzz.h"

extern "C" int run_crc32c(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  fuzz_input input(data, size);
  fuzz_byte_codec(*codec_of("crc32c", {}), input);
  require(crc32c(input.rest()) == crc32c_portable(input.rest()));
  return 0;
}
