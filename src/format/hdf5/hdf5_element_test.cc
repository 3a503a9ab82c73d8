#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_filter_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "format/hdf5/hdf5_compound.h"

namespace penstock::inline v0 {
namespace {

using kind = hdf5_type::kind;

hdf5_type integer(std::uint32_t bytes, bool big_endian = false) {
  hdf5_type out;
  out.what = kind::integer;
  out.bytes = bytes;
  out.is_signed = true;
  out.big_endian = big_endian;
  out.precision = 8 * bytes;
  return out;
}

hdf5_type float32() {
  hdf5_type out;
  out.what = kind::floating;
  out.bytes = 4;
  out.precision = 32;
  out.fields = {31, 23, 8, 0, 23, 127, 2};
  return out;
}

hdf5_type text(std::uint32_t bytes, hdf5_type::pad padding) {
  hdf5_type out;
  out.what = kind::text;
  out.bytes = bytes;
  out.padding = padding;
  return out;
}

hdf5_type compound(std::uint32_t bytes, std::vector<hdf5_member> members) {
  hdf5_type out;
  out.what = kind::compound;
  out.bytes = bytes;
  out.members = std::move(members);
  return out;
}

std::string codecs(const hdf5_element& of) { return json(of.codecs()).dump(); }

TEST(Hdf5Element, IntegersWithUnusedBitsHaveACodec) {
  const auto whole = hdf5_element_of(integer(2, true));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->dtype, json(">i2"));
  EXPECT_TRUE(whole->codecs().empty());
  hdf5_type part = integer(4);
  part.precision = 10;
  part.bit_offset = 3;
  const auto made = hdf5_element_of(part);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(codecs(*made),
            R"([{"id":"hdf5.bits","elementsize":4,"precision":10,"offset":3,"signed":true,"endian":"little"}])");
  part.what = kind::bits;  // h5py reads all bits of these
  part.is_signed = false;
  EXPECT_EQ(hdf5_element_of(part)->dtype, json("<u4"));
  EXPECT_TRUE(hdf5_element_of(part)->codecs().empty());
}

TEST(Hdf5Element, NumbersOfOtherWidthsBecomeTheNextWiderOnes) {
  const auto three = hdf5_element_of(integer(3));
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(three->dtype, json("<i4"));
  EXPECT_EQ(three->stored_bytes, 3U);
  EXPECT_EQ(three->item_bytes, 4U);
  EXPECT_EQ(codecs(*three), R"([{"id":"hdf5.number","kind":"integer","elementsize":3,"to":4,"endian":"little",)"
                            R"("precision":24,"offset":0,"signed":true}])");
  EXPECT_EQ(hdf5_element_of(integer(16)).error().message(),
            "HDF5 elements of integers of 128 bits in 16 bytes are not readable");
}

TEST(Hdf5Element, FloatsOfVaxBecomeDoubles) {
  hdf5_type f_floating = float32();
  f_floating.vax = true;
  f_floating.fields.bias = 129;
  const auto made = hdf5_element_of(f_floating);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->dtype, json("<f8"));
  EXPECT_EQ(codecs(*made),
            R"([{"id":"hdf5.number","kind":"float","elementsize":4,"to":8,"endian":"vax","sign":31,"exponent":23,)"
            R"("exponent_bits":8,"mantissa":0,"mantissa_bits":23,"bias":129,"implied":true}])");
  hdf5_type d_floating = f_floating;
  d_floating.bytes = 8;
  d_floating.precision = 64;
  d_floating.fields = {63, 55, 8, 0, 55, 129, 2};
  EXPECT_EQ(hdf5_element_of(d_floating).error().message(),
            "HDF5 elements of VAX floats of 64 bits with fields (63, 55, 8, 0, 55) are not readable");
}

TEST(Hdf5Element, Binary128IsRefusedByName) {
  hdf5_type type = float32();
  type.bytes = 16;
  type.precision = 128;
  type.fields = {127, 112, 15, 0, 112, 16383, 2};
  EXPECT_EQ(hdf5_element_of(type).error().message(),
            "HDF5 elements of IEEE binary128 (floats of 128 bits) are not readable");
}

