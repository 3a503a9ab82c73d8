#include <penstock/shard_writer.h>

#include <gtest/gtest.h>
#include <penstock/create.h>
#include <penstock/extend/json.h>
#include <penstock/open.h>
#include <penstock/shards.h>
#include <penstock/tiff.h>
#include <penstock/tiff_writer.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "api/shards/shard_files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (fs::temp_directory_path() / "penstock-shards-XXXXXX").string();
    path_ = fs::canonical(mkdtemp(pattern.data()));
  }
  ~temporary_folder() { fs::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& each : fs::directory_iterator(folder)) out.push_back(each.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::int32_t> values_of(const array& from) {
  std::vector<std::int32_t> out(*element_count(from.shape()));
  const auto done = from.read(tensor_view::contiguous(out.data(), from.type(), from.shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

// (rows, 3) of 0, 1, 2, ...
array numbered(std::uint64_t rows) {
  create_options how;
  how.shape = {rows, 3};
  how.chunks = extents{4, 3};
  how.type = *dtype::from_name("int32");
  auto made = create_array(std::shared_ptr<store>(make_memory_store()), how);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  std::vector<std::int32_t> values(rows * 3);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_TRUE(
      made->write(selection(basic_selection()), tensor_view::contiguous(values.data(), how.type, how.shape)).ok());
  return *made;
}

TEST(ShardPattern, HasOneNumberWithAWidth) {
  const auto path = [](const char* text, std::uint64_t number) { return shard_pattern::parse(text)->path(number); };
  EXPECT_EQ(path("run/x_{}.npy", 12), "run/x_12.npy");
  EXPECT_EQ(path("run/x_{0:05d}.npy", 12), "run/x_00012.npy");
  EXPECT_EQ(path("x_{:4}.npy", 12), "x_  12.npy");
  EXPECT_EQ(path("a{{b}}_{:02d}.npy", 123), "a{b}_123.npy");
  EXPECT_EQ(path("file:///tmp/x_{}.npy", 1), "/tmp/x_1.npy");
  EXPECT_EQ(path("file://localhost/tmp/x_{}.npy", 1), "/tmp/x_1.npy");
  const auto pattern = shard_pattern::parse("run/step_{}/part.NPY");
  EXPECT_EQ(pattern->folder(), "run");
  EXPECT_EQ(pattern->suffix(), ".npy");
  for (const char* const bad : {"x.npy", "{}_{}.npy", "{a}.npy", "{0.real}.npy", "{!r}.npy", "{:x}.npy", "{.npy",
                                "}{}.npy", "{1}.npy", "{:99999999999999999999999d}.npy"})
    EXPECT_EQ(shard_pattern::parse(bad).error().code(), errc::invalid_argument) << bad;
  EXPECT_EQ(shard_pattern::parse("s3://bucket/x_{}.npy").error().code(), errc::unsupported);
}

TEST(ShardPattern, FindsFilesOfAnEarlierRun) {
  const temporary_folder folder;
  for (const char* const name : {"q_0001.npy", "q_0002.npy", "q_0010.npy", "q_3.npy", "q_0004.npy.bak", "p_0005.npy",
                                 "q_.npy", "q_x.npy", "q_99999999999999999999.npy"})
    std::ofstream(folder.path() / name) << "mine";
  const auto pattern = shard_pattern::parse((folder.path() / "q_{:04d}.npy").string());
  EXPECT_EQ(*pattern->left_over(2), (std::vector<std::string>{(folder.path() / "q_0002.npy").string(),
                                                              (folder.path() / "q_0010.npy").string()}));
  EXPECT_TRUE(shard_pattern::parse((folder.path() / "none" / "q_{}.npy").string())->left_over(0)->empty());
}

TEST(ShardEdges, CutByRowsOrByNumber) {
  using edges = std::vector<std::uint64_t>;
  EXPECT_EQ(*shard_edges(10, 4, {}), (edges{0, 4, 8, 10}));
  EXPECT_EQ(*shard_edges(8, 4, {}), (edges{0, 4, 8}));
  EXPECT_EQ(*shard_edges(0, 4, {}), (edges{0, 0}));
  EXPECT_EQ(*shard_edges(10, {}, 3), (edges{0, 3, 6, 10}));
  EXPECT_EQ(*shard_edges(2, {}, 3), (edges{0, 0, 1, 2}));
  EXPECT_FALSE(shard_edges(10, {}, {}).ok());
  EXPECT_FALSE(shard_edges(10, 1, 1).ok());
  EXPECT_FALSE(shard_edges(10, 0, {}).ok());
}

TEST(ShardWriter, RefusesAManifestWithTheNameOfAShard) {
  const auto is_made = [](const char* pattern, const char* manifest) {
    shard_writer_options how;
    how.manifest = manifest;
    return shard_writer::make(pattern, how).ok();
  };
  for (const char* const name : {"x_0.npy", "x_17.npy", ""}) {
    EXPECT_FALSE(is_made("x_{}.npy", name)) << name;
    EXPECT_FALSE(is_made("run/x_{}.npy", name)) << name;
  }
  EXPECT_FALSE(is_made("./1{:03d}.npy", "1005.npy"));
  EXPECT_FALSE(is_made("x_{}.npy", "./x_0.npy"));
  EXPECT_FALSE(is_made("run//x_{}.npy", "x_0.npy"));
  for (const char* const name : {"x_.npy", "x_1.npz", "x_01.npy", "penstock.shards"})
    EXPECT_TRUE(is_made("x_{}.npy", name)) << name;
}

TEST(ShardEdges, RefuseMoreFilesThanAListInMemoryHolds) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 40;
  for (const auto& made : {shard_edges(10, {}, kMany), shard_edges(kMany, 1, {})}) {
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code(), errc::invalid_argument);
    EXPECT_EQ(made.error().message(), "an array is written as at most 16777216 files, not as 1099511627776");
  }
}

TEST(ShardWriter, WritesFilesAndAManifest) {
  for (const char* const suffix : {".npy", ".raw", ".dat"}) {
    const temporary_folder folder;
    const std::string pattern = (folder.path() / "run" / ("q_{:02d}" + std::string(suffix))).string();
    save_shards_options how;
    how.rows = 1;
    ASSERT_TRUE(save_shards(numbered(10), pattern, how).ok());
    how.rows = 4;
    const auto paths = save_shards(numbered(10), pattern, how);
    ASSERT_TRUE(paths.ok()) << paths.error().to_string();
    ASSERT_EQ(paths->size(), 3U);
    std::vector<std::string> expected{"penstock.shards"};
    for (int i = 0; i < 3; ++i) expected.push_back("q_0" + std::to_string(i) + suffix);
    if (std::string(suffix) != ".npy") expected.insert(expected.begin(), "_meta.json");
    EXPECT_EQ(names_in(folder.path() / "run"), expected);

    fs::rename(folder.path() / "run", folder.path() / "moved");
    const auto again = open_array((folder.path() / "moved" / "penstock.shards").string());
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    std::vector<std::int32_t> all(30);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(values_of(*again), all);
    const auto files = shard_files(*again);
    ASSERT_EQ(files.size(), 3U);
    for (const shard_file& each : files) {
      const std::string bytes = text_of(folder.path() / "moved" / each.key);
      EXPECT_EQ(each.crc32c, file_crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
    }
  }
}

TEST(ShardWriter, AcceptsAnyStridesAndKeepsTheStoredDtype) {
  const temporary_folder folder;
  auto writer = shard_writer::make((folder.path() / "x_{}.npy").string());
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  // Columns of a (2, 3) block, in the other byte order.
  std::vector<std::uint8_t> bytes{0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
  tensor_view view;
  view.data = reinterpret_cast<std::byte*>(bytes.data());
  view.type = *dtype::from_name("r16");
  view.extents = {3, 2};
  view.strides = {2, 6};
  ASSERT_TRUE(writer->write({view, ">i2"}).ok());
  ASSERT_TRUE(writer->close().ok());
  const auto again = open_array((folder.path() / "x_0.npy").string());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->type().name(), "int16");
  std::vector<std::int16_t> out(6);
  ASSERT_TRUE(again->read(tensor_view::contiguous(out.data(), again->type(), {3, 2})).ok());
  EXPECT_EQ(out, (std::vector<std::int16_t>{1, 4, 2, 5, 3, 6}));
}

TEST(ShardWriter, RowsThatDifferFromTheFirstAreRefused) {
  const temporary_folder folder;
  auto writer = shard_writer::make((folder.path() / "x_{}.raw").string());
  ASSERT_TRUE(writer.ok());
  std::vector<float> values(12);
  const dtype float32 = *dtype::from_name("float32");
  ASSERT_TRUE(writer->write({tensor_view::contiguous(values.data(), float32, {4, 3}), {}}).ok());
  const auto other = writer->write({tensor_view::contiguous(values.data(), float32, {3, 4}), {}});
  EXPECT_EQ(other.error().code(), errc::invalid_argument);
  EXPECT_NE(other.error().message().find("<f4 (*, (3,)), this one is <f4 (*, (4,))"), std::string::npos);
  EXPECT_EQ(writer->write({tensor_view::contiguous(values.data(), float32, {}), {}}).error().code(),
            errc::invalid_argument);
  ASSERT_TRUE(writer->write({tensor_view::contiguous(values.data(), float32, {0, 3}), {}}).ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(open_array((folder.path() / "penstock.shards").string())->shape(), (extents{4, 3}));
  EXPECT_EQ(shard_writer::make("x_{}.csv").error().code(), errc::unsupported);
}

TEST(ShardWriter, CallersMayWriteTheFiles) {
  const temporary_folder folder;
  shard_writer_options how;
  how.own_format = true;
  auto writer = shard_writer::make((folder.path() / "deep_{}" / "x.csv").string(), how);
  ASSERT_TRUE(writer.ok());
  std::vector<float> values(4);
  const auto path = writer->next({tensor_view::contiguous(values.data(), *dtype::from_name("float32"), {4}), {}});
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_EQ(*path, (folder.path() / "deep_0" / "x.csv").string());
  EXPECT_TRUE(writer->paths().empty());
  std::ofstream(*path) << "0,0,0,0";
  writer->add(7);
  fs::create_directories(folder.path() / "deep_1");
  std::ofstream(folder.path() / "deep_1" / "x.csv") << "of an earlier run";
  ASSERT_TRUE(writer->sync().ok());
  ASSERT_TRUE(writer->remove_left_over().ok());
  EXPECT_TRUE(fs::exists(*path));
  EXPECT_FALSE(fs::exists(folder.path() / "deep_1" / "x.csv"));
  EXPECT_EQ(*writer->manifest_path(), (folder.path() / "penstock.shards").string());
}

/// (bands, y, x) as TIFFs have them.
array picture(std::uint64_t bands) {
  create_options how;
  how.shape = {bands, 20, 30};
  how.type = *dtype::from_name("uint16");
  const array made = create_array(std::shared_ptr<store>(make_memory_store()), how).value();
  std::vector<std::uint16_t> values(bands * 600);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  EXPECT_TRUE(
      made.write(selection(basic_selection()), tensor_view::contiguous(values.data(), how.type, how.shape)).ok());
  return made;
}

std::vector<std::uint16_t> pixels_of(const array& from) {
  std::vector<std::uint16_t> out(element_count(from.shape()).value());
  EXPECT_TRUE(from.read(tensor_view::contiguous(out.data(), from.type(), from.shape())).ok());
  return out;
}

TEST(ShardWriter, WritesArraysByTheDriversOfTheirNames) {
  for (const std::string suffix : {".npz", ".zarr", ".tif", ".TIFF", ".gtiff", ".cog"}) {
    const temporary_folder folder;
    const std::string pattern = (folder.path() / "run" / ("q_{:02d}" + suffix)).string();
    const array from = picture(7);
    save_shards_options how;
    how.rows = 1;
    ASSERT_TRUE(save_shards(from, pattern, how).ok()) << suffix;
    how.rows = 3;
    const auto paths = save_shards(from, pattern, how);
    ASSERT_TRUE(paths.ok()) << paths.error().to_string();
    EXPECT_EQ(names_in(folder.path() / "run"),
              (std::vector<std::string>{"penstock.shards", "q_00" + suffix, "q_01" + suffix, "q_02" + suffix}));
    EXPECT_EQ(fs::is_directory((*paths)[0]), suffix == ".zarr");
    fs::rename(folder.path() / "run", folder.path() / "moved");
    const auto again = open_array((folder.path() / "moved" / "penstock.shards").string());
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(again->shape(), (extents{7, 20, 30}));
    EXPECT_EQ(pixels_of(*again), pixels_of(from)) << suffix;
    const json manifest = json::parse(text_of(folder.path() / "moved" / "penstock.shards")).value();
    const json& first = manifest.find("shards")->as_array()->at(0);
    EXPECT_EQ(*first.find("path")->as_string(), "q_00" + suffix);
    EXPECT_EQ(*first.find("dtype")->as_string(), "<u2");
    std::uint64_t sum = 0;
    EXPECT_TRUE(first.find("crc32c")->get(sum));
    if (suffix == ".zarr") continue;
    const std::string bytes = text_of(folder.path() / "moved" / ("q_00" + suffix));
    EXPECT_EQ(sum, file_crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()})) << suffix;
  }
}

TEST(ShardWriter, NamesNeedNotBeUtf8) {
  for (const std::string suffix : {".npz", ".zarr", ".tif"}) {
    const temporary_folder folder;
    save_shards_options how;
    how.rows = 2;
    const fs::path here = folder.path() / "f\xff";
    const auto paths = save_shards(picture(3), (here / ("s\xfe_{}" + suffix)).string(), how);
    ASSERT_TRUE(paths.ok()) << paths.error().to_string();
    const auto again = open_array((here / "penstock.shards").string());
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(pixels_of(*again), pixels_of(picture(3))) << suffix;
  }
}

TEST(ShardWriter, TakesOptionsOfTheArrays) {
  const temporary_folder folder;
  const array from = picture(2);
  save_shards_options how;
  how.rows = 2;
  how.arrays.chunks = extents{1, 10, 10};
  how.arrays.codecs_json = R"(["bytes"])";
  how.arrays.attributes_json = R"({"units": "K"})";
  ASSERT_TRUE(save_shards(from, (folder.path() / "z_{}.zarr").string(), how).ok());
  const array zarr = open_array((folder.path() / "z_0.zarr").string()).value();
  EXPECT_EQ(zarr.chunks(), (extents{1, 10, 10}));
  EXPECT_NE(zarr.attributes_json().find("units"), std::string::npos);

  const auto refused = save_shards(from, (folder.path() / "t_{}.tif").string(), how);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("'chunks' is an option of Zarr arrays"), std::string::npos);
  how.arrays = {};
  auto tiff = std::make_shared<tiff_create_options>();
  tiff->tile_height = tiff->tile_width = 16;
  how.arrays.tiff = tiff;
  ASSERT_TRUE(save_shards(from, (folder.path() / "t_{}.tif").string(), how).ok());
  EXPECT_EQ(open_array((folder.path() / "t_0.tif").string())->chunks()[2], 16U);

  how.arrays = {};
  how.name = "";
  EXPECT_EQ(save_shards(from, (folder.path() / "n_{}.npz").string(), how).error().code(), errc::invalid_argument);
  how.name = "speed";
  ASSERT_TRUE(save_shards(from, (folder.path() / "n_{}.npz").string(), how).ok());
  EXPECT_TRUE(open_array((folder.path() / "n_0.npz/speed").string()).ok());
}

TEST(ShardWriter, RefusesValuesThatAFormatCannotStore) {
  const temporary_folder folder;
  const auto write = [&](const std::string& suffix, const char* type, extents shape, std::string descr = {}) {
    auto writer = shard_writer::make((folder.path() / ("x_{}" + suffix)).string());
    std::vector<std::byte> values(1024);
    return writer->write({tensor_view::contiguous(values.data(), *dtype::from_name(type), shape), std::move(descr)});
  };
  EXPECT_EQ(write(".tif", "uint8", {4, 4}).error().code(), errc::unsupported);
  EXPECT_EQ(write(".tif", "uint8", {0, 4, 4}).error().code(), errc::unsupported);
  EXPECT_EQ(write(".tif", "bool", {1, 4, 4}).error().code(), errc::unsupported);
  EXPECT_EQ(write(".npy", "bfloat16", {4}).error().code(), errc::unsupported);
  EXPECT_EQ(write(".npz", "bfloat16", {4}).error().code(), errc::unsupported);
  EXPECT_EQ(write(".zarr", "uint8", {4}, "<f4").error().code(), errc::invalid_argument);
  EXPECT_TRUE(names_in(folder.path()).empty());
  ASSERT_TRUE(write(".zarr", "bfloat16", {4}).ok());
  EXPECT_EQ(open_array((folder.path() / "x_0.zarr").string())->type().name(), "bfloat16");
  ASSERT_TRUE(write(".zarr", "uint8", {0, 3}).ok());
  EXPECT_EQ(open_array((folder.path() / "x_0.zarr").string())->shape(), (extents{0, 3}));

  fs::remove_all(folder.path() / "x_0.zarr");
  fs::create_directory(folder.path() / "x_0.zarr");
  EXPECT_EQ(write(".zarr", "uint8", {4}).error().code(), errc::conflict);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"x_0.zarr"}));
}

