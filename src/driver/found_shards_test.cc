#include "driver/found_shards.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include <penstock/context.h>
#include <penstock/open.h>
#include "format/npy/npy_header.h"

namespace penstock::inline v0 {
namespace {

using names_list = std::vector<std::string>;

class FoundShards : public testing::Test {
 protected:
  FoundShards() { std::filesystem::create_directories(folder_); }
  ~FoundShards() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, std::string_view text = "x") {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  static names_list names_of(const found_shards& found) {
    names_list out;
    for (std::size_t i = 0; i < found.keys.size(); ++i) out.push_back(found.name(i));
    return out;
  }
  result<std::string> format_of(const std::string& pattern) {
    PENSTOCK_ASSIGN(const found_shards found, find_shards(at(pattern)));
    return shard_format(found, *with_);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("penstock_found_shards_" + std::to_string(::getpid()));
  std::shared_ptr<context> with_ = context::make().value();
};

TEST_F(FoundShards, SortsAPatternByNumber) {
  for (const char* name : {"x_10.npy", "x_9.npy", "x_11.npy", "y.npy"}) write(name);
  shard_files_options how;
  const auto begun = find_shards(at("x_*.npy"), how);
  ASSERT_FALSE(begun.ok()) << "0 to 8 are missing";
  EXPECT_NE(begun.error().message().find("lacks 'x_0.npy'"), std::string::npos) << begun.error().message();
  how.gaps = shard_gaps::allow;
  const auto found = find_shards(at("x_*.npy"), how);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(names_of(*found), (names_list{at("x_9.npy"), at("x_10.npy"), at("x_11.npy")}));
  EXPECT_EQ(found->keys.front(), "x_9.npy");
}

TEST_F(FoundShards, AFolderHasOneEndingInAnyCase) {
  for (const char* name : {"a_0.NPY", "a_1.npy", "notes.txt", ".hidden.tif", "LICENSE"}) write(name);
  const auto found = find_shards(folder_.string());
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->keys, (names_list{"a_0.NPY", "a_1.npy"}));
  write("b.h5");
  const auto mixed = find_shards(folder_.string());
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().code(), errc::invalid_argument);
  EXPECT_NE(mixed.error().message().find("holds *.h5 and *.npy: give a pattern, such as"), std::string::npos)
      << mixed.error().message();
  shard_files_options only;
  only.format = "hdf5";
  const auto chosen = find_shards(folder_.string(), only);
  ASSERT_TRUE(chosen.ok()) << chosen.error().to_string();
  EXPECT_EQ(chosen->keys, (names_list{"b.h5"}));
  only.format = "parquet";
  const auto none = find_shards(folder_.string(), only);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), errc::not_found);
  EXPECT_NE(none.error().message().find("(.parquet, .parq, .arrow, .feather)"), std::string::npos)
      << none.error().message();
}

TEST_F(FoundShards, OneNameIsOneFile) {
  write("x_7.npy");
  const auto found = find_shards(at("x_7.npy"));
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(names_of(*found), (names_list{at("x_7.npy")}));
  const auto by_uri = find_shards("file://" + at("x_7.npy"));
  ASSERT_TRUE(by_uri.ok()) << by_uri.error().to_string();
  EXPECT_EQ(names_of(*by_uri), (names_list{at("x_7.npy")}));
  EXPECT_EQ(find_shards(at("x_8.npy")).error().code(), errc::not_found);
  EXPECT_TRUE(find_shards("file://localhost" + at("x_7.npy")).ok());
  const auto elsewhere = find_shards("file://server" + at("x_7.npy"));
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.error().code(), errc::invalid_argument);
  EXPECT_NE(elsewhere.error().message().find("the host 'server'"), std::string::npos) << elsewhere.error().message();
}

TEST_F(FoundShards, AListKeepsItsOrderAndCommonFolder) {
  const names_list names = {at("run/b.npy"), at("run/deep/a.npy"), at("runs/c.npy")};
  const auto found = find_shards(std::span(names));
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->folder, folder_.string());
  EXPECT_EQ(names_of(*found), names);
  const names_list relative = {"a/../b.npy", "./c.npy"};
  const auto here = find_shards(std::span(relative));
  ASSERT_TRUE(here.ok()) << here.error().to_string();
  EXPECT_EQ(here->keys, (names_list{"b.npy", "c.npy"}));
  EXPECT_EQ(here->folder, std::filesystem::current_path().string());
}

