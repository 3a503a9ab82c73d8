#include "format/zarr/zarr_v2.h"

#include <gtest/gtest.h>

#include <string>

#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_writer.h"

namespace penstock {
namespace {

constexpr const char* kValid = R"({"zarr_format": 2, "shape": [10, 20], "chunks": [4, 5], "dtype": "<i2",
  "compressor": {"id": "zstd", "level": 3}, "fill_value": -2, "order": "C", "filters": null})";

std::string with(std::string_view what, std::string_view instead) {
  std::string text = kValid;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

result<zarr_metadata> parsed(std::string_view text) {
  result<json> document = json::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_zarr_v2_array(*document, nullptr);
}

std::string refusal(std::string_view text) {
  result<zarr_metadata> out = parsed(text);
  return out.ok() ? "accepted" : std::string(to_string(out.error().code())) + ": " + out.error().message();
}

std::string chain_of(const zarr_metadata& metadata) {
  std::string out;
  for (const codec_config& codec : metadata.codecs.chain) {
    out += codec.name + codec.configuration.dump() + " ";
  }
  return out;
}

std::string key_of(const zarr_metadata& metadata, object_id object) {
  auto layout = zarr_layout::make(metadata);
  EXPECT_TRUE(layout.ok()) << layout.error().to_string();
  std::string key;
  (*layout)->key(object, key);
  return key;
}

TEST(ZarrV2, ReadsAnArray) {
  result<json> attributes = json::parse(R"({"units": "K"})");
  result<zarr_metadata> out = parse_zarr_v2_array(*json::parse(kValid), &*attributes);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->zarr_format, 2);
  EXPECT_EQ(out->kind, zarr_node_kind::array);
  EXPECT_EQ(out->shape, (extents{10, 20}));
  EXPECT_EQ(out->grid.chunk, (extents{4, 5}));
  EXPECT_EQ(out->type.name(), "int16");
  EXPECT_EQ(out->fill_value, (std::vector<std::byte>{std::byte{0xfe}, std::byte{0xff}}));
  EXPECT_EQ(out->attributes.dump(), R"({"units":"K"})");
  EXPECT_EQ(out->codecs_json.dump(), R"([{"id":"zstd","level":3}])");
  EXPECT_EQ(chain_of(*out), R"(bytes{"endian":"little"} numcodecs.zstd{"level":3} )");
  EXPECT_EQ(key_of(*out, 6), "1.2");
}

TEST(ZarrV2, TurnsOrderByteOrderFiltersAndCompressorIntoOneChain) {
  result<zarr_metadata> out = parsed(
      R"({"zarr_format": 2, "shape": [10, 20, 3], "chunks": [4, 5, 3], "dtype": ">f8", "fill_value": "NaN",
          "compressor": null, "order": "F", "filters": [{"id": "delta", "dtype": ">f8"}, {"id": "zlib", "level": 1}],
          "dimension_separator": "/"})");
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(
      chain_of(*out),
      R"(transpose{"order":[2,1,0]} bytes{"endian":"big"} numcodecs.delta{"dtype":">f8"} numcodecs.zlib{"level":1} )");
  EXPECT_EQ(out->keys.separator, '/');
}

TEST(ZarrV2, DeterminesTheTypeOfObjectsByTheirCodec) {
  const auto type = [](std::string_view filters) {
    std::string text = with("\"<i2\"", "\"|O\"");
    text.replace(text.find("-2"), 2, "\"\"");
    text.replace(text.rfind("null"), 4, filters);
    result<zarr_metadata> out = parsed(text);
    return out.ok() ? out->type.kind() : dtype_kind::boolean;
  };
  EXPECT_EQ(type(R"([{"id": "vlen-utf8"}])"), dtype_kind::variable_utf8);
  EXPECT_EQ(type(R"([{"id": "vlen-bytes"}])"), dtype_kind::variable_bytes);
  EXPECT_EQ(type(R"([{"id": "json2"}])"), dtype_kind::object);
  EXPECT_EQ(type(R"([{"id": "vlen-array", "dtype": ["<i4", [2, 3]]}])"), dtype_kind::variable_list);
  EXPECT_EQ(type(R"([{"id": "vlen-array", "dtype": ["<i4", [2, 0]]}])"), dtype_kind::object);
  EXPECT_EQ(type(R"([{"id": "vlen-array", "dtype": ["<i4", [2, -3]]}])"), dtype_kind::object);
  EXPECT_EQ(refusal(with("\"<i2\"", "\"|O\"")),
            "unsupported: .zarray: data type \"|O\" has no object codec in 'filters', it is not readable");
}

