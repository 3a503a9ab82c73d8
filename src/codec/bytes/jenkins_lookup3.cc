#include "base/lookup3.h"
#include "codec/byte_codecs.h"
#include "codec/bytes/checksum_codec.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {

result<compiled_codec> make_jenkins_lookup3_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"initval", "prefix"}));
  PENSTOCK_ASSIGN(const std::int64_t seed, members.integer("initval", 0, 0xffffffff, 0));
  if (members.has("prefix")) {
    // numcodecs' setting is bytes, which JSON cannot hold.
    return error{errc::unsupported, "codec 'jenkins_lookup3' is supported without a prefix only"};
  }
  return make_checksum_codec("jenkins_lookup3", lookup3, checksum_place::end, input, static_cast<std::uint32_t>(seed));
}

}  // namespace penstock::inline v0
