#include "driver/reference_tree.h"

#include <penstock/extend/json.h>
#include "base/json_bytes.h"
#include "driver/export_references.h"
#include "driver/open_reference.h"
#include "driver/open_saved.h"
#include "driver/zarr_nodes.h"

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

TEST_F(ReferenceTree, ShowsTheMissingValueOfNamedDimensionsAsAnAttribute) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/.zattrs": {"units": "m"},
        "y/.zarray": {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<f4", "order": "C", "filters": null,
                      "compressor": null, "fill_value": "NaN"},
        "y/.zattrs": {"_ARRAY_DIMENSIONS": ["t"]}, "y/0": "base64:AAAAAA==",
        "z/.zarray": {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i2", "order": "C", "filters": null,
                      "compressor": null, "fill_value": 0},
        "z/.zattrs": {"_ARRAY_DIMENSIONS": ["t"], "_FillValue": 3}})");
  const auto attributes = [this](const char* name) {
    const auto made = open_array((folder / "r.json").string() + "/" + name);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? made->attributes_json() : std::string();
  };
  EXPECT_EQ(attributes("g/x"), R"({"units":"m"})") << "no dimension has a name";
  EXPECT_EQ(attributes("y"), R"({"_ARRAY_DIMENSIONS":["t"],"_FillValue":NaN})");
  EXPECT_EQ(attributes("z"), R"({"_ARRAY_DIMENSIONS":["t"],"_FillValue":0})") << "xarray prefers the fill value";

  const auto root = open((folder / "r.json").string());
  ASSERT_TRUE(root.ok());
  const auto exported = kerchunk_json_of(std::get<group>(*root));
  ASSERT_TRUE(exported.ok()) << exported.error().to_string();
  for (const char* each : {R"(\"fill_value\":\"NaN\")", R"(\"fill_value\":0)"})
    EXPECT_NE(exported->text.find(each), std::string::npos) << exported->text;
  EXPECT_NE(exported->text.find(R"(\"fill_value\":9)"), std::string::npos) << "it fills chunks without a reference";
}

TEST_F(ReferenceTree, MayBeForbiddenToNameLocalFiles) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["one.bin", 2, 2]})");
  open_options how;
  how.path = "g/x";
  how.allow_local = false;
  EXPECT_EQ(open((folder / "r.json").string(), how).error().code(), errc::unsupported);
}

/// A user-defined store, whose URI may be any text.
class labelled_store final : public store {
 public:
  labelled_store(std::shared_ptr<const store> from, std::string uri) : from_(std::move(from)), uri_(std::move(uri)) {}
  store_traits traits() const override { return from_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    from_->read(reads, sink, stop);
  }
  std::string uri() const override { return uri_; }

 private:
  std::shared_ptr<const store> from_;
  std::string uri_;
};

TEST_F(ReferenceTree, MayNotNameLocalFilesFromOtherStores) {
  const std::string named = R"(["/)" + (folder / "one.bin").string().substr(1) + R"(", 2, 2]})";
  const std::string kerchunk = std::string("{") + kDocuments + R"(, "g/x/0": )" + named;
  const auto memory = make_memory_store();
  const part bytes = std::as_bytes(std::span(kerchunk));
  ASSERT_TRUE(memory->put("r.json", {&bytes, 1}, {}).ok());
  std::vector<std::shared_ptr<const store>> stores = {memory};
  for (const char* const uri : {"", "/data", "Name:", "a folder", "file:", "FILE://"})
    stores.push_back(std::make_shared<labelled_store>(memory, uri));
  for (const auto& from : stores) {
    SCOPED_TRACE(from->uri());
    open_options how;
    how.path = "r.json/g/x";
    const auto refused = open(from, how);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::unsupported);
    how.allow_local = true;
    const auto allowed = open_array(from, how);
    ASSERT_TRUE(allowed.ok()) << allowed.error().to_string();
    EXPECT_EQ(values_of(*allowed), (std::vector<int>{1, 2, 9, 9, 9}));
  }
}