TEST(Hdf5Element, CompoundMembersAreSortedWithUnnamedGaps) {
  const auto made = hdf5_element_of(compound(16, {{"b", 8, integer(4)}, {"a", 2, integer(2)}}));
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->dtype.dump(), R"([["","|V2"],["a","<i2"],["","|V4"],["b","<i4"],["","|V4"]])");
  EXPECT_EQ(made->item_bytes, 16U);
  const auto overlap = hdf5_element_of(compound(8, {{"a", 0, integer(4)}, {"b", 2, integer(4)}}));
  ASSERT_FALSE(overlap.ok());
  EXPECT_EQ(overlap.error().code(), errc::corrupt_data);
}

TEST(Hdf5Element, TwoEqualFloatsNamedRAndIAreComplex) {
  EXPECT_EQ(hdf5_element_of(compound(8, {{"r", 0, float32()}, {"i", 4, float32()}}))->dtype, json("<c8"));
  const auto gap = hdf5_element_of(compound(12, {{"r", 0, float32()}, {"i", 8, float32()}}));
  EXPECT_EQ(gap->dtype.dump(), R"([["r","<f4"],["","|V4"],["i","<f4"]])");
  // Floats of 32 bits that are not those of IEEE 754 are converted, which halves of complex numbers are not.
  hdf5_type biased = float32();
  biased.fields.bias = 100;
  EXPECT_FALSE(hdf5_element_of(biased)->codecs().empty());
  EXPECT_TRUE(is_hdf5_member_group(compound(8, {{"r", 0, biased}, {"i", 4, biased}})));
  hdf5_type complex;
  complex.what = kind::complex;
  complex.bytes = 8;
  complex.base = {biased};
  EXPECT_EQ(hdf5_element_of(complex).error().code(), errc::unsupported);
  complex.base = {float32()};
  EXPECT_EQ(hdf5_element_of(complex)->dtype, json("<c8"));
  hdf5_type half = float32();
  half.bytes = 2;
  half.precision = 16;
  half.fields = {15, 10, 5, 0, 10, 15, 2};
  complex.bytes = 4;
  complex.base = {half};
  EXPECT_EQ(hdf5_element_of(complex)->dtype.dump(), R"([["r","<f2"],["i","<f2"]])");
  EXPECT_EQ(hdf5_element_of(complex)->item_bytes, 4U);
}

TEST(Hdf5Element, OneByteOfTextIsCutOnlyIfItMayBeASpace) {
  using pad = hdf5_type::pad;
  EXPECT_EQ(codecs(*hdf5_element_of(text(1, pad::terminated))), "[]");
  EXPECT_EQ(codecs(*hdf5_element_of(text(1, pad::zeros))), "[]");
  EXPECT_NE(codecs(*hdf5_element_of(text(1, pad::spaces))), "[]");
  EXPECT_NE(codecs(*hdf5_element_of(text(2, pad::terminated))), "[]");
}

TEST(Hdf5Element, TextWithinCompoundsIsCutWhereItEnds) {
  using pad = hdf5_type::pad;
  hdf5_type three = text(4, pad::spaces);
  hdf5_type array;
  array.what = kind::array;
  array.bytes = 12;
  array.extents = {3};
  array.base = {three};
  const auto made = hdf5_element_of(
      compound(20, {{"x", 0, array}, {"y", 12, text(4, pad::terminated)}, {"z", 16, text(4, pad::zeros)}}));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(codecs(*made), R"([{"id":"hdf5.string","elementsize":20,"fields":[[0,3,4,1],[12,1,4,0]]}])");
  array.extents = {1001};
  array.bytes = 4004;
  const auto many = hdf5_element_of(compound(4004, {{"x", 0, array}}));
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().message(), "HDF5 elements of a compound whose member 'x' has 1001 texts are not readable");
}

TEST(Hdf5Element, NamesThatAreNotUtf8StayDifferent) {
  const auto made = hdf5_element_of(compound(8, {{"a\xff", 0, integer(4)}, {"a\xfe", 4, integer(4)}}));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->dtype.dump(), R"([["a\\xff","<i4"],["a\\xfe","<i4"]])");
}