TEST(ZarrV2, ReadsStructuresWithByteOrdersOfTheirOwn) {
  result<zarr_metadata> out =
      parsed(with("\"<i2\"", R"([["a", "<u2"], ["b", [["c", ">f4"], ["d", "|S3"]]], ["e", ">i4", [2, 3]]])"));
  EXPECT_EQ(out.error().code(), errc::corrupt_data);  // -2 is not a structure
  std::string text = with("\"<i2\"", R"([["a", "<u2"], ["b", [["c", ">f4"], ["d", "|S3"]]], ["e", ">i4", [2, 3]]])");
  text.replace(text.find("-2"), 2, "null");
  out = parsed(text);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->type.item_bytes(), 2u + 7u + 24u);
  EXPECT_EQ(out->endian.dump(), R"(["little","big","little","big"])");
  auto documents = write_zarr_documents(*out);
  ASSERT_TRUE(documents.ok()) << documents.error().to_string();
  EXPECT_EQ(documents->back().key, ".zarray");
  EXPECT_EQ(documents->back().content.find("dtype")->dump(),
            R"([["a","<u2"],["b",[["c",">f4"],["d","|S3"]]],["e",">i4",[2,3]]])");
  EXPECT_TRUE(documents->back().content.find("fill_value")->is_null());
}

TEST(ZarrV2, NamesTheWrongMember) {
  EXPECT_EQ(refusal(with("[4, 5]", "[4]")), "corrupt_data: .zarray: chunks has 1 dimension, shape has 2");
  EXPECT_EQ(refusal(with("[4, 5]", "[4, 0]")), "corrupt_data: .zarray: member 'chunks[1]' is 0, needs at least 1");
  EXPECT_EQ(refusal(with("\"C\"", "\"K\"")), "corrupt_data: .zarray: member 'order' is \"K\", needs \"C\" or \"F\"");
  EXPECT_EQ(refusal(with("\"<i2\"", "\"<c32\"")), "unsupported: .zarray: data type \"<c32\" is not readable");
  EXPECT_EQ(refusal(with("\"zarr_format\": 2", "\"zarr_format\": 3")),
            "corrupt_data: .zarray: member 'zarr_format' is 3, needs 2");
  EXPECT_EQ(refusal(with("\"filters\": null", "\"filters\": 1")).substr(0, 41),
            "corrupt_data: .zarray: member 'filters' i");
  EXPECT_EQ(refusal(with("{\"id\": \"zstd\", \"level\": 3}", "{\"level\": 3}")).substr(0, 44),
            "corrupt_data: .zarray: member 'compressor' i");
  EXPECT_EQ(refusal(with("-2", "70000")),
            "corrupt_data: .zarray: member 'fill_value' is 70000, data type int16 needs an integer that fits");
  EXPECT_EQ(refusal("[]").substr(0, 30), "corrupt_data: .zarray is a JSO");
}

TEST(ZarrV2, PassesOverMembersThatItDoesNotKnow) {
  EXPECT_EQ(refusal(with("\"order\"", "\"_nczarr_array\": {}, \"order\"")), "accepted");
}

TEST(ZarrV2, AcceptsChunksOfLength0InEmptyDimensions) {
  result<zarr_metadata> out = parsed(R"({"zarr_format": 2, "shape": [0], "chunks": [0], "dtype": "|u1",
    "compressor": null, "fill_value": null, "order": "C", "filters": null})");
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->grid.chunk, (extents{1}));
  EXPECT_TRUE(out->fill_json.is_null());
}

TEST(ZarrV2, NamesTheOnlyChunkOfAScalar0) {
  result<zarr_metadata> out = parsed(R"({"zarr_format": 2, "shape": [], "chunks": [], "dtype": "|u1",
    "compressor": null, "fill_value": 0, "order": "F", "filters": []})");
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(key_of(*out, 0), "0");
}

TEST(ZarrV2, WritesTheDocumentsThatItReads) {
  for (const char* text : {kValid,
                           R"({"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": ">M8[10ns]", "compressor": null,
            "fill_value": -9223372036854775808, "order": "F", "filters": [{"id": "shuffle", "elementsize": 8}],
            "dimension_separator": "/"})"}) {
    result<zarr_metadata> out = parsed(text);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    auto documents = write_zarr_documents(*out);
    ASSERT_TRUE(documents.ok());
    const json read = *json::parse(text);
    for (const auto& [name, value] : *read.as_object()) {
      ASSERT_NE(documents->back().content.find(name), nullptr) << name;
      EXPECT_EQ(documents->back().content.find(name)->dump(), value.dump()) << name;
    }
  }
}

TEST(ZarrV2, ReadsAGroup) {
  const json document = *json::parse(R"({"zarr_format": 2})");
  const json attributes = *json::parse(R"({"a": [1, 2]})");
  result<zarr_metadata> out = parse_zarr_v2_group(document, &attributes);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->kind, zarr_node_kind::group);
  EXPECT_EQ(out->attributes.dump(), R"({"a":[1,2]})");
  EXPECT_EQ(parse_zarr_v2_group(*json::parse("{}"), nullptr).error().code(), errc::corrupt_data);
  EXPECT_EQ(parse_zarr_v2_group(document, &document).ok(), true);
  const json list = *json::parse("[]");
  EXPECT_EQ(parse_zarr_v2_group(document, &list).error().code(), errc::corrupt_data);
}

}  // namespace
}  // namespace penstock
