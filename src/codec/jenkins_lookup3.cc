// Bob Jenkins' lookup3 hash of bytes (hashlittle), as HDF5 uses it for its metadata.

#include <bit>
#include <cstring>

#include "codec/byte_codecs.h"
#include "codec/checksum_codec.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

struct lookup3_state {
  std::uint32_t a, b, c;

  void mix() noexcept {
    constexpr int kTurns[] = {4, 6, 8, 16, 19, 4};
    for (int i = 0; i < 6; i += 3) {
      a -= c, a ^= std::rotl(c, kTurns[i]), c += b;
      b -= a, b ^= std::rotl(a, kTurns[i + 1]), a += c;
      c -= b, c ^= std::rotl(b, kTurns[i + 2]), b += a;
    }
  }
  void finish() noexcept {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }
  void add(const std::byte* at) noexcept {
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
  }
  static std::uint32_t word(const std::byte* at) noexcept {
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
    return value;
  }
};

std::uint32_t lookup3(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  const std::uint32_t start = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()) + seed;
  lookup3_state state{start, start, start};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 12; at += 12, left -= 12) {
    state.add(at);
    state.mix();
  }
  if (left > 0) {
    std::byte last[12] = {};
    std::memcpy(last, at, left);
    state.add(last);
    state.finish();
  }
  return state.c;
}

}  // namespace

result<compiled_codec> make_jenkins_lookup3_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"initval", "prefix"}));
  PENSTOCK_ASSIGN(const std::int64_t seed, members.integer("initval", 0, 0xffffffff, 0));
  if (members.has("prefix")) {
    // numcodecs takes bytes there, which JSON does not have.
    return error{errc::unsupported, "codec 'jenkins_lookup3' is read without a prefix only"};
  }
  return make_checksum_codec("jenkins_lookup3", lookup3, checksum_place::end, input, static_cast<std::uint32_t>(seed));
}

}  // namespace penstock::inline v0
