#include "driver/saved_arrays.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::inline v0 {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

manifest_place in_folder(std::string folder) {
  manifest_place out;
  out.rule.document = folder + "/m";
  out.folder = std::move(folder);
  return out;
}

saved_array shard(std::string path, extents shape) {
  saved_array out;
  out.path = std::move(path);
  out.stamp = {123, -5};
  out.format = "npy";
  out.chunks = shape;
  out.shape = std::move(shape);
  out.descr = "<f4";
  return out;
}

/// The document of one shard, with one member replaced or removed.
std::string document_with(std::string_view name, std::string_view value) {
  const std::vector<std::pair<std::string_view, std::string_view>> members = {
      {"path", R"("a.npy")"}, {"stamp", "[5, 6]"},   {"crc32c", "null"},  {"format", R"("npy")"},
      {"shape", "[4, 3]"},    {"dtype", R"("<f4")"}, {"chunks", "[4, 3]"}};
  std::string out;
  for (const auto& [each, text] : members) {
    if (each == name && value.empty()) continue;
    out += (out.empty() ? "\"" : ", \"") + std::string(each) + "\": " + std::string(each == name ? value : text);
  }
  return R"({"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": [{)" + out + "}]}";
}

error failure_of(const std::string& document) {
  auto parsed = parse_saved_arrays(bytes_of(document), in_folder("/run"));
  return parsed.ok() ? error(errc::internal, "it is readable") : std::move(parsed).error();
}

TEST(SavedArrays, AreReadAsWritten) {
  saved_arrays written;
  written.axis = 1;
  written.shards = {shard("/run/a.npy", {4, 3}), shard("/elsewhere/\xff.npy", {4, 0})};
  written.shards[0].crc32c = 0xFFFFFFFF;
  written.shards[1].chunks = {4, 1};
  written.shards[1].descr = R"([["a","<i4"],["b","<f8",[2]]])";
  const std::string text = write_saved_arrays(written, "/run");
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_NE(text.find(R"("path":"a.npy")"), std::string::npos) << "relative to the manifest: " << text;
  const auto read = parse_saved_arrays(bytes_of(text), in_folder("/moved"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->axis, 1U);
  ASSERT_EQ(read->shards.size(), 2U);
  EXPECT_EQ(read->shards[0].path, "/moved/a.npy");
  EXPECT_EQ(read->shards[0].metadata, "/moved/a.npy");
  EXPECT_EQ(read->shards[0].stamp, (file_stamp{123, -5}));
  EXPECT_EQ(read->shards[0].crc32c, 0xFFFFFFFF);
  EXPECT_EQ(read->shards[0].format, "npy");
  EXPECT_EQ(read->shards[0].type, dtype::from_name("float32").value());
  EXPECT_EQ(read->shards[1].path, "/elsewhere/\xff.npy");
  EXPECT_EQ(read->shards[1].crc32c, std::nullopt);
  EXPECT_EQ(read->shards[1].shape, (extents{4, 0}));
  EXPECT_EQ(read->shards[1].chunks, (extents{4, 1}));
  EXPECT_EQ(read->shards[1].type.item_bytes(), 20U);
}

TEST(SavedArrays, ArraysWithoutChunksHaveOneChunk) {
  const auto read = parse_saved_arrays(bytes_of(document_with("chunks", "")), in_folder("/run"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->shards[0].chunks, (extents{4, 3}));
  const std::string empty = document_with("chunks", "").replace(document_with("chunks", "").find("[4, 3]"), 6, "[0]");
  EXPECT_EQ(parse_saved_arrays(bytes_of(empty), in_folder("/run"))->shards[0].chunks, (extents{1}));
}

TEST(SavedArrays, FormatAndChecksumAreOptional) {
  for (const char* member : {"format", "crc32c"})
    EXPECT_TRUE(parse_saved_arrays(bytes_of(document_with(member, "")), in_folder("/run")).ok()) << member;
}

TEST(SavedArrays, ContradictionsNameTheMember) {
  struct damage {
    std::string_view member, value, what;
  };
  for (const auto& [member, value, what] : std::initializer_list<damage>{
           {"path", "", "an array has no path"},
           {"path", "5", "an array has no path"},
           {"stamp", "", "size and modification time of '/run/a.npy'"},
           {"stamp", "[5]", "size and modification time"},
           {"stamp", "[-5, 6]", "size and modification time"},
           {"stamp", "[5, \"x\"]", "size and modification time"},
           {"crc32c", "4294967296", "the checksum"},
           {"crc32c", "-1", "the checksum"},
           {"crc32c", "\"x\"", "the checksum"},
           {"shape", "", "the shape"},
           {"shape", "4", "the shape"},
           {"shape", "[4, -3]", "the shape"},
           {"shape", "[4, 3.5]", "the shape"},
           {"shape", "[4294967296, 4294967296]", "the shape"},
           {"shape", "[4611686018427387904]", "the shape"},
           {"shape", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "the shape"},
           {"dtype", "", "the dtype"},
           {"dtype", "[\"<f4\"]", "the dtype"},
           {"dtype", "\"[[\"", "the dtype"},
           {"dtype", "\"f99\"", "the dtype"},
           {"chunks", "[4]", "the chunks"},
           {"chunks", "[4, 0]", "the chunks"},
           {"chunks", "null", "the chunks"}}) {
    const error failure = failure_of(document_with(member, value));
    EXPECT_EQ(failure.code(), errc::corrupt_data) << member << ": " << value;
    EXPECT_NE(failure.message().find(what), std::string::npos) << member << ": " << value << ": " << failure.message();
  }
}

TEST(SavedArrays, BadDocumentsAreCorrupt) {
  for (const char* document : {"", "{", "[]", "{}", R"({"penstock_manifest": "1"})",
                               R"({"penstock_manifest": 1, "kind": "arrays", "axis": 0})",
                               R"({"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": []})",
                               R"({"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": {}})",
                               R"({"penstock_manifest": 1, "kind": "arrays", "axis": 0, "shards": [5]})"})
    EXPECT_EQ(failure_of(document).code(), errc::corrupt_data) << document;
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("axis": 0)", R"("axis": 2)"}, {R"("axis": 0)", R"("axis": -1)"}, {R"("axis": 0, )", ""}}) {
    std::string document = document_with("", "");
    document.replace(document.find(from), from.size(), to);
    EXPECT_EQ(failure_of(document).code(), errc::corrupt_data) << document;
  }
}

TEST(SavedArrays, RefusesOtherVersionsAndKinds) {
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("penstock_manifest": 1)", R"("penstock_manifest": 2)"}, {R"("arrays")", R"("tables")"}}) {
    std::string document = document_with("", "");
    document.replace(document.find(from), from.size(), to);
    EXPECT_EQ(failure_of(document).code(), errc::unsupported) << document;
  }
  manifest_place filled = in_folder("/run");
  filled.missing_is_fill = true;
  EXPECT_EQ(parse_saved_arrays(bytes_of(document_with("", "")), filled).error().code(), errc::unsupported);
}

