#include "codec_fuzz.h"

extern "C" int run_blosc(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static constexpr const char* kCompressors[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
  static constexpr const char* kShuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
  fuzz_input input(data, size);
  const char* const compressor = kCompressors[input.below(6)];
  // blosc maps its levels to those of zstd and zlib, of which the highest take a second for a kilobyte under a
  // sanitizer.
  const std::uint64_t level = input.below(compressor == std::string_view("zstd") ? 4 : 10);
  const std::uint64_t block_bytes = 16 * input.byte();
  const char* const shuffle = kShuffles[input.below(3)];
  const std::uint64_t item_bytes = input.byte() + 1;
  const auto codec = codec_of("blosc", {{"cname", compressor},
                                        {"clevel", level},
                                        {"shuffle", shuffle},
                                        {"typesize", item_bytes},
                                        {"blocksize", block_bytes}});
  fuzz_byte_codec(*codec, input);
  return 0;
}