TEST(ShardWriter, ATiffMayHaveAMaskAndOptionsOfItsOwn) {
  const temporary_folder folder;
  auto writer = shard_writer::make((folder.path() / "x_{}.tif").string());
  std::vector<std::byte> values(400, std::byte{7}), valid(400, std::byte{255});
  valid[0] = std::byte{0};
  const dtype byte(dtype_kind::unsigned_integer, 8);
  shard_values given{tensor_view::contiguous(values.data(), byte, {1, 20, 20}), {}};
  given.mask = tensor_view::contiguous(valid.data(), byte, {20, 20});
  create_options how;
  EXPECT_EQ(writer->write(given, how).error().code(), errc::invalid_argument);  // created without a mask
  auto tiff = std::make_shared<tiff_create_options>();
  tiff->mask = true;
  how.tiff = tiff;
  ASSERT_TRUE(writer->write(given, how).ok());
  const array opened = open_array(writer->paths()[0]).value();
  EXPECT_TRUE(tiff_companions_of(opened).has_mask);
  auto second = shard_writer::make((folder.path() / "x_{}.tif").string());
  EXPECT_EQ(second->write(given, how).error().code(), errc::invalid_argument);  // it exists
}

TEST(SaveShards, ValuesInMemoryAreCutLikeAnOpenArray) {
  const temporary_folder folder;
  const array from = numbered(7);
  std::vector<std::int32_t> values = values_of(from), spread(2 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) spread[2 * i] = values[i];
  tensor_view items = tensor_view::contiguous(spread.data(), from.type(), {7, 6});
  items.extents[1] = 3;
  items.strides[1] *= 2;
  for (const char* const suffix : {".npy", ".raw", ".zarr"}) {
    save_shards_options how;
    how.rows = 3;
    std::vector<std::uint64_t> done;
    how.progress = [&](const read_progress& now) {
      EXPECT_EQ(now.total_bytes, 84U);
      done.push_back(now.done_bytes);
      return true;
    };
    const auto first = save_shards(from, (folder.path() / "a" / ("x_{}" + std::string(suffix))).string(), how);
    ASSERT_TRUE(first.ok()) << first.error().to_string();
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(done.back(), 84U);
    done.clear();
    const auto second =
        save_shards(shard_values{items, {}}, (folder.path() / "b" / ("x_{}" + std::string(suffix))).string(), how);
    ASSERT_TRUE(second.ok()) << second.error().to_string();
    EXPECT_EQ(done, (std::vector<std::uint64_t>{36, 72, 84}));
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string inner = suffix == std::string(".zarr") ? "/c/0/0" : "";
      EXPECT_EQ(text_of((*first)[i] + inner), text_of((*second)[i] + inner)) << suffix;
      EXPECT_FALSE(text_of((*first)[i] + inner).empty());
    }
    fs::remove_all(folder.path());
    fs::create_directories(folder.path());
  }
}