TEST(SavedArrays, NameOnlyPermittedFiles) {
  const std::string remote = document_with("path", R"("http://host/a.npy")");
  EXPECT_EQ(failure_of(remote).code(), errc::unsupported) << "joined arrays are local files";
  manifest_place served = in_folder("/run");
  served.rule.document = "http://host/m";
  served.folder = "http://host";
  const std::string local = document_with("path", R"("/run/a.npy")");
  EXPECT_EQ(parse_saved_arrays(bytes_of(local), served).error().code(), errc::unsupported);
  served.rule.allow_local = true;
  EXPECT_TRUE(parse_saved_arrays(bytes_of(local), served).ok());
  served.rule.allow_local = false;
  served.rule.expected = {"/run/a.npy"};
  EXPECT_TRUE(parse_saved_arrays(bytes_of(local), served).ok()) << "the caller named it, too";
  const auto up = parse_saved_arrays(bytes_of(document_with("path", R"("x/../../b.npy")")), in_folder("/run"));
  ASSERT_TRUE(up.ok()) << up.error().to_string();
  EXPECT_EQ(up->shards[0].path, "/b.npy");
}

TEST(SavedArrays, ZarrArraysChangeWithTheirDocument) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock_saved_arrays_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_EQ(metadata_of_shard(folder.string()), folder.string());
  std::ofstream(folder / ".zarray") << "{}";
  EXPECT_EQ(metadata_of_shard(folder.string()), (folder / ".zarray").string());
  std::ofstream(folder / "zarr.json") << "{}";
  EXPECT_EQ(metadata_of_shard(folder.string()), (folder / "zarr.json").string());
  EXPECT_EQ(metadata_of_shard((folder / "no.npy").string()), (folder / "no.npy").string());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::inline v0
