#include "driver/reference_tree.h"

#include <gtest/gtest.h>
#include <penstock/open.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::inline v0 {
namespace {

constexpr const char* kDocuments =
    R"(".zgroup": "{\"zarr_format\": 2}", "g/x/.zarray": {"zarr_format": 2, "shape": [5], "chunks": [2], "dtype": "|u1",
       "order": "C", "filters": null, "compressor": null, "fill_value": 9}, "g/.zgroup": {"zarr_format": 2})";

class ReferenceTree : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) / "reference_tree";
    std::filesystem::create_directories(folder);
    write("one.bin", "--\x01\x02");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  static std::vector<int> values_of(const array& from) {
    std::vector<std::uint8_t> out(5);
    tensor_view view;
    view.data = reinterpret_cast<std::byte*>(out.data());
    view.extents = {5};
    view.strides = {1};
    view.type = from.type();
    const auto read = from.read(selection(), view);
    EXPECT_TRUE(read.ok()) << read.error().to_string();
    return {out.begin(), out.end()};
  }

  std::filesystem::path folder;
};

TEST_F(ReferenceTree, OpensGroupsAndArraysOfJson) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["one.bin", 2, 2], "g/x/1": "base64:AwQ="})");
  const std::string path = (folder / "r.json").string();
  const auto root = open(path);
  ASSERT_TRUE(root.ok()) << root.error().to_string();
  const auto& top = std::get<group>(*root);
  EXPECT_EQ(top.format(), "reference");
  ASSERT_EQ(*top.keys(), std::vector<std::string>{"g"});
  const auto inner = open(top, "g");
  ASSERT_TRUE(inner.ok());
  const auto member = open(std::get<group>(*inner), "x");
  ASSERT_TRUE(member.ok()) << member.error().to_string();
  const std::vector<int> wanted = {1, 2, 3, 4, 9};
  EXPECT_EQ(values_of(std::get<array>(*member)), wanted);
  for (const std::string& uri : {path + "/g/x", "file://" + path + "/g/x"}) {
    const auto direct = open_array(uri);
    ASSERT_TRUE(direct.ok()) << direct.error().to_string();
    EXPECT_EQ(values_of(*direct), wanted);
    EXPECT_TRUE(direct->read_only());
  }
  EXPECT_EQ(open(path + "/g/y").error().code(), errc::not_found);
}

TEST_F(ReferenceTree, MayBeForbiddenToNameLocalFiles) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["one.bin", 2, 2]})");
  open_options how;
  how.path = "g/x";
  how.allow_local = false;
  EXPECT_EQ(open((folder / "r.json").string(), how).error().code(), errc::unsupported);
}

TEST_F(ReferenceTree, ReadsAbsentFilesAsFillWhereAsked) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["gone.bin", 2, 2]})");
  open_options how;
  how.path = "g/x";
  how.missing_is_fill = true;
  const auto filled = open_array((folder / "r.json").string(), how);
  ASSERT_TRUE(filled.ok()) << filled.error().to_string();
  EXPECT_EQ(values_of(*filled), (std::vector<int>{9, 9, 9, 9, 9}));
}

TEST(ResolvedLocation, IsRelativeToTheFolderOfTheReferences) {
  EXPECT_EQ(resolved_location("/data", "x.bin"), "/data/x.bin");
  EXPECT_EQ(resolved_location("/data", "/x.bin"), "/x.bin");
  EXPECT_EQ(resolved_location("s3://bucket/a", "../x.bin"), "s3://bucket/x.bin");
  EXPECT_EQ(resolved_location("https://host/a", "https://other/x"), "https://other/x");
  EXPECT_EQ(resolved_location("https://host/a", "/etc/x"), "/etc/x");
}

}  // namespace
}  // namespace penstock::inline v0
