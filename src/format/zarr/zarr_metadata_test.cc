#include "format/zarr/zarr_metadata.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "format/zarr/shard_fixture.h"

namespace penstock {
namespace {

constexpr std::string_view kValid = R"({
  "zarr_format": 3, "node_type": "array", "shape": [10, 20], "data_type": "int16",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 5]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
  "fill_value": -2, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
  "attributes": {"units": "K"}, "dimension_names": ["y", null], "storage_transformers": []})";

/// kValid with one part of its text replaced.
std::string with(std::string_view from, std::string_view to) {
  std::string text(kValid);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

result<zarr_metadata> parsed(std::string_view text) { return parse_zarr_metadata(as_bytes(text)); }

/// `code: message` of the refusal.
std::string refusal(std::string_view text) {
  result<zarr_metadata> out = parsed(text);
  if (out.ok()) return "accepted";
  return std::string(to_string(out.error().code())) + ": " + out.error().message();
}

TEST(ZarrMetadata, ReadsEveryMemberOfAnArray) {
  result<zarr_metadata> out = parsed(kValid);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->kind, zarr_node_kind::array);
  EXPECT_EQ(out->shape, (extents{10, 20}));
  EXPECT_EQ(out->grid.chunk, (extents{4, 5}));
  EXPECT_EQ(out->type, dtype(dtype_kind::signed_integer, 16));
  EXPECT_FALSE(out->keys.v2);
  EXPECT_EQ(out->keys.separator, '/');
  EXPECT_EQ(out->fill_value, (std::vector<std::byte>{std::byte{0xfe}, std::byte{0xff}}));
  ASSERT_EQ(out->codecs.chain.size(), 1u);
  EXPECT_EQ(out->codecs.chain[0].name, "bytes");
  EXPECT_EQ(*out->codecs.chain[0].configuration.find("endian")->as_string(), "little");
  EXPECT_EQ(out->codecs.shard, nullptr);
  EXPECT_EQ(*out->attributes.find("units")->as_string(), "K");
  ASSERT_EQ(out->dimension_names.size(), 2u);
  EXPECT_EQ(out->dimension_names[0], "y");
  EXPECT_EQ(out->dimension_names[1], std::nullopt);
}

TEST(ZarrMetadata, ReadsNullForMembersThatAreOptional) {
  std::string text = with(R"({"units": "K"})", "null");
  const std::string list = R"("storage_transformers": [])";
  text.replace(text.find(list), list.size(), R"("storage_transformers": null)");
  const result<zarr_metadata> out = parsed(text);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  ASSERT_NE(out->attributes.as_object(), nullptr);
  EXPECT_TRUE(out->attributes.as_object()->empty());
}

TEST(ZarrMetadata, ReadsAGroup) {
  result<zarr_metadata> out = parsed(R"({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1},
      "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}})");
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->kind, zarr_node_kind::group);
  EXPECT_NE(out->attributes.find("a"), nullptr);

  out = parsed(R"({"zarr_format": 3, "node_type": "group"})");
  ASSERT_TRUE(out.ok());
  ASSERT_NE(out->attributes.as_object(), nullptr);
  EXPECT_TRUE(out->attributes.as_object()->empty());
}

TEST(ZarrMetadata, AcceptsNamesWithoutConfiguration) {
  result<zarr_metadata> out = parsed(with(R"({"name": "default", "configuration": {"separator": "/"}})", R"("v2")"));
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(out->keys.v2);
  EXPECT_EQ(out->keys.separator, '.');

  out =
      parsed(with(R"([{"name": "bytes", "configuration": {"endian": "little"}}])", R"(["bytes", {"name": "crc32c"}])"));
  ASSERT_TRUE(out.ok());
  ASSERT_EQ(out->codecs.chain.size(), 2u);
  EXPECT_EQ(out->codecs.chain[0].name, "bytes");
  EXPECT_TRUE(out->codecs.chain[0].configuration.is_null());

  out = parsed(with(R"("int16")", R"({"name": "int16", "configuration": {}})"));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->type.name(), "int16");
}

