// New arrays by name: which driver creates them, where, and which names are refused.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <penstock/array_writer.h>
#include <penstock/create.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/tiff_writer.h>
#include "driver/registry.h"
#include "store/store_fixture.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> counted(const create_options& how) {
  const std::uint64_t count = element_count(how.shape).value() * how.type.item_bytes();
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i % 100);
  return out;
}

class NewArray : public testing::Test {
 protected:
  NewArray() {
    how_.context = context::make().value();
    how_.shape = {2, 20, 30};
    how_.type = *dtype::from_name("uint16");
  }
  std::string name(const std::string& within) const { return (folder_.path() / within).string(); }
  /// Begins, writes and closes.
  result<> write(std::string_view uri) {
    std::vector<std::byte> values = counted(how_);
    PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin_array(uri, how_));
    const extents origin(how_.shape.size(), 0);
    PENSTOCK_TRY(writer->write(origin, tensor_view::contiguous(values.data(), how_.type, how_.shape)));
    EXPECT_FALSE(writer->closed());
    PENSTOCK_TRY(writer->close());
    EXPECT_TRUE(writer->closed());
    return {};
  }
  /// `open` finds the array at the returned location.
  void expect_written(const std::string& uri, const std::string& path = {}) {
    open_options as;
    as.context = how_.context;
    as.path = path;
    const auto opened = open(uri, as);
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    const array& found = std::get<array>(*opened);
    EXPECT_EQ(found.format(), "tiff");
    extents bands = how_.shape;  // one band, if there are two dimensions
    if (bands.size() == 2) bands = {1, bands[0], bands[1]};
    ASSERT_EQ(found.shape(), bands);
    ASSERT_EQ(found.type(), how_.type);
    std::vector<std::byte> values(counted(how_).size());
    ASSERT_TRUE(found.read(tensor_view::contiguous(values.data(), how_.type, bands)).ok());
    EXPECT_EQ(values, counted(how_));
  }

  test::temporary_folder folder_;
  create_options how_;
};

TEST_F(NewArray, HasTheFormatOfItsSuffix) {
  const auto format = [&](std::string_view path) { return driver_for_new(*how_.context, "", path).value()->name(); };
  for (const char* tiff : {"a.tif", "a.TIFF", "b/a.gtif", "a.b.btf", "a.tf8", "a.cog", "a.gtiff"})
    EXPECT_EQ(format(tiff), "tiff") << tiff;
  for (const char* zarr : {"", "a", "a.zarr", "a.tif/b", "a.h5", "a.npz", "a.nc", "tif", "a.zip"})
    EXPECT_EQ(format(zarr), "zarr") << zarr;
  EXPECT_EQ(format("b/a.NPY"), "npy");
  EXPECT_EQ(driver_for_new(*how_.context, "tiff", "a").value()->name(), "tiff");
}