TEST(ShardNames, AListIsInOnePlaceWithoutDuplicates) {
  const names_list remote = {"s3://bucket/run/a.npy", "s3://bucket/run/deep/b.npy"};
  const auto split = split_shard_names(std::span(remote));
  ASSERT_TRUE(split.ok()) << split.error().to_string();
  EXPECT_EQ(split->folder, "s3://bucket/run");
  EXPECT_EQ(split->names, (names_list{"a.npy", "deep/b.npy"}));
  const names_list places = {"/run/a.npy", "http://host/a.npy"};
  const auto apart = split_shard_names(std::span(places));
  ASSERT_FALSE(apart.ok());
  EXPECT_EQ(apart.error().message(),
            "the files of a list are in one place, these are in 'this machine', 'http://host'");
  const names_list again = {"/run/a.npy", "/run/b.npy", "/run/./a.npy"};
  const auto twice = split_shard_names(std::span(again));
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message(), "1 of 3 files are given twice: 'a.npy': was given before");
  EXPECT_EQ(split_shard_names(std::span<const std::string>()).error().code(), errc::invalid_argument);
}

TEST(ShardNames, TheFolderPrecedesThePattern) {
  struct expected {
    std::string_view given, folder, pattern;
  };
  for (const auto& [given, folder, pattern] : std::initializer_list<expected>{{"x_*.npy", ".", "x_*.npy"},
                                                                              {"/x_?.npy", "/", "x_?.npy"},
                                                                              {"run/[ab]/c.npy", "run", "[ab]/c.npy"},
                                                                              {"run/a/b", "run/a/b", ""}}) {
    const shard_names split = split_shard_names(given);
    EXPECT_EQ(split.folder, folder) << given;
    EXPECT_EQ(split.pattern, pattern) << given;
  }
}

TEST_F(FoundShards, TheFirstFileDeterminesTheFormat) {
  write("a_0.npy", "not one");
  EXPECT_EQ(format_of("a_*.npy").value(), "npy");
  write("b_0.DAT");
  EXPECT_EQ(format_of("b_*").value(), "raw");
  write("c_0", "\x89HDF\r\n\x1a\n");
  EXPECT_EQ(format_of("c_*").value(), "hdf5");
  write("d_0.h5", "not one");
  EXPECT_EQ(format_of("d_*").value(), "hdf5") << "its error names what is wrong with it";
  write("e_0.nc", std::string("CDF\1", 4));
  EXPECT_EQ(format_of("e_*").value(), "other") << "NetCDF classic is opened file by file";
  write("f_0.txt", "PAR1");
  EXPECT_EQ(format_of("f_*").value(), "parquet");
  write("g_0.tif", "II*");
  EXPECT_EQ(format_of("g_*").value(), "other");
  write("h_0.h5", "\x89HDF\r\n\x1a\n");
  write("h_1.tif");
  EXPECT_EQ(format_of("h_*").value(), "other") << "the first is not like the others";
  std::filesystem::create_directory(folder_ / "i_0.zarr");
  EXPECT_EQ(format_of("i_*").value(), "other");
}

TEST(NumpyDescr, IsNumPysTypeString) {
  struct expected {
    std::string_view given, made;
  };
  for (const auto& [given, made] : std::initializer_list<expected>{{"float32", "<f4"},
                                                                   {"f4", "<f4"},
                                                                   {"=i2", "<i2"},
                                                                   {">i4", ">i4"},
                                                                   {"|u1", "|u1"},
                                                                   {"<i1", "|i1"},
                                                                   {"bool", "|b1"},
                                                                   {"int", "<i8"},
                                                                   {"S5", "|S5"},
                                                                   {"a5", "|S5"},
                                                                   {">U1", ">U1"},
                                                                   {"V7", "|V7"},
                                                                   {"complex64", "<c8"},
                                                                   {"datetime64[ns]", "<M8[ns]"},
                                                                   {">m8[10ms]", ">m8[10ms]"},
                                                                   {"bfloat16", "bfloat16"},
                                                                   {"float8_e4m3fn", "float8_e4m3fn"},
                                                                   {"i4,>f8", R"([["f0","<i4"],["f1",">f8"]])"}}) {
    const auto descr = numpy_descr(json(std::string(given)));
    ASSERT_TRUE(descr.ok()) << given << descr.error().to_string();
    EXPECT_EQ(*descr, made);
  }
  for (const char* given : {"", "float31", "f3", "i4,", "string", "r24", "<<f4", "f4 ", "M8[x]", "U99999999999"})
    EXPECT_EQ(numpy_descr(json(given)).error().code(), errc::invalid_argument) << given;
  const json fields(json::array_t{json(json::array_t{json("a"), json("<i4")})});
  EXPECT_EQ(numpy_descr(fields).value(), R"([["a","<i4"]])");
  EXPECT_FALSE(numpy_descr(json(json::array_t{json("a")})).ok());
  EXPECT_FALSE(numpy_descr(json(4.0)).ok());
}

}  // namespace
}  // namespace penstock::inline v0
