// The codecs of HDF5's filters, by the first byte: hostile bytes, and for those that can be written a round trip.

#include "codec_fuzz.h"

namespace {

using namespace penstock;

struct subject {
  std::string_view name, settings;
  bool writes = false;
};

constexpr subject kSubjects[] = {
    {"hdf5.lzf", "{}"},
    {"hdf5.lz4", "{}"},
    {"hdf5.bitshuffle", R"({"elementsize":4,"blocksize":0,"compression":"none"})"},
    {"hdf5.bitshuffle", R"({"elementsize":3,"blocksize":16,"compression":"lz4"})"},
    {"hdf5.bitshuffle", R"({"elementsize":8,"blocksize":0,"compression":"zstd"})"},
    {"hdf5.szip", R"({"options":141,"block":8,"bits":8,"scanline":32})"},
    {"hdf5.szip", R"({"options":169,"block":4,"bits":64,"scanline":16})"},
    {"hdf5.szip", R"({"options":133,"block":32,"bits":24,"scanline":100})"},
    {"hdf5.nbit", R"({"parameters":[8,0,10,1,4,0,17,3]})"},
    {"hdf5.nbit", R"({"parameters":[20,0,3,3,12,2,0,1,4,1,20,5,4,2,8,1,2,0,9,0]})"},
    {"hdf5.scaleoffset", R"({"parameters":[2,0,10,0,4,1,0,1,7]})"},
    {"hdf5.scaleoffset", R"({"parameters":[0,3,10,1,8,1,1,0]})"},
    {"hdf5.bits", R"({"elementsize":4,"precision":17,"offset":3,"signed":true,"endian":"big"})"},
    {"hdf5.string", R"({"elementsize":9,"fields":[[0,2,3,0],[6,1,3,1]]})"},
    {"hdf5.shuffle", R"({"elementsize":4})", true},
    {"hdf5.shuffle", R"({"elementsize":7})", true},
    {"hdf5.field", R"({"elementsize":24,"offset":5,"bytes":8})"},
    {"hdf5.cast", R"({"from":">f8","to":"<i2"})"},
    {"hdf5.cast", R"({"from":"<f2","to":"<f4"})"},
    {"hdf5.number", R"({"kind":"integer","elementsize":3,"to":4,"precision":20,"offset":2,"signed":true})"},
    {"hdf5.number",
     R"({"kind":"float","elementsize":3,"to":4,"sign":23,"exponent":16,"exponent_bits":7,"mantissa":0,"mantissa_bits":16,"bias":63,"endian":"big"})"},
};

// Headers of zfp with all modes, of 16 x 16 and 8 x 8 x 8 numbers, with damage in them: they say how much is decoded.
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
  if (!codec.ok()) {  // also on a machine without libzfp
    require(codec.error().code() == errc::corrupt_data || codec.error().code() == errc::unsupported);
    return;
  }
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const std::size_t room = input.byte() | input.byte() << 8;
  decode_hostile(**codec, input.rest(), room, scratch);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const std::size_t which = input.below(std::size(kSubjects) + 1);
  if (which == std::size(kSubjects)) {
    fuzz_zfp(input);
    return 0;
  }
  const subject& chosen = kSubjects[which];
  const auto codec = make_byte_codec({std::string(chosen.name), json::parse(chosen.settings).value()}, 1);
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