TEST(ZarrMetadata, ReadsEveryReadableType) {
  for (const char* name : {"bool",   "int8",   "int16",   "int32",       "int64",          "uint8",        "uint16",
                           "uint32", "uint64", "float16", "float32",     "float64",        "bfloat16",     "int2",
                           "int4",   "uint2",  "uint4",   "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn"}) {
    std::string text = with("\"fill_value\": -2", "\"fill_value\": 0");
    text.replace(text.find("\"int16\""), 7, "\"" + std::string(name) + "\"");
    result<zarr_metadata> out = parsed(text);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    EXPECT_EQ(out->type.name(), name);
    EXPECT_EQ(out->fill_value.size(), out->type.item_bytes());
  }
}

TEST(ZarrMetadata, RefusesUnknownTypesGridsEncodingsAndTransformersByName) {
  for (const char* name : {"int128", "r17", "r0", "float8", "null"}) {
    EXPECT_EQ(refusal(with("int16", name)),
              "unsupported: zarr.json: data type \"" + std::string(name) + "\" is not readable");
  }
  EXPECT_EQ(refusal(with(R"("int16")", R"({"name": "int16", "configuration": {"unit": "s"}})")),
            R"(unsupported: zarr.json: data type {"name":"int16","configuration":{"unit":"s"}} is not readable)");
  EXPECT_EQ(refusal(with(R"("int16")", R"({"name": "numpy.datetime64", "configuration": {"unit": "s"}})")),
            "corrupt_data: zarr.json: member 'data_type.configuration.scale_factor' is missing");
  EXPECT_EQ(refusal(with("regular", "hexagonal")),
            "unsupported: zarr.json: chunk grid 'hexagonal' is not readable, only 'regular' and 'rectilinear' are");
  EXPECT_EQ(
      refusal(with("default", "fanout")),
      "unsupported: zarr.json: chunk key encoding 'fanout' is not readable, only 'default', 'v2' and 'suffix' are");
  EXPECT_EQ(refusal(with("\"storage_transformers\": []", "\"storage_transformers\": [{\"name\": \"mirror\"}]")),
            "unsupported: zarr.json: storage transformer 'mirror' is not readable");
}

TEST(ZarrMetadata, NoSuffixLeadsKeysElsewhere) {
  const auto suffix = [](std::string_view configuration) {
    return refusal(with(R"({"name": "default", "configuration": {"separator": "/"}})",
                        R"({"name": "suffix", "configuration": {)" + std::string(configuration) + "}}"));
  };
  EXPECT_EQ(suffix(R"("suffix": ".tiff", "base_encoding": "default")"), "accepted");
  for (const char* text : {"/../../x", "a/b", "\\\\x", "a\\u0000"}) {
    EXPECT_EQ(suffix(R"("base_encoding": "default", "suffix": ")" + std::string(text) + '"').substr(0, 67),
              "unsupported: zarr.json: member 'chunk_key_encoding.configuration.su")
        << text;
  }
  EXPECT_EQ(suffix(R"("base_encoding": "default", "suffix": ")" + std::string(201, 'x') + '"').substr(0, 11),
            "unsupported");
  EXPECT_EQ(suffix(R"("suffix": ".tiff")"),
            "corrupt_data: zarr.json: member 'chunk_key_encoding.configuration.base_encoding' is missing");
  EXPECT_EQ(suffix(R"("suffix": 3, "base_encoding": "v2")"),
            "corrupt_data: zarr.json: member 'chunk_key_encoding.configuration.suffix' is a number, needs a string");
}

TEST(ZarrMetadata, RefusesUnknownMembersUnlessTheyNeedNotBeUnderstood) {
  EXPECT_EQ(refusal(with("\"node_type\"", "\"extra\": 1, \"node_type\"")),
            "unsupported: zarr.json: member 'extra' is not known and must be understood");
  EXPECT_EQ(refusal(with("\"node_type\"", "\"extra\": {\"must_understand\": true}, \"node_type\"")),
            "unsupported: zarr.json: member 'extra' is not known and must be understood");
  EXPECT_EQ(refusal(with("\"node_type\"", "\"extra\": {\"must_understand\": false, \"a\": 1}, \"node_type\"")),
            "accepted");
  EXPECT_EQ(refusal(R"({"zarr_format": 3, "node_type": "group", "shape": [1]})"),
            "unsupported: zarr.json: member 'shape' is not known and must be understood");
  EXPECT_EQ(refusal(with(R"("separator": "/")", R"("separator": "/", "shards": 2)")),
            "unsupported: zarr.json: member 'chunk_key_encoding.configuration.shards' is not known");
  EXPECT_EQ(refusal(with(R"({"name": "bytes",)", R"({"name": "bytes", "id": 1,)")),
            "unsupported: zarr.json: member 'codecs[0].id' is not known");
}

