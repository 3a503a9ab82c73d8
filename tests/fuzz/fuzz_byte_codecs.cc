// The bytes-to-bytes codecs of numcodecs that have no target of their own, by the first byte.

#include "codec_fuzz.h"

namespace {

using namespace penstock;

struct subject {
  std::string_view name, settings;
};

constexpr subject kSubjects[] = {
    {"numcodecs.zlib", R"({"level":1})"},
    {"numcodecs.lz4", R"({"acceleration":1})"},
    {"numcodecs.bz2", R"({"level":1})"},
    {"numcodecs.lzma", R"({"format":0,"preset":0})"},
    {"numcodecs.lzma", R"({"format":1,"preset":0})"},
    {"numcodecs.lzma", R"({"format":2,"preset":0})"},
    {"numcodecs.lzma", R"({"format":3,"filters":[{"id":3,"dist":2},{"id":33,"preset":0}]})"},
    {"numcodecs.shuffle", R"({"elementsize":1})"},
    {"numcodecs.adler32", R"({})"},
    {"numcodecs.crc32", R"({"location":"end"})"},
    {"numcodecs.crc32c", R"({"location":"start"})"},
    {"numcodecs.fletcher32", R"({})"},
    {"numcodecs.jenkins_lookup3", R"({"initval":1})"},
    {"numcodecs.base64", R"({})"},
    {"conditional", R"({"codecs":[{"name":"numcodecs.shuffle"},{"name":"numcodecs.gzip"},"crc32c"],"header_bits":16})"},
};

}  // namespace

extern "C" int run_byte_codecs(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const subject& chosen = kSubjects[input.below(std::size(kSubjects))];
  const auto codec = make_byte_codec({std::string(chosen.name), json::parse(chosen.settings).value()}, 1);
  require(codec.ok());
  fuzz_byte_codec(**codec, input);
  return 0;
}
