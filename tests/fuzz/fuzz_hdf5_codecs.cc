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
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const subject& chosen = kSubjects[input.below(std::size(kSubjects))];
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
