#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include "driver/drivers.h"
#include "driver/registry.h"
#include "format/npy/npy_header.h"
#include "store/store_fixture.h"

namespace penstock::inline v0 {
namespace {

void put(const std::shared_ptr<store>& to, std::string_view key, std::string_view text) {
  const part whole(reinterpret_cast<const std::byte*>(text.data()), text.size());
  ASSERT_TRUE(to->put(key, {&whole, 1}, {}).ok());
}

void write(const std::filesystem::path& to, std::string_view text) { std::ofstream(to, std::ios::binary) << text; }

std::string npy_file() { return write_npy_header("'<f4'", storage_order::c, {5}) + std::string(20, '\1'); }

std::string hdf5_sample() {  // tests run in the project's folder
  std::ifstream file("tests/data/fuzz/hdf5_file/old", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr std::string_view kReferences =
    R"({"version": 1, "refs": {".zgroup": "{\"zarr_format\": 2}", "a/.zarray": "{\"zarr_format\": 2, \"shape\": [6],)"
    R"( \"chunks\": [4], \"dtype\": \"|u1\", \"compressor\": null, \"fill_value\": 0, \"order\": \"C\",)"
    R"( \"filters\": null}", "a/0": "abcd", "a/1": "base64:ZWZnaA=="}})";

class FindNode : public testing::Test {
 protected:
  result<found_node> find(std::string path, std::string inner = {}, search_order order = search_order::by_name) {
    target_location target;
    target.at = {how_.context, memory_, path, memory_->uri() + "/" + path, nullptr};
    target.inner = std::move(inner);
    return find_node(std::move(target), how_, order);
  }
  result<found_node> find_file(const std::filesystem::path& path, std::string inner = {}) {
    open_options how = how_;
    how.path = std::move(inner);
    PENSTOCK_ASSIGN(target_location target, resolve(path.string(), how));
    return find_node(std::move(target), how);
  }
  static std::string name_of(const found_node& found) {
    return found.driver == nullptr ? "folder" : std::string(found.driver->name());
  }
  std::vector<std::uint64_t> shape_of(found_node found) {
    const node opened = open_found(std::move(found), how_).value();
    const extents& shape = std::get<array>(opened).shape();
    return {shape.begin(), shape.end()};
  }

  open_options how_ = [] {
    open_options out;
    out.context = context::make().value();
    return out;
  }();
  std::shared_ptr<store> memory_ = make_memory_store();
  test::temporary_folder folder_;
  const std::vector<std::uint64_t> five_ = {5}, six_ = {6};
};

TEST_F(FindNode, RecognisesObjectsByTheirFirstBytes) {
  put(memory_, "a.npy", npy_file());
  put(memory_, "b", npy_file());
  put(memory_, "c.h5", hdf5_sample());
  put(memory_, "d.json", kReferences);
  put(memory_, "e", std::string("PAR1"));
  for (const auto& [path, driver] : {std::pair("a.npy", "npy"), std::pair("b", "npy"), std::pair("c.h5", "hdf5"),
                                     std::pair("d.json", "reference"), std::pair("e", "table")}) {
    const found_node found = find(path).value();
    EXPECT_EQ(name_of(found), driver) << path;
    EXPECT_EQ(found.at.path, path);
    EXPECT_EQ(found.inner, "");
    EXPECT_NE(found.at.head, nullptr);
  }
  EXPECT_EQ(shape_of(find("b").value()), five_);
  const auto table = open_found(find("e").value(), how_);
  EXPECT_EQ(table.error().code(), errc::unsupported);
  EXPECT_NE(table.error().message().find("Parquet or Arrow"), std::string::npos);
}

TEST_F(FindNode, PathsLeadIntoObjects) {
  put(memory_, "c.json", kReferences);
  put(memory_, "folder/unnamed", kReferences);
  for (const auto& [path, inner] : {std::pair("c.json/a", ""), std::pair("c.json", "a"),
                                    std::pair("folder/unnamed/a", ""), std::pair("folder/unnamed", "a")}) {
    found_node found = find(path, inner).value();
    EXPECT_EQ(name_of(found), "reference");
    EXPECT_EQ(found.inner, "a");
    EXPECT_EQ(shape_of(std::move(found)), six_);
  }
  EXPECT_EQ(find("folder", "nothing").error().code(), errc::not_found);
}

// A format of this test: the text "BOX1", whose member "rows" is five numbers.
class box_driver final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "box"; }
  std::span<const std::string_view> endings() const noexcept override { return {}; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return begin.size() == 4 && std::memcmp(begin.data(), "BOX1", 4) == 0;
  }
  result<node> open(const location&, const open_options&) const override {
    return error(errc::unsupported, "a box is opened by a member's name");
  }
  result<node> open_inside(const location&, std::string_view inner, const open_options& how) const override {
    if (inner != "rows") return error(errc::not_found, "only 'rows' is in a box");
    auto bytes = std::make_shared<std::string>(npy_file());
    open_options own;
    own.context = how.context;
    return penstock::open(std::as_bytes(std::span(*bytes)), own, bytes);
  }
};