TEST(SaveShards, StopsIfProgressReturnsFalse) {
  const temporary_folder folder;
  save_shards_options how;
  how.shards = 2;
  how.progress = [](const read_progress&) { return false; };
  const auto stopped = save_shards(numbered(4), (folder.path() / "x_{}.npy").string(), how);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code(), errc::cancelled);
  EXPECT_FALSE(fs::exists(folder.path() / "penstock.shards"));
}

TEST(SaveShards, TiffsHaveTheOptionsOfTheirRows) {
  const temporary_folder folder;
  std::vector<std::byte> values(3 * 400, std::byte{7}), valid(400, std::byte{255});
  valid[0] = std::byte{0};
  const dtype byte(dtype_kind::unsigned_integer, 8);
  shard_values given{tensor_view::contiguous(values.data(), byte, {3, 20, 20}), {}};
  given.mask = tensor_view::contiguous(valid.data(), byte, {20, 20});
  save_shards_options how;
  how.rows = 2;
  for (const std::uint64_t rows : {1U, 2U}) {
    auto tiff = std::make_shared<tiff_create_options>();
    tiff->mask = true;
    tiff->meaning.metadata.emplace_back("ROWS", std::to_string(rows));
    how.arrays_of_rows[rows].tiff = tiff;
  }
  for (int again = 0; again < 2; ++again) {
    const auto paths = save_shards(given, (folder.path() / "x_{}.tif").string(), how);
    ASSERT_TRUE(paths.ok()) << paths.error().to_string();
    ASSERT_EQ(paths->size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const array opened = open_array((*paths)[i]).value();
      EXPECT_EQ(opened.shape()[0], 2 - i);
      EXPECT_TRUE(tiff_companions_of(opened).has_mask);
      EXPECT_NE(text_of((*paths)[i]).find("ROWS\">" + std::to_string(2 - i)), std::string::npos);
    }
  }
}

TEST(SaveShards, AnArrayDoesNotOverwriteItsOwnFiles) {
  const temporary_folder folder;
  const std::string pattern = (folder.path() / "q_{}.npy").string();
  save_shards_options how;
  how.rows = 2;
  ASSERT_TRUE(save_shards(numbered(6), pattern, how).ok());
  const auto whole = open_array((folder.path() / "penstock.shards").string());
  ASSERT_TRUE(whole.ok());
  const auto last = open_array((folder.path() / "q_2.npy").string());
  ASSERT_TRUE(last.ok());
  fs::create_directory_symlink(folder.path(), folder.path() / "link");
  how.rows = 6;
  for (const array& from : {*whole, *last}) {  // q_2 would be removed
    for (const std::string& to : {pattern, (folder.path() / "link" / "q_{}.npy").string()}) {
      const auto refused = save_shards(from, to, how);
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().message().find("own files would be replaced or removed"), std::string::npos);
    }
  }
  EXPECT_EQ(values_of(*whole).size(), 18U);
  EXPECT_TRUE(save_shards(*whole, (folder.path() / "p_{}.npy").string(), how).ok());
}

}  // namespace
}  // namespace penstock