TEST(ZarrMetadata, NamesAMissingMember) {
  for (const char* name :
       {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"}) {
    result<json> document = json::parse(kValid);
    ASSERT_TRUE(document.ok());
    json::object_t kept;
    for (const auto& [key, value] : *document->as_object()) {
      if (key != name) kept.emplace_back(key, value);
    }
    EXPECT_EQ(refusal(json(kept).dump()), "corrupt_data: zarr.json: member '" + std::string(name) + "' is missing");
  }
}

TEST(ZarrMetadata, NamesAMemberOfTheWrongKind) {
  EXPECT_EQ(refusal(with("[10, 20]", "\"10\"")),
            "corrupt_data: zarr.json: member 'shape' is a string, needs a list of integers");
  EXPECT_EQ(refusal(with("[10, 20]", "[10, \"20\"]")),
            "corrupt_data: zarr.json: member 'shape[1]' is a string, needs an integer");
  EXPECT_EQ(refusal(with("[10, 20]", "[10, -1]")),
            "corrupt_data: zarr.json: member 'shape[1]' is -1, needs an integer from 0 to 9223372036854775807");
  EXPECT_EQ(refusal(with("[4, 5]", "[4, 0]")),
            "corrupt_data: zarr.json: member 'chunk_grid.configuration.chunk_shape[1]' is 0, "
            "needs an integer from 1 to 9223372036854775807");
  EXPECT_EQ(refusal(with("[4, 5]", "[4]")), "corrupt_data: zarr.json: chunk_shape has 1 dimension, shape has 2");
  EXPECT_EQ(refusal(with(R"(["y", null])", R"(["y"])")),
            "corrupt_data: zarr.json: dimension_names has 1 name, shape has 2 dimensions");
  EXPECT_EQ(
      refusal(with(R"("separator": "/")", R"("separator": "-")")),
      "corrupt_data: zarr.json: member 'chunk_key_encoding.configuration.separator' is \"-\", needs \"/\" or \".\"");
  EXPECT_EQ(refusal(with("\"node_type\": \"array\"", "\"node_type\": \"thing\"")),
            "corrupt_data: zarr.json: member 'node_type' is \"thing\", needs \"array\" or \"group\"");
  EXPECT_EQ(refusal(with(R"({"units": "K"})", "[1]")).substr(0, 56),
            "corrupt_data: zarr.json: member 'attributes' is an array");
  EXPECT_EQ(refusal(with(R"([{"name": "bytes", "configuration": {"endian": "little"}}])", "[]")),
            "corrupt_data: zarr.json: member 'codecs' is empty, needs at least one codec");
  EXPECT_EQ(refusal("[1]").substr(0, 13), "corrupt_data:");
}

TEST(ZarrMetadata, RefusesOtherTextThanJson) {
  for (const char* text : {"", "{", "{\"a\": }", "\xff\xfe", "{} trailing", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_EQ(refusal(text).substr(0, 13), "corrupt_data:") << text;
  }
  EXPECT_EQ(refusal(std::string(100000, '[')).substr(0, 13), "corrupt_data:");
}

TEST(ZarrMetadata, RefusesOtherVersionsOfTheFormat) {
  EXPECT_EQ(refusal(with("\"zarr_format\": 3", "\"zarr_format\": 2")),
            "unsupported: zarr.json: zarr_format 2 is not readable, only 3 is");
  EXPECT_EQ(refusal(with("\"zarr_format\": 3", "\"zarr_format\": 4")),
            "unsupported: zarr.json: zarr_format 4 is not readable, only 3 is");
  EXPECT_EQ(refusal(with("\"zarr_format\": 3", "\"zarr_format\": \"3\"")),
            "corrupt_data: zarr.json: member 'zarr_format' is a string, needs the integer 3");
}

TEST(ZarrMetadata, BoundsTheArraysSize) {
  EXPECT_EQ(refusal(with("[10, 20]", "[4611686018427387903, 1]")), "accepted");
  EXPECT_EQ(refusal(with("[10, 20]", "[4611686018427387904, 1]")).substr(0, 12), "unsupported:");
  EXPECT_EQ(refusal(with("[10, 20]", "[9223372036854775807, 9223372036854775807]")).substr(0, 12), "unsupported:");
  EXPECT_EQ(refusal(with("[10, 20]", "[9223372036854775807, 0]")), "accepted");
  EXPECT_EQ(refusal(with("[10, 20]", "[9223372036854775808, 1]")).substr(0, 13), "corrupt_data:");
}

TEST(ZarrMetadata, BoundsTheRank) {
  std::string ones = "[1";
  for (int d = 1; d < 32; ++d) ones += ", 1";
  std::string text = with("[10, 20]", ones + "]");
  text.replace(text.find("[4, 5]"), 6, ones + "]");
  text.replace(text.find("\"dimension_names\": [\"y\", null],"), 31, "");
  EXPECT_EQ(refusal(text), "accepted");
  EXPECT_EQ(refusal(with("[10, 20]", ones + ", 1]")),
            "unsupported: zarr.json: member 'shape' has 33 dimensions, at most 32 are supported");
}

TEST(ZarrMetadata, BoundsTheNumberOfCodecs) {
  const auto many = [](int count) {
    std::string text = "[\"bytes\"";
    for (int i = 1; i < count; ++i) text += ", \"crc32c\"";
    return refusal(with(R"([{"name": "bytes", "configuration": {"endian": "little"}}])", text + "]"));
  };
  EXPECT_EQ(many(64), "accepted");
  EXPECT_EQ(many(65), "unsupported: zarr.json: member 'codecs' has 65 codecs, at most 64 are supported");
}

TEST(ZarrMetadata, CutsHostileTextsInItsMessages) {
  const std::string message = refusal(with("int16", std::string(1 << 20, 'x')));
  EXPECT_EQ(message.substr(0, 12), "unsupported:");
  EXPECT_LT(message.size(), 200u);
}

TEST(ZarrMetadata, ReadsShardsWithinShards) {
  result<zarr_metadata> out = parsed(with(R"([{"name": "bytes", "configuration": {"endian": "little"}}])", R"([
      {"name": "transpose", "configuration": {"order": [1, 0]}},
      {"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 2], "index_location": "start",
        "index_codecs": ["bytes", "crc32c"], "codecs": [
          {"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 1], "index_codecs": ["bytes"],
            "codecs": ["bytes", {"name": "zstd", "configuration": {"level": 3}}]}}]}},
      "crc32c"])"));
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  ASSERT_EQ(out->codecs.chain.size(), 1u);
  EXPECT_EQ(out->codecs.chain[0].name, "transpose");
  ASSERT_EQ(out->codecs.behind.size(), 1u);
  EXPECT_EQ(out->codecs.behind[0].name, "crc32c");
  ASSERT_NE(out->codecs.shard, nullptr);
  const zarr_shard& outer = *out->codecs.shard;
  EXPECT_EQ(outer.chunk, (extents{5, 2}));
  EXPECT_TRUE(outer.index_at_start);
  ASSERT_EQ(outer.index_codecs.size(), 2u);
  ASSERT_NE(outer.codecs.shard, nullptr);
  const zarr_shard& inner = *outer.codecs.shard;
  EXPECT_EQ(inner.chunk, (extents{5, 1}));
  EXPECT_FALSE(inner.index_at_start);
  ASSERT_EQ(inner.codecs.chain.size(), 2u);
  EXPECT_EQ(inner.codecs.chain[1].name, "zstd");
}