TEST_F(NewArray, RefusesANameOfAnotherFormat) {
  const std::pair<const char*, const char*> all[] = {
      {"a.h5",
       "hdf5 file, and this would write a Zarr folder: use penstock.convert in Python, penstock convert, or h5py"},
      {"a.HE5", "hdf5"},
      {"a.nc4", "hdf5"},
      {"a.nc", "netcdf file, and this would write a Zarr folder: use penstock.convert in Python or penstock convert"},
      {"a.json", "reference file"},
      {"a.parquet", "penstock.save_shards in Python"},
      {"a.feather", "penstock.save_shards in Python"},
      {"a.npz", "a .npz file"},
      {"a.raw", "a .raw file"},
      {"a.csv", "numpy.savetxt"},
      {"a.PNG/", "a .png file"},
      {"a.jpg", "another library"},
      {"a.grib2", "a .grib2 file"},
      {"a.GRB", "another library"},
      {"a.fits", "astropy.io.fits"},
      {"a.mat", "scipy.io.savemat"},
  };
  for (const auto& [ending, words] : all) {
    const auto refused = create_array(name(ending), how_);
    ASSERT_FALSE(refused.ok()) << ending;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << ending;
    EXPECT_NE(refused.error().message().find(words), std::string::npos) << refused.error().message();
    EXPECT_EQ(begin_array(name(ending), how_).error().code(), errc::invalid_argument) << ending;
    EXPECT_FALSE(check_new_name(ending).ok()) << ending;
  }
  for (const char* file : {"a.tif", "a.npy"}) EXPECT_FALSE(check_new_name(file).ok()) << file;  // no groups
  for (const char* plain : {"a", "a.zarr", "a.zip", "a.tif/b", ".hidden"}) EXPECT_TRUE(check_new_name(plain).ok());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(NewArray, IsAFileOfItsNameInAnyStore) {
  fs::create_directory(name("there"));
  how_.path = "first.tif";
  ASSERT_TRUE(write(name("in.zip")).ok());
  how_.path.clear();
  for (const char* within : {"a.tif", "there/a.tif", "not/there/a.tif", "in.zip/a.tif", "in.zip/b/a.tif"}) {
    const auto done = write(name(within));
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    expect_written(name(within));
  }
  EXPECT_TRUE(fs::is_regular_file(name("not/there/a.tif")));
  EXPECT_TRUE(fs::is_regular_file(name("in.zip")));
  ASSERT_TRUE(write("file://" + name("b.tif")).ok());
  expect_written(name("b.tif"));
  how_.path = "below/c.tif";
  ASSERT_TRUE(write(name("there")).ok());
  expect_written(name("there/below/c.tif"));
}

TEST_F(NewArray, IsAFileInAStore) {
  const std::shared_ptr<store> in = make_memory_store();
  how_.path = "deep/a.tif";
  std::vector<std::byte> values = counted(how_);
  const auto writer = begin_array(in, how_).value();
  ASSERT_TRUE(writer->write(extents{0, 0, 0}, tensor_view::contiguous(values.data(), how_.type, how_.shape)).ok());
  ASSERT_TRUE(writer->close().ok());
  open_options as;
  as.path = how_.path;
  EXPECT_EQ(open_array(in, as)->shape(), how_.shape);
  how_.path = "deep/zarr";  // in a store, an array whose name has no known ending is a Zarr array
  EXPECT_EQ(begin_array(in, how_).error().code(), errc::unsupported);
}

TEST_F(NewArray, ReplacesAFileOnlyIfRequested) {
  ASSERT_TRUE(write(name("a.tif")).ok());
  const auto refused = begin_array(name("a.tif"), how_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_EQ(refused.error().notes().size(), 1U) << refused.error().to_string();
  EXPECT_EQ(create_array(name("a.tif"), how_).error().code(), errc::invalid_argument);
  expect_written(name("a.tif"));
  how_.overwrite = true;
  how_.shape = {40, 16};
  {
    const auto begun = begin_array(name("a.tif"), how_).value();  // not closed: nothing changes
    EXPECT_FALSE(begun->closed());
  }
  ASSERT_TRUE(fs::exists(name("a.tif")));
  ASSERT_TRUE(write(name("a.tif")).ok());
  expect_written(name("a.tif"));
  fs::create_directory(name("b.tif"));
  EXPECT_EQ(begin_array(name("b.tif"), how_).error().message(), "'" + name("b.tif") + "' is a folder");
}

TEST_F(NewArray, ATiffHasOnlyNodataUntilItIsWritten) {
  auto tiff = std::make_shared<tiff_create_options>();
  tiff->nodata = std::int64_t{7};
  tiff->tile_height = tiff->tile_width = 16;
  how_.tiff = tiff;
  how_.attributes_json = R"({"units": "K", "level": 3})";
  const auto made = create_array(name("a.tif"), how_);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->shape(), how_.shape);
  std::vector<std::uint16_t> values(2 * 20 * 30);
  const auto view = tensor_view::contiguous(values.data(), how_.type, how_.shape);
  ASSERT_TRUE(made->read(view).ok());
  EXPECT_EQ(values, std::vector<std::uint16_t>(2 * 20 * 30, 7));
  EXPECT_FALSE(made->write(basic_selection(), view).ok());
  std::ifstream file(name("a.tif"), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(bytes.find("name=\"units\""), std::string::npos);
  EXPECT_NE(bytes.find(">3<"), std::string::npos);
}

TEST_F(NewArray, ATiffHasEveryTypeOfItsOptions) {
  const char* const all[] = {"\"uint8\"", "\"int32\"", "\"<f4\"", "\">f8\"", "\"|u1\"", "\"complex64\"", "\"float16\""};
  for (const char* const type : all) {
    how_.dtype_json = type;
    how_.overwrite = true;
    const auto made = create_array(name("a.tif"), how_);
    ASSERT_TRUE(made.ok()) << type << ": " << made.error().to_string();
    how_.path.clear();
  }
  const std::pair<const char*, errc> wrong[] = {{"\"<U3\"", errc::unsupported},
                                                {"\"bool\"", errc::unsupported},
                                                {"\"int4\"", errc::unsupported},
                                                {"\"nothing\"", errc::unsupported},
                                                {"{", errc::invalid_argument}};
  for (const auto& [type, code] : wrong) {
    how_.dtype_json = type;
    EXPECT_EQ(create_array(name("b.tif"), how_).error().code(), code) << type;
  }
  EXPECT_FALSE(fs::exists(name("b.tif")));
}

TEST_F(NewArray, ATiffRefusesUnsupportedOptionsByName) {
  const std::pair<const char*, std::function<void(create_options&)>> all[] = {
      {"'zarr_format'", [](auto& how) { how.zarr_format = 2; }},
      {"'chunks' is an option of Zarr arrays, not of TIFFs: tile_height",
       [](auto& how) { how.chunks = extents{1, 16, 16}; }},
      {"'chunks'", [](auto& how) { how.chunk_lengths = {{}, {}, {}}; }},
      {"'shards'", [](auto& how) { how.auto_shards = true; }},
      {"'shards'", [](auto& how) { how.shards = extents{1, 16, 16}; }},
      {"'codecs'", [](auto& how) { how.codecs_json = "[\"zstd\"]"; }},
      {"'fill_value'", [](auto& how) { how.fill_value_json = "1"; }},
      {"'fill_value'", [](auto& how) { how.fill_value = {std::byte{1}, std::byte{0}}; }},
      {"'dimension_names'", [](auto& how) { how.dimension_names = {"b", "y", "x"}; }},
      {"'order'", [](auto& how) { how.order = 'F'; }},
      {"keys", [](auto& how) { how.separator = '.'; }},
      {"(band, y, x) or (y, x)", [](auto& how) { how.shape = {20}; }},
      {"(band, y, x) or (y, x)", [](auto& how) { how.shape = {1, 1, 20, 20}; }},
      {"no pixels", [](auto& how) { how.shape = {2, 0, 20}; }},
      {"attributes", [](auto& how) { how.attributes_json = "[1]"; }},
      {"attributes", [](auto& how) { how.attributes_json = "{"; }},
      {"tiles",
       [](auto& how) {
         tiff_create_options tiff;
         tiff.tile_width = 17;
         how.tiff = std::make_shared<const tiff_create_options>(tiff);
       }},
  };
  for (const auto& [words, change] : all) {
    create_options how = how_;
    change(how);
    const auto refused = create_array(name("a.tif"), how);
    ASSERT_FALSE(refused.ok()) << words;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument) << words;
    EXPECT_NE(refused.error().message().find(words), std::string::npos) << refused.error().message();
    EXPECT_EQ(begin_array(name("a.tif"), how).error().message(), refused.error().message());
  }
  how_.tiff = std::make_shared<const tiff_create_options>();
  EXPECT_NE(create_array(name("a.zarr"), how_).error().message().find("'tiff'"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(NewArray, ATiffIsWrittenInWholeRows) {
  how_.shape = {40, 30};
  auto tiff = std::make_shared<tiff_create_options>();
  tiff->tile_height = tiff->tile_width = 16;
  how_.tiff = tiff;
  std::vector<std::byte> values = counted(how_);
  tensor_view rows = tensor_view::contiguous(values.data(), how_.type, {40, 30});
  const auto writer = begin_array(name("a.tif"), how_).value();
  EXPECT_EQ(writer->write(extents{0, 1}, rows).error().code(), errc::invalid_argument);
  EXPECT_EQ(writer->write(extents{0, 0, 0}, rows).error().code(), errc::invalid_argument);
  EXPECT_EQ(writer->write(extents{0}, rows).error().code(), errc::invalid_argument);
  EXPECT_EQ(writer->write(extents{16, 0}, rows).error().code(), errc::out_of_range);
  rows.extents[0] = 24;
  rows.data += 16 * 60;
  ASSERT_TRUE(writer->write(extents{16, 0}, rows).ok());
  rows.extents[0] = 16;
  rows.data = values.data();
  ASSERT_TRUE(writer->write(extents{0, 0}, rows).ok());
  EXPECT_EQ(writer->write(extents{0, 0}, rows).error().code(), errc::invalid_argument);
  ASSERT_TRUE(writer->close().ok());
  ASSERT_TRUE(writer->close().ok());
  expect_written(name("a.tif"));
}

// Refuses changes on request, and counts flushes.
class refusing_store final : public store {
 public:
  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    under_->read(reads, sink, std::move(stop));
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (refuses) return error(errc::io_error, "no space left");
    return under_->put(key, parts, condition);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    if (refuses) return error(errc::io_error, "no space left");
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  result<> flush() override {
    ++flushes;
    return {};
  }
  std::string uri() const override { return "test:"; }

  bool refuses = false;
  int flushes = 0;

 private:
  const std::shared_ptr<store> under_ = make_memory_store();
};

// A zip archive is locked from the first put to the flush.
TEST(FailedChange, OfMetadataFlushesTheStore) {
  const auto to = std::make_shared<refusing_store>();
  create_options how;
  how.context = context::make().value();
  how.shape = {4};
  how.type = *dtype::from_name("uint8");
  how.path = "a";
  ASSERT_TRUE(create_array(to, how).ok());
  const auto opened = open(std::shared_ptr<const store>(to));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  const group& root = std::get<group>(*opened);
  to->refuses = true;
  for (const auto& change : {std::function<bool()>([&] { return root.set_attributes("{}").ok(); }),
                             std::function<bool()>([&] { return erase(root, "a").ok(); }), std::function<bool()>([&] {
                               how.path = "b";
                               return create_array(to, how).ok();
                             })}) {
    const int before = to->flushes;
    EXPECT_FALSE(change());
    EXPECT_GT(to->flushes, before);
  }
}

// Another program may remove the metadata of an open array, or replace it.
TEST(FailedChange, OfMetadataOfAnotherKindLeavesItUnchanged) {
  const auto to = make_memory_store();
  create_options how;
  how.context = context::make().value();
  how.shape = {4};
  how.type = *dtype::from_name("uint8");
  how.path = "a";
  const array made = create_array(to, how).value();
  const std::string list = "[]";
  const part bytes = std::as_bytes(std::span(list.data(), list.size()));
  ASSERT_TRUE(to->put("a/zarr.json", {&bytes, 1}, {}).ok());
  const auto expect_failures = [&](errc code, const std::string& what) {
    for (const bool resizes : {false, true}) {
      const result<array> changed = resizes ? made.resize({8}) : made.set_attributes("{}");
      ASSERT_FALSE(changed.ok());
      EXPECT_EQ(changed.error().code(), code);
      EXPECT_NE(changed.error().to_string().find(what), std::string::npos) << changed.error().to_string();
    }
  };
  expect_failures(errc::corrupt_data, "'a/zarr.json' must be an object of JSON, got a JSON array");
  ASSERT_TRUE(to->erase("a/zarr.json", {}).ok());
  expect_failures(errc::not_found, "'a/zarr.json' was removed");
}

}  // namespace
}  // namespace penstock::inline v0