TEST(Hdf5Element, OpaqueTypesWithATimeOfNumpyAreTimes) {
  hdf5_type type;
  type.what = kind::opaque;
  type.bytes = 8;
  type.tag = "NUMPY:<M8[10us]";
  EXPECT_EQ(hdf5_element_of(type)->dtype, json("<M8[10us]"));
  type.tag = "NUMPY:<f8";
  EXPECT_EQ(hdf5_element_of(type)->dtype, json("|V8"));
}

TEST(Hdf5Element, ArraysAddAxes) {
  hdf5_type array;
  array.what = kind::array;
  array.bytes = 24;
  array.extents = {2, 3};
  array.base = {float32()};
  const auto made = hdf5_element_of(array);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->dtype, json("<f4"));
  EXPECT_EQ(made->shape, (std::vector<std::uint64_t>{2, 3}));
  array.base[0].what = kind::reference;
  array.base[0].refers_to = hdf5_type::target::object;
  const auto references = hdf5_element_of(array);
  ASSERT_TRUE(references.ok());
  EXPECT_EQ(references->elsewhere, hdf5_element::outside::object);
  EXPECT_EQ(references->shape, (std::vector<std::uint64_t>{2, 3}));
}

// Those of groups end with a slash.
std::vector<std::string> names_in(const hdf5_type& of) {
  std::vector<std::string> out;
  for (const hdf5_member_name& each : hdf5_field_names(of)) out.push_back(each.name + (each.is_group ? "/" : ""));
  return out;
}

TEST(Hdf5Element, MembersOfAGroupAreFoundByTheirPath) {
  hdf5_type word;
  word.what = kind::variable;
  word.is_text = true;
  word.bytes = 16;
  const hdf5_type inner = compound(20, {{"..", 0, word}, {"n", 16, integer(4)}});
  const hdf5_type table = compound(40, {{"a/b", 0, integer(4)}, {"in", 8, inner}, {"", 28, integer(4)}});
  EXPECT_TRUE(is_hdf5_member_group(table));
  EXPECT_FALSE(is_hdf5_member_group(compound(4, {{"n", 0, integer(4)}})));
  EXPECT_EQ(names_in(table), (std::vector<std::string>{R"(a\x2fb)", "in/", R"(\x00)"}));
  const auto found = find_hdf5_field(table, "/in/n");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->offset, 24U);
  EXPECT_EQ(found->path, "in/n");
  EXPECT_EQ(find_hdf5_field(table, R"(in/\x2e\x2e)")->offset, 8U);
  for (const char* none : {"", "/", "a", "in/none", "in/n/x", R"(a\x2fb/x)"})
    EXPECT_FALSE(find_hdf5_field(table, none).has_value()) << none;
}

TEST(Hdf5Element, MembersWithinArraysOfCompoundsAreArrays) {
  hdf5_type word;
  word.what = kind::variable;
  word.is_text = true;
  word.bytes = 16;
  const hdf5_type inner = compound(20, {{"word", 0, word}, {"n", 16, integer(4)}});
  hdf5_type pair;
  pair.what = kind::array;
  pair.extents = {2, 3};
  pair.bytes = 120;
  pair.base = {inner};
  const hdf5_type table = compound(128, {{"in", 8, pair}, {"k", 0, integer(8)}});
  EXPECT_TRUE(is_hdf5_member_group(pair));
  EXPECT_EQ(names_in(pair), (std::vector<std::string>{"word", "n"}));
  EXPECT_EQ(names_in(table), (std::vector<std::string>{"in/", "k"}));
  const auto found = find_hdf5_field(table, "in/n");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->type.extents, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(found->type.bytes, 24U);
  ASSERT_EQ(found->parts.size(), 2U);
  EXPECT_EQ(found->parts[0].item_bytes, 128U);
  EXPECT_EQ(found->parts[0].offset, 8U);
  EXPECT_EQ(found->parts[0].bytes, 120U);
  EXPECT_EQ(found->parts[1].item_bytes, 20U);
  EXPECT_EQ(found->parts[1].offset, 16U);
  EXPECT_EQ(found->parts[1].bytes, 4U);
  EXPECT_EQ(found->levels, (std::vector<std::vector<std::uint64_t>>{{}, {2, 3}}));
  const auto direct = find_hdf5_field(pair, "word");
  ASSERT_TRUE(direct.has_value());
  ASSERT_EQ(direct->parts.size(), 1U);
  EXPECT_EQ(direct->parts[0].item_bytes, 20U);
  EXPECT_EQ(direct->type.bytes, 96U);
}

