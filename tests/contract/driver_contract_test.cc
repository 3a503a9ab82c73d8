#include "contract/driver_contract.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include <penstock/shards.h>
#include "driver/open_reference.h"
#include "extend/extensions.h"
#include "format/npy/npy_header.h"

namespace penstock::contract {
namespace {

bytes bytes_of(std::string_view text) {
  bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

bytes npy_file() {
  bytes out = bytes_of(write_npy_header("'<f4'", storage_order::c, {5, 7}));
  out.resize(out.size() + 5 * 7 * 4, std::byte{1});
  return out;
}

bytes read_file(const char* path) {  // tests run in the project's folder
  std::ifstream file(path, std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

bytes tiff_file() { return read_file("examples/scene.tif"); }
bytes hdf5_file() { return read_file("tests/data/fuzz/hdf5_file/old"); }
bytes new_hdf5_file() { return read_file("tests/data/fuzz/hdf5_file/tree"); }
bytes netcdf_file() { return read_file("tests/data/fuzz/netcdf_header/cdf1"); }

bytes kerchunk_file() {
  return bytes_of(
      R"({"version": 1, "refs": {
    ".zarray": "{\"zarr_format\": 2, \"shape\": [6], \"chunks\": [4], \"dtype\": \"|u1\", \"compressor\": null,)"
      R"( \"fill_value\": 0, \"order\": \"C\", \"filters\": null}", "0": "abcd", "1": "base64:ZWZnaA=="}})");
}

result<array> open_in_memory(const char* key, const bytes& content) {
  const std::shared_ptr<store> from = make_memory_store();
  const part whole(content);
  PENSTOCK_TRY(from->put(key, {&whole, 1}, {}));
  open_options how;
  how.path = key;
  return open_array(from, how);
}

bytes manifest_file() {
  const auto saved = save_manifest(open_in_memory("b.npy", npy_file()).value(), ".", manifest_form::binary);
  EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  return *saved;
}

bytes references_file() {
  const auto saved = save_references(open_in_memory("b.json", kerchunk_file()).value(), {.folder = ""});
  EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  return *saved;
}

bytes pgm_file() {
  bytes out = bytes_of("P5\n7 5\n65535\n");
  out.resize(out.size() + 5 * 7 * 2, std::byte{1});
  return out;
}

const driver_case kCases[] = {
    {"npy", "a.npy", npy_file, {}, [](create_options&) {}},
    {"tiff", "a.tif", tiff_file, {}, [](create_options& how) { how.shape = {2, 3, 4}; }},
    {"reference", "a.json", kerchunk_file},
    {"hdf5", "a.h5", hdf5_file, {}, {}, "x"},
    {"hdf5", "a.nc", new_hdf5_file, {}, {}, "x"},
    {"netcdf", "a.nc", netcdf_file, {}, {}, "b"},
    {"manifest", "a.manifest", manifest_file, {}, {}, "", {{"b.npy", npy_file}}},
    {"references", "a.references", references_file},
    {"pgm", "a.pgm", pgm_file, pgm_format(), [](create_options&) {}},
};
/// A format of folders: the document `name` has the path of the array in the store.
class folder_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "folders"; }
  std::span<const std::string_view> endings() const noexcept override { return {}; }
  bool sniff(std::span<const std::byte>, std::string_view) const noexcept override { return false; }
  result<node> open(const location&, const open_options&) const override { return error(errc::internal, "no object"); }
  result<std::optional<node>> open_folder(const location& at, const open_options& how) const override {
    auto document = read_object(*at.from, at.path.empty() ? "name" : at.path + "/name", {}, 100);
    if (!document.ok()) return std::optional<node>();
    open_options inner = how;
    inner.path = text_of(document->bytes);
    PENSTOCK_ASSIGN(array made, open_array(at.from, inner));
    return std::optional<node>(node(std::move(made)));
  }
  result<group> create_group(const new_location& at, const create_group_options&) const override {
    const std::string text = "inner";
    const part document(reinterpret_cast<const std::byte*>(text.data()), text.size());
    PENSTOCK_TRY(at.to->put(at.path + "/name", std::span(&document, 1), {}));
    create_group_options inner;
    inner.context = at.context;
    inner.path = at.path + "/inner";
    return penstock::create_group(at.to, inner);
  }

 private:
  static std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

create_options three_items(const std::shared_ptr<context>& with, const std::string& path) {
  create_options out;
  out.context = with;
  out.path = path;
  out.shape = {3};
  out.type = *dtype::from_name("uint16");
  return out;
}

TEST(FolderDrivers, HavePrecedenceOverTheLibrarys) {
  context_options with;
  with.drivers = {std::make_shared<folder_format>()};
  open_options how;
  how.context = context::make(with).value();
  const std::shared_ptr<store> in = make_memory_store();
  ASSERT_TRUE(create_array(in, three_items(how.context, "a")).ok());
  ASSERT_TRUE(create_array(in, three_items(how.context, "b")).ok());
  how.path = "a";
  EXPECT_EQ(open_array(in, how)->uri(), in->uri() + "/a");
  const std::string text = "b";
  const part document(reinterpret_cast<const std::byte*>(text.data()), text.size());
  ASSERT_TRUE(in->put("a/name", std::span(&document, 1), {}).ok());
  EXPECT_EQ(open_array(in, how)->uri(), in->uri() + "/b");
}

TEST(FolderDrivers, CreateGroupsByTheirName) {
  context_options with;
  with.drivers = {std::make_shared<folder_format>()};
  create_group_options how;
  how.context = context::make(with).value();
  how.path = "g";
  how.format = "folders";
  const std::shared_ptr<store> in = make_memory_store();
  EXPECT_EQ(create_group(in, how)->uri(), in->uri() + "/g/inner");
  how.format = "npy";
  EXPECT_EQ(create_group(in, how).error().code(), errc::unsupported);
  how.format = "nothing";
  EXPECT_EQ(create_group(in, how).error().message(), "no format 'nothing'");
}

TEST(FolderDrivers, IncludeZarr) {
  const format_driver& zarr = *driver_for_new(*context::make().value(), "", "a.zarr").value();
  EXPECT_EQ(zarr.name(), "zarr");
  const std::shared_ptr<store> in = make_memory_store();
  const auto with = context::make().value();
  const array made = zarr.create({with, in, "a", "memory:/a"}, three_items(with, "a")).value();
  EXPECT_EQ(made.format(), "zarr3");
  const location at{with, in, "a", "memory:/a", nullptr};
  const auto found = zarr.open_folder(at, {}).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(std::get<array>(*found).shape(), made.shape());
  EXPECT_FALSE(zarr.open_folder({with, in, "b", "memory:/b", nullptr}, {}).value().has_value());
  EXPECT_EQ(zarr.open({with, in, "b", "memory:/b", nullptr}, {}).error().code(), errc::not_found);
}

TEST(FolderDrivers, AnArrayInAGroupHasItsFormat) {
  const auto with = context::make().value();
  create_group_options how;
  how.context = with;
  const group parent = create_group(make_memory_store(), how).value();
  create_options inner = three_items(with, "a");
  inner.format = "npy";
  EXPECT_EQ(create_array(parent, inner).error().code(), errc::invalid_argument);
  inner.format = "zarr";
  EXPECT_TRUE(create_array(parent, inner).ok());
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverContract, testing::ValuesIn(kCases),
                         [](const auto& each) { return fmt::format("{}_{}", each.param.name, each.index); });

}  // namespace
}  // namespace penstock::contract
