#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "codec/array_stages.h"
#include "codec/byte_codecs.h"

namespace penstock::inline v0 {
namespace {

struct entry {
  std::string_view name;
  byte_codec_factory* make;
};

constexpr entry kByteCodecs[] = {
    {"blosc", make_blosc_codec},
    {"crc32c", make_crc32c_codec},
    {"gzip", make_gzip_codec},
    {"zstd", make_zstd_codec},
};

}  // namespace

result<std::shared_ptr<const byte_codec>> make_byte_codec(const codec_config& config, std::uint32_t) {
  for (const entry& known : kByteCodecs) {
    if (known.name == config.name) return known.make(config);
  }
  return error{errc::unsupported,
               fmt::format("no codec '{}'; there are {}", config.name, fmt::join(codec_names(), ", "))};
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names(kArrayCodecNames.begin(), kArrayCodecNames.end());
  for (const entry& known : kByteCodecs) names.emplace_back(known.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace penstock::inline v0
