#include "contract/filter_contract.h"

#include <cctype>
#include <initializer_list>
#include <set>
#include <vector>

namespace penstock::contract {
namespace {

bytes raw(std::initializer_list<int> values) {
  bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

/// Made by hand from the descriptions of the formats; hdf5_codecs_test.cc describes them.
const std::vector<read_sample>& samples() {
  static const std::vector<read_sample> all = {
      {"hdf5.lzf", "{}", raw({1, 7, 8, 0x20, 0}), raw({7, 8, 8, 8, 8})},
      {"hdf5.lzf", "{}", raw({0, 5, 0xe0, 1, 0}), bytes(11, std::byte{5})},
      {"hdf5.lz4", "{}", raw({0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 2, 4, 5}),
       raw({1, 2, 3, 4, 5})},
      {"hdf5.bitshuffle", R"({"elementsize":2,"blocksize":8,"compression":"none"})",
       raw({255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15}),
       raw({1, 128, 1, 128, 1, 128, 1, 128, 1, 0, 1, 0, 1, 0, 1, 0})},
      {"hdf5.nbit", R"({"parameters":[8,0,2,1,1,0,5,2]})", raw({0xb0, 0x40}), raw({88, 4})},
      {"hdf5.nbit", R"({"parameters":[8,0,1,1,2,1,12,0]})", raw({0xab, 0xc0}), raw({10, 188})},
      {"hdf5.scaleoffset", R"({"parameters":[2,0,2,0,2,1,0,1,9]})",
       raw({4, 0, 0, 0, 8, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3f}), raw({103, 0, 9, 0})},
      {"hdf5.scaleoffset", R"({"parameters":[2,0,2,0,2,1,1,0]})",
       raw({16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}), raw({2, 1, 4, 3})},
      {"hdf5.bits", R"({"elementsize":2,"precision":5,"offset":3,"signed":true})", raw({0xb8, 0, 0x78, 0}),
       raw({247, 255, 15, 0})},
      {"hdf5.string", R"({"elementsize":6,"fields":[[0,1,3,0],[3,1,3,1]]})", raw({97, 0, 98, 32, 99, 32}),
       raw({97, 0, 0, 32, 99, 0})},
      {"hdf5.shuffle", R"({"elementsize":2})", raw({1, 3, 2, 4, 9}), raw({1, 2, 3, 4, 9})},
      {"hdf5.field", R"({"elementsize":4,"offset":1,"bytes":2})", raw({1, 2, 3, 4, 5, 6, 7, 8}), raw({2, 3, 6, 7})},
      {"hdf5.cast", R"({"from":">i2","to":"|i1"})", raw({0x80, 0, 0, 100, 0x7f, 0xff, 0xff, 0xff}),
       raw({128, 100, 127, 255})},
      {"hdf5.cast", R"({"from":"<f2","to":"<f4"})", raw({0, 0x3c}), raw({0, 0, 128, 63})},
      // 20 bits from bit 2 of three bytes: -1 and 5.
      {"hdf5.number", R"({"kind":"integer","elementsize":3,"to":4,"precision":20,"offset":2,"signed":true})",
       raw({0xfc, 0xff, 0x3f, 20, 0, 0}), raw({255, 255, 255, 255, 5, 0, 0, 0})},
      // VAX's F_floating: -1.5, and 2^126, whose exponent has all bits.
      {"hdf5.number",
       R"({"kind":"float","elementsize":4,"to":8,"sign":31,"exponent":23,"exponent_bits":8,"mantissa":0,"mantissa_bits":23,"bias":129,"endian":"vax"})",
       raw({0xc0, 0xc0, 0, 0, 0x80, 0x7f, 0, 0}), raw({0, 0, 0, 0, 0, 0, 0xf8, 0xbf, 0, 0, 0, 0, 0, 0, 0xd0, 0x47})},
      // A chunk of h5py 3.16 (HDF5's own library), with the filter's parameters in its file.
      {"hdf5.szip", R"({"options":169,"block":8,"bits":8,"scanline":32})",
       raw({32, 0, 0, 0, 76, 137, 185, 61, 97, 15, 203, 188, 0, 0, 7, 131, 192, 192, 240, 127, 255, 25, 0, 0, 0}),
       raw({100, 101, 103, 102, 100, 99,  98,  100, 101, 140, 100, 100, 100, 100, 100, 100,
            100, 100, 100, 100, 100, 100, 100, 101, 99,  97,  0,   255, 3,   100, 100, 100})},
      // A frame of one chunk that is a plain copy, written by hdf5plugin.
      {"hdf5.blosc2", "{}",
       raw({158, 168, 98,  50,  102, 114, 97,  109, 101, 0, 210, 0,   0,  0,   97,  207, 0,   0,   0,   0, 0, 0,
            0,   216, 164, 18,  0,   81,  3,   211, 0,   0, 0,   0,   0,  0,   0,   12,  211, 0,   0,   0, 0, 0,
            0,   0,   44,  210, 0,   0,   0,   2,   210, 0, 0,   0,   12, 210, 0,   0,   0,   12,  209, 0, 0, 209,
            0,   1,   194, 216, 6,   0,   0,   0,   0,   0, 1,   1,   0,  0,   0,   0,   0,   0,   0,   0, 0, 147,
            205, 0,   7,   222, 0,   0,   220, 0,   0,   5, 1,   7,   2,  12,  0,   0,   0,   12,  0,   0, 0, 44,
            0,   0,   0,   0,   0,   0,   0,   0,   1,   1, 0,   0,   0,  0,   0,   0,   0,   0,   0,   0, 0, 1,
            0,   2,   0,   3,   0,   4,   0,   5,   0,   5, 1,   7,   8,  8,   0,   0,   0,   8,   0,   0, 0, 40,
            0,   0,   0,   0,   0,   0,   0,   0,   1,   0, 0,   0,   0,  0,   0,   0,   0,   0,   0,   0, 0, 0,
            0,   0,   0,   0,   0,   148, 1,   147, 205, 0, 6,   222, 0,  0,   220, 0,   0,   206, 0,   0, 0, 35,
            216, 0,   0,   0,   0,   0,   0,   0,   0,   0, 0,   0,   0,  0,   0,   0,   0,   0}),
       raw({0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0})},
      // Also written by h5py: zfp's reversible mode. Its codec needs the shape of a chunk, so the rows of codecs that
      // accept any bytes cannot include it.
      {"hdf5.zfp", R"({"parameters":[269504785,91252346,50,2281701376]})", raw({5, 22, 60, 67}),
       raw({0, 0, 128, 63, 0, 0, 192, 63, 0, 0, 0, 64, 0, 0, 16, 64})},
      {"hdf5.zfp", R"({"parameters":[269504785,91252346,48,2281701376]})", raw({31, 0, 0, 0, 148, 4}),
       raw({0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0})},
  };
  return all;
}

std::string name_of(std::string_view name, std::size_t index) {
  std::string out(name);
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return out + "_" + std::to_string(index);
}
constexpr auto kNameOf = [](const auto& each) { return name_of(each.param.name, each.index); };

INSTANTIATE_TEST_SUITE_P(Filters, FilterContract, testing::ValuesIn(kFilterRows), kNameOf);
INSTANTIATE_TEST_SUITE_P(Hdf5, ReadOnlyCodecContract, testing::ValuesIn(kReadOnlyRows), kNameOf);
INSTANTIATE_TEST_SUITE_P(Hdf5, ReadSampleContract, testing::ValuesIn(samples()), kNameOf);

TEST(ReadOnlyCodecs, HaveSamples) {
  std::set<std::string_view> sampled;
  for (const read_sample& each : samples()) sampled.insert(each.name);
  for (const read_only_row& each : kReadOnlyRows) EXPECT_EQ(sampled.count(each.name), 1u) << each.name;
}

}  // namespace
}  // namespace penstock::contract
