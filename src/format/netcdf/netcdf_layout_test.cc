#include "format/netcdf/netcdf_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::inline v0 {
namespace {

class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

/// A file of `records` records: a fixed variable (y, x), then record variables of one float and of `values` shorts.
netcdf_header header_of(std::uint64_t records, std::uint64_t values) {
  netcdf_header out;
  out.records = records;
  out.dimensions = {{"time", records, true}, {"x", values, false}, {"y", 3, false}};
  netcdf_variable fixed, one, many;
  fixed.name = "fixed";
  fixed.type = netcdf_type::float64;
  fixed.dimensions = {2, 1};
  fixed.offset = 100;
  fixed.bytes = 3 * values * 8;
  one.name = "one";
  one.type = netcdf_type::float32;
  one.dimensions = {0};
  one.has_records = true;
  one.offset = fixed.offset + fixed.bytes;
  one.bytes = 4;
  many.name = "many";
  many.type = netcdf_type::int16;
  many.dimensions = {0, 1};
  many.has_records = true;
  many.offset = one.offset + one.bytes;
  many.bytes = 2 * values;
  out.record_bytes = one.bytes + (many.bytes + 3) / 4 * 4;
  out.variables = {fixed, one, many};
  return out;
}

std::uint64_t size_of(const netcdf_header& header) {
  return header.variables[1].offset + header.records * header.record_bytes;
}

std::shared_ptr<const netcdf_layout> layout_of(const netcdf_header& header, std::size_t variable, std::uint64_t size,
                                               std::uint64_t block_bytes = 0) {
  return netcdf_layout::make(netcdf_file::make(header, "x.nc", size, {}), variable, block_bytes).value();
}

/// Checks that every byte of the variable is in one cell, and that cells contain bytes outside of the variable only in
/// gaps of a record.
void expect_cells_cover(const netcdf_header& header, std::size_t number, std::uint64_t block_bytes) {
  const auto layout = layout_of(header, number, size_of(header), block_bytes);
  const netcdf_variable& variable = header.variables[number];
  std::vector<int> seen(static_cast<std::size_t>(size_of(header)), 0);
  std::vector<index_request> missing;
  std::uint64_t decoded = 0;
  for (cell_id cell = 0; cell < layout->grid().cells(); ++cell) {
    chunk_extent found;
    ASSERT_TRUE(layout->locate({&cell, 1}, no_indexes(), {&found, 1}, missing).ok());
    ASSERT_EQ(found.state, presence::present);
    ASSERT_LE(found.range.offset + found.range.length, seen.size());
    const std::uint64_t bytes = layout->chains()[found.chain].decoded_bytes();
    decoded += bytes;
    std::uint64_t left = found.range.length;
    for (std::uint64_t at = found.range.offset; left != 0; ++at, --left) ++seen[static_cast<std::size_t>(at)];
  }
  const std::uint64_t records = variable.has_records ? header.records : 1;
  EXPECT_EQ(decoded, records * variable.bytes);
  for (std::uint64_t r = 0; r < records; ++r)
    for (std::uint64_t i = 0; i < variable.bytes; ++i)
      ASSERT_EQ(seen[static_cast<std::size_t>(variable.offset + r * header.record_bytes + i)], 1) << r << " " << i;
}

TEST(NetcdfLayout, NamesEachByteOfAVariableOnce) {
  for (const std::uint64_t records : {1U, 2U, 7U, 100U}) {
    for (const std::uint64_t values : {1U, 5U, 64U}) {
      const netcdf_header header = header_of(records, values);
      for (const std::uint64_t block : {0U, 16U, 64U, 1000U})
        for (std::size_t i = 0; i < 3; ++i) expect_cells_cover(header, i, block);
    }
  }
}

TEST(NetcdfLayout, ReadsShortRecordsTogetherAndLongOnesAlone) {
  const netcdf_header few = header_of(1000, 8), long_ones = header_of(1000, 1U << 20);
  EXPECT_EQ(layout_of(few, 1, size_of(few))->block()[0], 1000U);
  EXPECT_EQ(layout_of(few, 1, size_of(few), 2000)->block()[0], 100U);
  EXPECT_EQ(layout_of(long_ones, 2, size_of(long_ones))->block()[0], 1U);
  EXPECT_EQ(layout_of(long_ones, 2, size_of(long_ones))->block()[1], 1U << 19) << "a MiB";
}

TEST(NetcdfLayout, OneRecordVariableIsContiguous) {
  netcdf_header header = header_of(1000, 5);
  header.variables.pop_back();
  header.variables[1].type = netcdf_type::int8;
  header.variables[1].bytes = 1;
  header.record_bytes = 1;  // without padding
  const auto layout = layout_of(header, 1, size_of(header));
  EXPECT_EQ(layout->grid().cells(), 1U);
  EXPECT_TRUE(layout->chains()[0].is_plain());
}

TEST(NetcdfLayout, ValuesPastTheEndOfTheFileAreAnError) {
  const netcdf_header header = header_of(10, 5);
  const std::uint64_t size = header.variables[1].offset + 4 * header.record_bytes;
  const auto layout = layout_of(header, 2, size);
  std::vector<index_request> missing;
  chunk_extent found;
  ASSERT_EQ(layout->grid().cells(), 10U) << "records of a file without its end are read one by one";
  cell_id cell = 3;
  EXPECT_TRUE(layout->locate({&cell, 1}, no_indexes(), {&found, 1}, missing).ok());
  EXPECT_LE(found.range.offset + found.range.length, size);
  cell = 4;
  const auto past = layout->locate({&cell, 1}, no_indexes(), {&found, 1}, missing);
  ASSERT_FALSE(past.ok());
  EXPECT_EQ(past.error().code(), errc::corrupt_data);
  EXPECT_NE(past.error().message().find("variable 'many': bytes ["), std::string::npos) << past.error().message();
}

TEST(NetcdfLayout, AHeaderAloneTakesLittleMemory) {
  netcdf_header header = header_of(std::uint64_t{1} << 55, 5);
  const auto layout = layout_of(header, 2, 500);
  EXPECT_TRUE(layout->grid().axis(0).is_uniform()) << "no list of cells";
  header.dimensions[1].length = std::uint64_t{1} << 59;
  header.variables[0].bytes = std::uint64_t{3} << 62;
  EXPECT_LE(layout_of(header_of(1, std::uint64_t{1} << 57), 0, 500)->grid().cells(), 200U);
  const auto too_large = netcdf_layout::make(netcdf_file::make(header, "x.nc", 500, {}), 0);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code(), errc::unsupported);
}