TEST(ZarrMetadata, NamesErrorsInAShardsConfiguration) {
  const auto shard = [](std::string_view members) {
    return refusal(with(R"([{"name": "bytes", "configuration": {"endian": "little"}}])",
                        "[{\"name\": \"sharding_indexed\", \"configuration\": {" + std::string(members) + "}}]"));
  };
  EXPECT_EQ(shard(""), "corrupt_data: zarr.json: member 'codecs[0].configuration.chunk_shape' is missing");
  EXPECT_EQ(shard(R"("chunk_shape": [4, 5], "codecs": ["bytes"])"),
            "corrupt_data: zarr.json: member 'codecs[0].configuration.index_codecs' is missing");
  EXPECT_EQ(shard(R"("chunk_shape": [4, 5], "codecs": [], "index_codecs": ["bytes"])"),
            "corrupt_data: zarr.json: member 'codecs[0].configuration.codecs' is empty, needs at least one codec");
  EXPECT_EQ(shard(R"("chunk_shape": [4, 5], "codecs": ["bytes"], "index_codecs": ["bytes"], "index_location": "top")"),
            "corrupt_data: zarr.json: member 'codecs[0].configuration.index_location' is \"top\", "
            "needs \"start\" or \"end\"");
  EXPECT_EQ(shard(R"("chunk_shape": [4, 5], "codecs": ["bytes"], "index_codecs": ["bytes"], "order": "C")"),
            "unsupported: zarr.json: member 'codecs[0].configuration.order' is not known");
}

