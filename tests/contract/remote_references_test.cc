// Manifests of files on a server: the requests for saving one, for opening it and for reading through it.

#include <gtest/gtest.h>
#include <penstock/open.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "driver/open_reference.h"
#include "support/http_server.h"

namespace penstock::test {
namespace {

class RemoteReferences : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    server_.set("/one.bin", "--\x01\x02\x03\x04");
    std::string members;
    for (const std::string name : {"x", "y"})
      members += R"(, ")" + name +
                 R"(/.zarray": {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "order": "C",
                    "filters": null, "compressor": null, "fill_value": 9}, ")" +
                 name + R"(/0": [")" + server_.url() + R"(/one.bin", 2, 2], ")" + name + R"(/1": [")" + server_.url() +
                 R"(/one.bin", 4, 2])";
    write("r.json", R"({".zgroup": {"zarr_format": 2})" + members + "}");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string save() {
    const auto opened = open((folder_ / "r.json").string());
    if (!opened.ok()) return opened.error().to_string();
    server_.clear_log();
    const auto saved = save_references(std::get<group>(*opened), {.folder = folder_.string()});
    if (!saved.ok()) return saved.error().to_string();
    return {reinterpret_cast<const char*>(saved->data()), saved->size()};
  }
  static result<std::vector<std::uint8_t>> values_of(const array& from) {
    std::vector<std::uint8_t> out(4);
    PENSTOCK_TRY(
        from.read(selection(), tensor_view::contiguous(reinterpret_cast<std::byte*>(out.data()), from.type(), {4})));
    return out;
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "remote_references";
  http_server server_;
};

TEST_F(RemoteReferences, AreSavedWithTheVersionOfTheServer) {
  const std::string saved = save();
  EXPECT_EQ(server_.log().size(), 1U) << "one request for the file, not one for each of its arrays";
  EXPECT_NE(saved.find(R"("version":)"), std::string::npos);
  EXPECT_NE(saved.find(R"("remote_stamp":"size=6 ETag=)"), std::string::npos);
  write("r.manifest", saved);
  server_.clear_log();
  const auto again = open_array((folder_ / "r.manifest/y").string());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(server_.log().empty());
  const auto values = values_of(*again);
  ASSERT_TRUE(values.ok()) << values.error().to_string();
  EXPECT_EQ(*values, (std::vector<std::uint8_t>{1, 2, 3, 4}));
  for (const http_server::request& each : server_.log()) {
    EXPECT_EQ(each.method, "GET");
    EXPECT_FALSE(each.field("if-match").empty());
  }
}

TEST_F(RemoteReferences, AnotherVersionIsRefusedByReads) {
  write("r.manifest", save());
  server_.set("/one.bin", "--\x05\x06\x07\x08");
  const auto again = open_array((folder_ / "r.manifest/x").string());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  const auto values = values_of(*again);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.error().code(), errc::conflict) << values.error().to_string();
}

TEST_F(RemoteReferences, WithoutVersionsTheSizeIsSaved) {
  server_.on_request([](const http_server::request&, http_server::reply& out) {
    out.remove("ETag");
    out.remove("Last-Modified");
  });
  const std::string saved = save();
  EXPECT_EQ(saved.find(R"("version":)"), std::string::npos);
  write("r.manifest", saved);
  server_.set("/one.bin", "--\x05\x06\x07\x08");
  const auto again = open_array((folder_ / "r.manifest/x").string());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  const auto values = values_of(*again);
  ASSERT_TRUE(values.ok()) << values.error().to_string();
  EXPECT_EQ(*values, (std::vector<std::uint8_t>{5, 6, 7, 8}));
  server_.set("/one.bin", "--\x05\x06\x07\x08\x09");
  const auto longer = open_array((folder_ / "r.manifest/x").string());
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code(), errc::conflict) << longer.error().to_string();
}

}  // namespace
}  // namespace penstock::test