TEST(NetcdfLayout, LongGapsAreNotReadIfRequestsAreCheap) {
  const auto layout_of_cheap = [](const netcdf_header& header, std::size_t variable) {
    return netcdf_layout::make(netcdf_file::make(header, "x.nc", size_of(header), {}, true), variable).value();
  };
  const netcdf_header far = header_of(100, 16'000), near = header_of(100, 4000);
  EXPECT_EQ(layout_of_cheap(far, 1)->grid().cells(), 100U) << "gaps of 32,000 bytes";
  EXPECT_EQ(layout_of_cheap(near, 1)->grid().cells(), 1U) << "gaps of 8,000 bytes";
  EXPECT_LT(layout_of_cheap(far, 2)->grid().cells(), 5U) << "gaps of 4 bytes";
  EXPECT_LT(layout_of(far, 1, size_of(far))->grid().cells(), 5U) << "requests are not cheap";
}

TEST(NetcdfLayout, HasFinerCellsOfLongOnes) {
  const netcdf_header header = header_of(4000, 100);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto layout = layout_of(header, i, size_of(header), 1U << 20);
    const auto* const finer = dynamic_cast<const netcdf_layout*>(layout->finer());
    if (i == 0) continue;  // 2,400 bytes
    ASSERT_NE(finer, nullptr) << i;
    EXPECT_GT(finer->grid().cells(), 10 * layout->grid().cells());
    EXPECT_EQ(finer->write_grid(), layout->write_grid());
  }
}

}  // namespace
}  // namespace penstock::inline v0