TEST_F(ReferenceTree, KeepsManifestsInOtherStoresFromLocalFiles) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/data/fuzz/saved_references/contiguous", std::ios::binary);
  std::string manifest{std::istreambuf_iterator<char>(file), {}};
  for (const char* const name : {"p_0.h5", "p_2.h5"}) {
    const std::string before = std::string(R"("path": ")") + name;
    manifest.replace(manifest.find(before), before.size(), R"("path": ")" + (folder / name).string());
  }
  const auto memory = make_memory_store();
  const part bytes = std::as_bytes(std::span(manifest));
  ASSERT_TRUE(memory->put("x.shards", {&bytes, 1}, {}).ok());
  open_options how;
  how.path = "x.shards";
  const auto refused = open(memory, how);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  how.allow_local = true;
  EXPECT_TRUE(open(memory, how).ok());
}

TEST_F(ReferenceTree, ReadsAbsentFilesAsFillIfRequested) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["gone.bin", 2, 2]})");
  open_options how;
  how.path = "g/x";
  how.missing_is_fill = true;
  const auto filled = open_array((folder / "r.json").string(), how);
  ASSERT_TRUE(filled.ok()) << filled.error().to_string();
  EXPECT_EQ(values_of(*filled), (std::vector<int>{9, 9, 9, 9, 9}));
}

TEST_F(ReferenceTree, IsSavedAsAManifest) {
  for (const std::string name : {"one.bin", "gr\xc3\xb6\xc3\x9f\x65.bin", "odd \xff\xfe\".bin"}) {
    SCOPED_TRACE(name);
    write(name, "--\x01\x02");
    std::string spelled = dump_json_with_bytes(json(name));
    write("r.json", std::string("{") + kDocuments + R"(, "g/x/.zattrs": {"a": 1234567890123456789, "b": NaN})" +
                        R"(, "g/x/0": [)" + spelled + R"(, 2, 2], "g/x/1": "base64:AwQ="})");
    const auto opened = open_array((folder / "r.json/g/x").string());
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    EXPECT_EQ(referenced_files(*opened), std::vector<std::string>{(folder / name).string()});
    for (const std::string& from : {folder.string(), std::string(), folder.parent_path().string()}) {
      const auto saved = save_references(*opened, {.folder = from});
      ASSERT_TRUE(saved.ok()) << saved.error().to_string();
      const std::string text(reinterpret_cast<const char*>(saved->data()), saved->size());
      EXPECT_NE(text.find("1234567890123456789"), std::string::npos);
      const std::filesystem::path path = (from.empty() ? folder : std::filesystem::path(from)) / "x.manifest";
      std::ofstream(path, std::ios::binary) << text;
      const auto again = open_array(path.string());
      ASSERT_TRUE(again.ok()) << again.error().to_string();
      EXPECT_EQ(values_of(*again), (std::vector<int>{1, 2, 3, 4, 9}));
      const auto twice = save_references(*again, {.folder = from});
      ASSERT_TRUE(twice.ok()) << twice.error().to_string();
      EXPECT_EQ(*twice, *saved);
      std::filesystem::remove(path);
    }
  }
}

TEST_F(ReferenceTree, RefusesAManifestOfAChangedFile) {
  write("r.json", std::string("{") + kDocuments + R"(, "g/x/0": ["one.bin", 2, 2]})");
  const auto opened = open_array((folder / "r.json/g/x").string());
  ASSERT_TRUE(opened.ok());
  const auto saved = save_references(*opened, {.folder = folder.string()});
  ASSERT_TRUE(saved.ok());
  write("x.manifest", std::string(reinterpret_cast<const char*>(saved->data()), saved->size()));
  write("one.bin", "--\x01\x02\x03");
  const auto again = open_array((folder / "x.manifest").string());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), errc::conflict);
}

TEST_F(ReferenceTree, ReadsFromStoresOfTheCaller) {
  const auto elsewhere = make_memory_store();
  const std::string content = "--\x01\x02";
  const part bytes = std::as_bytes(std::span(content));
  ASSERT_TRUE(elsewhere->put("below/one.bin", {&bytes, 1}, {}).ok());
  const std::string text = std::string("{") + kDocuments +
                           R"(, "g/x/0": ["abc://host/a/one.bin", 2, 2], "g/x/1": ["abc://host/a/one.bin", 2, 2]})";
  std::vector<std::string> asked;
  const auto open_with = [&](folder_finder find) {
    reference_tree_place at;
    at.context = *context::make();
    at.base = folder.string();
    at.find_folder = std::move(find);
    return (*reference_tree::of_json(text, std::move(at)))->open("g/x");
  };
  const auto opened = open_with([&](const std::string& url) -> result<std::optional<place>> {
    asked.push_back(url);
    return std::optional(place{elsewhere, "below"});
  });
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(asked, std::vector<std::string>{"abc://host/a"});
  EXPECT_EQ(values_of(std::get<array>(*opened)), (std::vector<int>{1, 2, 1, 2, 9}));
  const auto unknown = open_with([](const std::string&) { return result(std::optional<place>()); });
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), errc::unsupported);
  const auto failed =
      open_with([](const std::string&) -> result<std::optional<place>> { return error(errc::cancelled, "no"); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), errc::cancelled);
}

