// The codecs of HDF5's filters (codec/filter_fixture.h), by the first byte: hostile bytes, and for those that can be
// written a round trip.

#include "codec/filter_fixture.h"
#include "codec_fuzz.h"

namespace {

using namespace penstock;

// Headers of zfp with all modes, of 16 x 16 and 8 x 8 x 8 numbers, with damage in them: they determine the decoded
// size.
void fuzz_zfp(fuzz_input& input) {
  constexpr std::uint32_t kHeaders[][6] = {{0, 91252346, 4026532342, 3401580544},
                                           {0, 91252346, 4026532343, 334495744},
                                           {0, 91252346, 1835130, 4293918736, 3275489280, 493487}};
  const auto& header = kHeaders[input.below(std::size(kHeaders))];
  json::array_t words;
  for (const std::uint32_t word : header) {
    const std::uint32_t damage = input.byte();
    words.push_back(json(std::uint64_t{word ^ (damage & 15) << (2 * (damage >> 4))}));
  }
  const auto codec = make_byte_codec({"hdf5.zfp", json(json::object_t{{"parameters", json(std::move(words))}})}, 1);
  if (!codec.ok()) {  // for example, on a machine without libzfp
    require(codec.error().code() == errc::corrupt_data || codec.error().code() == errc::unsupported);
    return;
  }
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const std::size_t room = input.byte() | input.byte() << 8;
  decode_hostile(**codec, input.rest(), room, scratch);
}

}  // namespace

extern "C" int run_hdf5_codecs(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const std::size_t which = input.below(std::size(kReadOnlyRows) + 1);
  if (which == std::size(kReadOnlyRows)) {
    fuzz_zfp(input);
    return 0;
  }
  const read_only_row& chosen = kReadOnlyRows[which];
  const auto codec = make_codec(chosen);
  require(codec.ok());
  if (chosen.writes) {
    fuzz_byte_codec(**codec, input);
    return 0;
  }
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const std::size_t room = input.byte() | input.byte() << 8;
  decode_hostile(**codec, input.rest(), room, scratch);
  std::byte out[8];
  const auto encoded = (*codec)->encode(input.rest(), out, scratch);
  require(!encoded.ok() && encoded.error().code() == errc::unsupported);
  return 0;
}