TEST_F(FindNode, MembersOfAFormatFromOutsideAreFoundInStoresAndInMemory) {
  context_options options;
  options.drivers.push_back(std::make_shared<box_driver>());
  how_.context = context::make(options).value();
  put(memory_, "folder/x.box", "BOX1");
  for (const auto& [path, inner] :
       {std::pair("folder/x.box/rows", ""), std::pair("folder/x.box", "rows"), std::pair("folder", "x.box/rows")}) {
    found_node found = find(path, inner).value();
    EXPECT_EQ(name_of(found), "box");
    EXPECT_EQ(shape_of(std::move(found)), five_);
  }
  const std::string box = "BOX1";
  how_.path = "rows";
  EXPECT_EQ(open_array(std::as_bytes(std::span(box)), how_).value().shape(), extents({5}));
  how_.path = "columns";
  EXPECT_EQ(open_array(std::as_bytes(std::span(box)), how_).error().code(), errc::not_found);
}

TEST_F(FindNode, FoldersAreOpenedByTheirDocuments) {
  create_options what;
  what.context = how_.context;
  what.path = "g/x";
  what.shape = {6};
  what.type = *dtype::from_name("uint8");
  ASSERT_TRUE(create_array(memory_, what).ok());
  for (const auto& [path, inner] : {std::pair("g/x", ""), std::pair("g", "x"), std::pair("", "g/x")}) {
    found_node found = find(path, inner).value();
    EXPECT_EQ(name_of(found), "folder");
    EXPECT_EQ(found.at.path, "g/x");
    ASSERT_TRUE(found.opened.has_value());
    EXPECT_EQ(shape_of(std::move(found)), six_);
  }
}

TEST_F(FindNode, ReferencesInParquetAreFoundByTheirMetadata) {
  put(memory_, "saved/.zmetadata", R"({"metadata": {".zgroup": {"zarr_format": 2}}, "record_size": 10})");
  const found_node found = find("saved").value();
  EXPECT_EQ(found.driver, nullptr);
  ASSERT_NE(found.references, nullptr);
  EXPECT_FALSE(found.opened.has_value());
  EXPECT_TRUE(std::holds_alternative<group>(open_found(found, how_).value()));
  const found_node inside = find("saved", "a/b").value();
  ASSERT_NE(inside.references, nullptr);
  EXPECT_EQ(inside.inner, "a/b");
  EXPECT_EQ(open_found(inside, how_).error().code(), errc::not_found);
}

TEST_F(FindNode, FilesAreResolvedWithTheirFirstBytes) {
  write(folder_.path() / "rows", npy_file());
  write(folder_.path() / "refs", kReferences);
  EXPECT_EQ(shape_of(find_file(folder_.path() / "rows").value()), five_);
  EXPECT_EQ(shape_of(find_file(folder_.path() / "refs" / "a").value()), six_);
  EXPECT_EQ(shape_of(find_file(folder_.path() / "refs", "a").value()), six_);
  EXPECT_EQ(shape_of(find_file(folder_.path(), "refs/a").value()), six_);
  EXPECT_EQ(open_found(find_file(folder_.path() / "rows", "a").value(), how_).error().code(), errc::not_found);
  write(folder_.path() / "text", "nothing of the kind");
  EXPECT_EQ(find_file(folder_.path() / "text").error().code(), errc::not_found);
}

TEST_F(FindNode, TheSignatureOfHdf5MayBeLate) {
  for (const std::size_t begin : {512U, 2048U, 4096U, 65536U}) {
    write(folder_.path() / "late", std::string(begin, '#') + hdf5_sample());
    const found_node found = find_file(folder_.path() / "late").value();
    EXPECT_EQ(name_of(found), "hdf5") << begin;
  }
  write(folder_.path() / "between", std::string(5000, '#') + hdf5_sample());
  EXPECT_EQ(find_file(folder_.path() / "between").error().code(), errc::not_found);
}

TEST_F(FindNode, ArchivesAreFilesOfThisMachine) {
  const std::shared_ptr<store> archive = open_zip_store((folder_.path() / "x.npz").string());
  put(archive, "rows.npy", npy_file());
  ASSERT_TRUE(archive->flush().ok());
  EXPECT_EQ(shape_of(find_file(folder_.path() / "x.npz").value()), five_);
  EXPECT_EQ(shape_of(find_file(folder_.path() / "x.npz", "rows").value()), five_);
  EXPECT_EQ(shape_of(find_file(folder_.path(), "x.npz/rows.npy").value()), five_);
  std::ifstream file(folder_.path() / "x.npz", std::ios::binary);
  put(memory_, "x.npz", std::string(std::istreambuf_iterator<char>(file), {}));
  const auto refused = find("x.npz");
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  EXPECT_NE(refused.error().message().find("is a zip archive"), std::string::npos);
}

}  // namespace
}  // namespace penstock::inline v0