TEST(SavedReferences, StayWithinTheLimitsOfReaders) {
  constexpr std::uint64_t kCells = 9'000'000;
  reference_table::columns columns;
  columns.offsets.assign(kCells, std::uint64_t{1} << 40);  // 72 MB that DEFLATE reduces to a few KB
  columns.lengths.assign(kCells, 1);
  referenced_array what;
  what.documents = {{".zarray", R"({"zarr_format": 2, "shape": [9000000], "chunks": [1], "dtype": "|u1", "order": "C",
      "filters": null, "compressor": null, "fill_value": 0})"}};
  const auto metadata = parse_array_documents(what.documents);
  ASSERT_TRUE(metadata.ok()) << metadata.error().to_string();
  what.metadata = *metadata;
  const auto table = reference_table::make(kCells, std::move(columns));
  ASSERT_TRUE(table.ok()) << table.error().to_string();
  what.table = *table;
  referenced_object object;
  object.name = "https://host/x";
  object.from = make_memory_store();
  object.key = "x";
  what.objects.push_back(object);
  what.uri = "test:";
  const std::shared_ptr<context> with = *context::make();
  const auto opened = open_reference(with, what);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  const auto saved = save_references(*opened, {.folder = ""});
  ASSERT_TRUE(saved.ok()) << saved.error().to_string();
  manifest_place at;
  at.find_objects = [&](const std::vector<remote_object>& wanted) -> result<std::vector<std::optional<place>>> {
    EXPECT_EQ(wanted.size(), 1U);
    return std::vector<std::optional<place>>{place{make_memory_store(), "x"}};
  };
  const auto again = open_saved_references(*saved, at, with);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->shape(), extents{kCells});
}

TEST(ReferencePlace, AddsTheDefaultSchemeToNamesWithoutOne) {
  reference_tree_place at;
  at.base = "/data";
  at.default_scheme = "s3";
  at.rule = {"https://host/r.json", {}};
  EXPECT_EQ(*allowed_location(at, "bucket/x"), "s3://bucket/x");
  EXPECT_EQ(*allowed_location(at, "gs://bucket/x"), "gs://bucket/x");
  EXPECT_EQ(allowed_location(at, "file:///etc/x").error().code(), errc::unsupported);
  at.default_scheme = "file";
  EXPECT_EQ(*allowed_location(at, "/data/../x"), "/x");
}

TEST(ResolvedLocation, IsRelativeToTheFolderOfTheReferences) {
  EXPECT_EQ(resolved_location("/data", "x.bin"), "/data/x.bin");
  EXPECT_EQ(resolved_location("/data", "/x.bin"), "/x.bin");
  EXPECT_EQ(resolved_location("s3://bucket/a", "../x.bin"), "s3://bucket/x.bin");
  EXPECT_EQ(resolved_location("https://host/a", "https://other/x"), "https://other/x");
  EXPECT_EQ(resolved_location("https://host/a", "/etc/x"), "/etc/x");
}

TEST(NamedLocation, InAManifestHasNoDots) {
  EXPECT_EQ(named_location("/data", "."), "/data");
  EXPECT_EQ(named_location("/data/a", "../b/./c/"), "/data/b/c");
  EXPECT_EQ(named_location("/", "."), "/");
  EXPECT_EQ(named_location("/data", "/run/../x"), "/x");
  EXPECT_EQ(named_location("s3://bucket/a", "."), "s3://bucket/a");
  EXPECT_EQ(named_location("s3://bucket/a", "../b"), "s3://bucket/b");
  EXPECT_EQ(named_location("memory://", "."), "memory://");
  EXPECT_EQ(named_location("/data", "s3://bucket/a/../b"), "s3://bucket/a/../b");  // as it is spelled
  EXPECT_EQ(named_location("https://host/a", "zip://x::/y.zip"), "zip://x::/y.zip");
}

}  // namespace
}  // namespace penstock::inline v0
