#include "format/parquet/parquet_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "format/parquet/snappy.h"

namespace penstock::inline v0 {
namespace {

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::filesystem::path data() { return std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests" / "data" / "parquet"; }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::map<std::string, parquet_values> columns_of(const parquet_file& file) {
  std::map<std::string, parquet_values> out;
  for (std::size_t i = 0; i < file.columns(); ++i) {
    auto read = file.read(i);
    EXPECT_TRUE(read.ok()) << file.name(i) << ": " << read.error().to_string();
    if (read.ok()) out.emplace(file.name(i), std::move(*read));
  }
  return out;
}

/// The references that write_files.py writes.
void expect_references(const parquet_file& file) {
  ASSERT_EQ(file.rows(), 40U);
  const auto columns = columns_of(file);
  ASSERT_EQ(columns.size(), 4U);
  const parquet_values &path = columns.at("path"), &offset = columns.at("offset"), &size = columns.at("size"),
                       &raw = columns.at("raw");
  std::size_t paths = 0, raws = 0;
  ASSERT_EQ(offset.numbers.size(), 40U);
  ASSERT_EQ(size.numbers.size(), 40U);
  for (std::uint32_t row = 0; row < 40; ++row) {
    EXPECT_EQ(offset.rows[row], row);
    EXPECT_EQ(offset.numbers[row], row * 1000);
    EXPECT_EQ(size.numbers[row], 100 + row % 3);
    if (row % 7 == 3) {
      if (row % 2 == 0) continue;
      ASSERT_LT(raws, raw.rows.size());
      EXPECT_EQ(raw.rows[raws], row);
      EXPECT_EQ(raw.texts[raws++], (std::string{static_cast<char>(row), '\xFF'}));
      continue;
    }
    ASSERT_LT(paths, path.rows.size());
    EXPECT_EQ(path.rows[paths], row);
    EXPECT_EQ(path.texts[paths++], "s3://bucket/file_" + std::to_string(row / 10) + ".nc");
  }
  EXPECT_EQ(paths, path.texts.size());
  EXPECT_EQ(raws, raw.texts.size());
}

TEST(ParquetFile, ReadsFilesOfPyarrowAndFastparquet) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("pyarrow_") && !name.starts_with("fastparquet_")) continue;
    SCOPED_TRACE(name);
    const std::string text = read_whole(entry.path());
    const auto file = parquet_file::open(bytes_of(text));
    ASSERT_TRUE(file.ok()) << file.error().to_string();
    expect_references(*file);
    ++files;
  }
  EXPECT_EQ(files, 20U);
}

TEST(ParquetFile, ReadsAColumnOfNulls) {
  const std::string text = read_whole(data() / "nulls.parq");
  const auto file = parquet_file::open(bytes_of(text));
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  const auto columns = columns_of(*file);
  EXPECT_TRUE(columns.at("path").rows.empty());
  EXPECT_EQ(columns.at("offset").numbers, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
}

TEST(ParquetFile, NamesUnsupportedFeatures) {
  const auto message = [](const char* name) {
    const std::string text = read_whole(data() / name);
    const auto file = parquet_file::open(bytes_of(text));
    if (!file.ok()) return file.error().to_string();
    for (std::size_t i = 0; i < file->columns(); ++i) {
      const auto read = file->read(i);
      if (!read.ok()) return read.error().to_string();
    }
    return std::string();
  };
  EXPECT_NE(message("brotli.parq").find("unsupported: Parquet page: compression BROTLI"), std::string::npos);
  EXPECT_NE(message("delta.parq").find("unsupported: Parquet page: encoding DELTA_BYTE_ARRAY"), std::string::npos);
  EXPECT_NE(message("nested.parq").find("unsupported: Parquet file: nested columns"), std::string::npos);
}

TEST(ParquetFile, BoundsRowsAndBytes) {
  const std::string text = read_whole(data() / "pyarrow_zstd_v1_plain.parq");
  EXPECT_EQ(parquet_file::open(bytes_of(text), {39, 1 << 20}).error().code(), errc::unsupported);
  const auto file = parquet_file::open(bytes_of(text), {40, 100});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->read(0).error().code(), errc::unsupported);
}

TEST(ParquetFile, RefusesDamagedFiles) {
  const std::string whole = read_whole(data() / "pyarrow_snappy_v2_dictionary.parq");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parquet_file::open(bytes_of(whole).first(size)).ok()) << size;
  // Any byte may be changed: reading ends, with an error or with values for rows that exist.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string text = whole;
    text[i] = static_cast<char>(text[i] ^ 0x55);
    const auto file = parquet_file::open(bytes_of(text));
    if (!file.ok()) continue;
    for (std::size_t c = 0; c < file->columns(); ++c) {
      const auto read = file->read(c);
      if (!read.ok()) continue;
      EXPECT_EQ(read->rows.size(), read->numbers.size() + read->texts.size()) << i;
      EXPECT_TRUE(read->rows.empty() || read->rows.back() < file->rows()) << i;
    }
  }
}

TEST(Snappy, DecodesLiteralsAndCopies) {
  const auto decode = [](const std::string& block, std::size_t size) {
    std::string out(size, '\0');
    return decode_snappy(bytes_of(block), std::as_writable_bytes(std::span(out))).ok() ? out : std::string("refused");
  };
  EXPECT_EQ(decode(std::string("\x04\x0c", 2) + "abcd", 4), "abcd");
  EXPECT_EQ(decode(std::string("\x0a\x08", 2) + "abc" + std::string("\x0d\x03", 2), 10), "abcabcabca");
  EXPECT_EQ(decode(std::string("\x08\x04", 2) + "ab" + std::string("\x16\x02\x00", 3), 8), "abababab");
  EXPECT_EQ(decode("", 0), "refused");
  EXPECT_EQ(decode(std::string("\x04\x0c", 2) + "abc", 4), "refused");   // ends early
  EXPECT_EQ(decode(std::string("\x05\x0c", 2) + "abcd", 5), "refused");  // too few bytes
  EXPECT_EQ(decode(std::string("\x04\x0c", 2) + "abcd", 3), "refused");  // another size
  EXPECT_EQ(decode(std::string("\x0a\x08", 2) + "abc" + std::string("\x0d\x04", 2), 10),
            "refused");                                                                              // before its start
  EXPECT_EQ(decode(std::string("\x09\x08", 2) + "abc" + std::string("\x0d\x03", 2), 9), "refused");  // too many bytes
}

}  // namespace
}  // namespace penstock::inline v0
