#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "format/tiff/gdal_metadata.h"
#include "format/tiff/geo_keys.h"
#include "format/tiff/tiff_new_file.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock {
namespace {

TEST(TiffLimits, MetadataWithADoctypeIsIgnored) {
  const std::string items = "<GDALMetadata><Item name='A'>1</Item></GDALMetadata>";
  EXPECT_EQ(parse_gdal_metadata(items).size(), 1U);
  EXPECT_TRUE(parse_gdal_metadata("<!DOCTYPE GDALMetadata>" + items).empty());
  EXPECT_TRUE(
      parse_gdal_metadata("<!DOCTYPE x [<!ENTITY a 'b'>]><GDALMetadata><Item name='A'>&a;</Item></GDALMetadata>")
          .empty());
}

TEST(TiffLimits, AtMost4096GeoKeysAreRead) {
  constexpr std::uint16_t kCount = 5000, kFirst = 1024;
  std::vector<std::uint16_t> entries = {1, 1, 0, kCount};
  for (std::uint16_t i = 0; i < kCount; ++i)
    entries.insert(entries.end(), {static_cast<std::uint16_t>(kFirst + i), 0, 1, i});
  tiff_details details;
  details.tags.push_back(short_tag(34735, entries));
  const auto keys = parse_geo_keys(details);
  ASSERT_TRUE(keys.ok());
  ASSERT_EQ(keys->size(), 4096U);
  EXPECT_EQ(keys->back().id, kFirst + 4095);
}

TEST(TiffLimits, NodataBeyond64BitsIsAFloat) {
  const dtype type(dtype_kind::unsigned_integer, 64);
  EXPECT_EQ(parse_nodata("18446744073709551615", type), nodata_value(~std::uint64_t{0}));
  const auto beyond = parse_nodata("18446744073709551616", type);
  ASSERT_TRUE(beyond);
  EXPECT_EQ(*beyond, nodata_value(0x1p64));
  EXPECT_FALSE(held_nodata(*beyond, type)) << "no pixel is nodata";
  const dtype with_sign(dtype_kind::signed_integer, 64);
  EXPECT_EQ(parse_nodata("-9223372036854775808", with_sign), nodata_value(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(parse_nodata("-9223372036854777856", with_sign), nodata_value(-0x1p63 - 2048));
}

}  // namespace
}  // namespace penstock