TEST(ZarrMetadata, TransposeOrderIsAPermutation) {
  const auto order = [](std::string_view text, std::size_t rank) {
    codec_config codec{"transpose", std::move(json::parse(text)).value()};
    return parse_transpose_order(codec, rank);
  };
  EXPECT_EQ(*order(R"({"order": [2, 0, 1]})", 3), (dim_vector<std::uint64_t>{2, 0, 1}));
  EXPECT_EQ(*order(R"({"order": "F"})", 3), (dim_vector<std::uint64_t>{2, 1, 0}));
  EXPECT_EQ(*order(R"({"order": []})", 0), (dim_vector<std::uint64_t>{}));
  for (const char* text : {R"({"order": [0, 0]})", R"({"order": [0]})", R"({"order": [0, 2]})", R"({"order": [0, -1]})",
                           R"({"order": "A"})", R"({"order": 1})", R"({})"}) {
    EXPECT_EQ(order(text, 2).error().code(), errc::corrupt_data) << text;
  }
}

// Documents that zarr-python's own tests call valid (tests/data/zarr/zarr-python).
class ZarrPythonDocuments : public testing::TestWithParam<const char*> {
 protected:
  static std::string document(const std::string& name) {
    std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/tests/data/zarr/zarr-python/v3/" + name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_P(ZarrPythonDocuments, AreAccepted) {
  result<zarr_metadata> out = parsed(document(GetParam()));
  EXPECT_TRUE(out.ok()) << out.error().to_string();
}
INSTANTIATE_TEST_SUITE_P(ZarrMetadata, ZarrPythonDocuments,
                         testing::Values("array/zstd_codec.json", "array/transpose_and_crc32c_codecs.json",
                                         "array/regular_grid_default_encoding.json", "array/gzip_codec.json",
                                         "array/blosc_codec.json", "array/with_extra_field.json",
                                         "group/with_attributes.json"));

/// Puts each case of a file of cases in place of one member of kValid.
class ZarrPythonCases : public ZarrPythonDocuments {
 protected:
  void each(const std::string& file, std::string_view member, const std::string& type) {
    result<json> cases = json::parse(document(file));
    ASSERT_TRUE(cases.ok());
    ASSERT_FALSE(cases->as_object()->empty());
    for (const auto& [name, value] : *cases->as_object()) {
      json::object_t members = *std::move(json::parse(kValid)).value().as_object();
      for (auto& [key, held] : members) {
        if (key == "data_type" && !type.empty()) held = type;
        if (key == member) held = value;
        if (key == "shape" && member == "chunk_grid") {
          held = json::array_t(value.find("configuration")->find("chunk_shape")->as_array()->size(), std::int64_t{7});
        }
        if (key == "dimension_names") held = json();
      }
      EXPECT_EQ(refusal(json(members).dump()), "accepted") << file << " " << name;
    }
  }
};

TEST_F(ZarrPythonCases, AreAccepted) {
  for (const char* type : {"bool", "float16", "int8", "int16", "int32", "uint8", "uint32", "uint64"}) {
    each("data_type/" + std::string(type) + "/fill_values.json", "fill_value", type);
  }
  each("chunk_key_encoding/default/cases.json", "chunk_key_encoding", "");
  each("chunk_key_encoding/v2/cases.json", "chunk_key_encoding", "");
  each("chunk_grid/regular/cases.json", "chunk_grid", "");
}

}  // namespace
}  // namespace penstock