TEST(Hdf5Element, ListsHaveItemsOfEveryReadableType) {
  hdf5_type list;
  list.what = kind::variable;
  list.bytes = 16;
  list.base = {float32()};
  const auto made = hdf5_element_of(list);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->elsewhere, hdf5_element::outside::list);
  EXPECT_EQ(made->items->type, json("<f4"));
  EXPECT_TRUE(made->items->is_plain());
  hdf5_type lists = list;
  lists.base = {list};
  const auto nested = hdf5_element_of(lists);
  EXPECT_EQ(nested->items->type.dump(), R"({"id":"vlen-array","dtype":"<f4"})");
  EXPECT_EQ(nested->items->elsewhere, hdf5_element::outside::list);
  EXPECT_FALSE(nested->items->has_references());
  EXPECT_TRUE(check_hdf5_reference(nested->elsewhere, lists, 8).ok());
  lists.base[0].bytes = 12;
  EXPECT_EQ(check_hdf5_reference(nested->elsewhere, lists, 8).error().code(), errc::corrupt_data);
  hdf5_type references = list;
  references.base[0] = {};
  references.base[0].what = kind::reference;
  references.base[0].bytes = 8;
  EXPECT_EQ(hdf5_element_of(references)->items->type.dump(), R"({"id":"vlen-utf8"})");
  EXPECT_TRUE(hdf5_element_of(references)->items->has_references());
  hdf5_type padded = list;
  padded.base = {text(3, hdf5_type::pad::terminated)};
  EXPECT_EQ(hdf5_element_of(padded)->items->type, json("|S3"));
  EXPECT_EQ(hdf5_element_of(padded)->items->codec.dump(),
            R"({"id":"hdf5.string","elementsize":3,"fields":[[0,1,3,0]]})");
  hdf5_type wide = list;
  wide.base = {integer(3)};
  EXPECT_EQ(hdf5_element_of(wide)->items->stored_bytes, 3U);
  EXPECT_EQ(hdf5_element_of(wide)->items->item_bytes, 4U);
  hdf5_type array;
  array.what = kind::array;
  array.bytes = 18;
  array.extents = {2, 3};
  array.base = {integer(3)};
  hdf5_type arrays = list;
  arrays.base = {array};
  EXPECT_EQ(hdf5_element_of(arrays)->items->type.dump(), R"(["<i4",[2,3]])");
  EXPECT_EQ(hdf5_element_of(arrays)->items->stored_bytes, 18U);
  EXPECT_EQ(hdf5_element_of(arrays)->items->item_bytes, 24U);
  arrays.base[0].bytes = 96;
  arrays.base[0].base = {list};
  EXPECT_EQ(hdf5_element_of(arrays).error().message(),
            "HDF5 elements of lists of arrays of text, lists or references are not readable");
  list.base[0].what = kind::text;
  list.base[0].bytes = 0;
  EXPECT_FALSE(hdf5_element_of(list).ok());
}

TEST(Hdf5Codec, FiltersHaveTheParametersOfTheFileOrTheirDefaults) {
  const auto text_of = [](std::uint32_t id, std::vector<std::uint32_t> values) {
    const auto made = hdf5_codec_of({id, 0, "name; more", std::move(values)}, 4);
    return made.ok() ? made->dump() : made.error().message();
  };
  EXPECT_EQ(text_of(1, {12}), R"({"id":"zlib","level":9})");
  EXPECT_EQ(text_of(2, {}), R"({"id":"hdf5.shuffle","elementsize":4})");
  EXPECT_EQ(text_of(32008, {0, 4, 0, 0, 2}),
            R"({"id":"hdf5.bitshuffle","elementsize":4,"blocksize":0,"compression":"lz4"})");
  EXPECT_EQ(text_of(32023, {1}), "null");
  EXPECT_EQ(text_of(4, {1}), "HDF5 filter szip has 1 parameters, needs 4");
  EXPECT_EQ(text_of(999, {}), "HDF5 filter 999 (name) is not readable");
  EXPECT_EQ(hdf5_filter_name(32015), "zstd");
  EXPECT_EQ(hdf5_filter_name(999), "");
}

}  // namespace
}  // namespace penstock::inline v0
