#include "format/tiff/sidecar_metadata.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/tiff/gdal_metadata.h"
#include "format/tiff/number_text.h"

namespace penstock::inline v0 {
namespace {

TEST(NumberText, IsAWholeNumber) {
  EXPECT_EQ(number_of_text(" +1.5e3\n"), 1500);
  EXPECT_EQ(number_of_text("1e999"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(number_of_text("-1e-999"), 0);
  EXPECT_TRUE(std::isnan(*number_of_text("NaN")));
  for (const char* const each : {"", "1x", "0x10", "nan(1)", "1 2", "--1", "+-1"})
    EXPECT_EQ(number_of_text(each), std::nullopt) << each;
}

TEST(SidecarMetadata, ReadsTheDocumentsOfGdal) {
  const sidecar_metadata found = parse_sidecar_metadata(R"(<PAMDataset>
    <SRS dataAxisToSRSAxisMapping="1,2"> EPSG:32633 </SRS>
    <GeoTransform> 100, 10, 0, 200, 0, -10</GeoTransform>
    <Metadata><MDI key="A">1</MDI><MDI key="A">2</MDI></Metadata>
    <Metadata domain="other"><MDI key="B">1</MDI></Metadata>
    <GCPList Projection="EPSG:4326"><GCP Pixel="1" Line="2" X="3" Y="4"/><GCP Pixel="1" Line="2" X="3"/></GCPList>
    <PAMRasterBand band="2"><NoDataValue le_hex_equiv="0000000000000840">7</NoDataValue><Scale>2</Scale>
      <UnitType>m</UnitType></PAMRasterBand>
    <PAMRasterBand band="0"/>
  </PAMDataset>)");
  EXPECT_EQ(found.crs, "EPSG:32633");
  ASSERT_TRUE(found.transform.has_value());
  EXPECT_EQ(*found.transform, (affine_transform{10, 0, 100, 0, -10, 200}));
  EXPECT_EQ(found.metadata, (metadata_items{{"A", "2"}}));
  ASSERT_EQ(found.gcps.size(), 1U);
  EXPECT_EQ(found.gcps[0].y, 4);
  EXPECT_EQ(found.gcps_crs, "EPSG:4326");
  ASSERT_EQ(found.bands.size(), 1U);
  EXPECT_EQ(found.bands.at(1).nodata, 3);  // the exact form takes precedence
  EXPECT_EQ(found.bands.at(1).scale, "2");
  EXPECT_EQ(found.bands.at(1).unit, "m");
}

TEST(SidecarMetadata, OtherDocumentsAreEmpty) {
  EXPECT_TRUE(parse_sidecar_metadata("<Other><SRS>x</SRS></Other>").crs.empty());
  EXPECT_TRUE(parse_sidecar_metadata("<PAMDataset><SRS>x</SRS>").crs.empty());
  EXPECT_TRUE(parse_sidecar_metadata("<PAMDataset><SRS>\xff</SRS></PAMDataset>").crs.empty());
}

TEST(WorldFile, IsOfTheFirstPixelsCentre) {
  EXPECT_EQ(parse_world_file("10\n0\n0\n-10\n105,0\n195 more\n"), (affine_transform{10, 0, 100, 0, -10, 200}));
  EXPECT_EQ(parse_world_file("10 0 0 -10 105"), std::nullopt);
  EXPECT_EQ(parse_world_file("1 1 1 1 0 0"), std::nullopt);
  EXPECT_EQ(world_file_endings(".tif"), (std::vector<std::string>{".tfw", ".TFW", ".tifw", ".TIFW", ".wld", ".WLD"}));
  EXPECT_EQ(world_file_endings(""), (std::vector<std::string>{".wld", ".WLD"}));
  EXPECT_EQ(split_ending("a.b/.tif"), (std::pair<std::string_view, std::string_view>{"a.b/.tif", ""}));
  EXPECT_EQ(split_ending("a/x.y.tif"), (std::pair<std::string_view, std::string_view>{"a/x.y", ".tif"}));
}

std::string list(int first) {
  std::string out = "(";
  for (int i = 0; i < 20; ++i) out += (i == 0 ? "" : ",\n") + std::to_string(first + i);
  return out + ")";
}

TEST(RationalPolynomial, RpbNeedsAllButTheErrors) {
  std::string text = "BEGIN_GROUP = IMAGE\n errBias = 1.5;\n";
  for (const char* const each : {"lineOffset", "sampOffset", "latOffset", "longOffset", "heightOffset", "lineScale",
                                 "sampScale", "latScale", "longScale", "heightScale"})
    text += std::string(each) + " = 7;\n";
  for (const char* const each : {"lineNumCoef", "lineDenCoef", "sampNumCoef"})
    text += std::string(each) + " = " + list(1) + ";";
  EXPECT_EQ(parse_rpb(text), std::nullopt);
  const auto found = parse_rpb(text + "sampDenCoef=" + list(3) + ";");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->err_bias, 1.5);
  EXPECT_EQ(found->err_rand, std::nullopt);
  EXPECT_EQ(found->height_scale, 7);
  EXPECT_EQ(found->samp_den_coeff[19], 22);
}

TEST(RationalPolynomial, TextHasOneCoefficientALine) {
  std::string text = "ERR_RAND: 0.5 metres\n";
  for (const char* const each : {"LINE_OFF", "SAMP_OFF", "LAT_OFF", "LONG_OFF", "HEIGHT_OFF", "LINE_SCALE",
                                 "SAMP_SCALE", "LAT_SCALE", "LONG_SCALE", "HEIGHT_SCALE"})
    text += std::string("\t") + each + " : 7 pixels\r\n";
  for (const char* const each : {"LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF"})
    for (int i = 1; i <= 20; ++i) text += std::string(each) + '_' + std::to_string(i) + ": " + std::to_string(i) + '\n';
  const auto found = parse_rpc_text(text);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->err_rand, 0.5);
  EXPECT_EQ(found->line_off, 7);
  EXPECT_EQ(found->line_den_coeff[4], 5);
  EXPECT_EQ(parse_rpc_text(text.substr(0, text.size() - 4)), std::nullopt);
}

TEST(GdalMetadata, ItemsAreOfTheImageOrOfABand) {
  const auto items = parse_gdal_metadata(
      "<GDALMetadata><Item name='A'>x &amp;amp; y</Item><Item name='S' sample='1' "
      "role='scale'>2</Item></GDALMetadata>");
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].text, "x & y");
  EXPECT_EQ(items[0].band, std::nullopt);
  EXPECT_EQ(items[1].band, 1U);
  EXPECT_EQ(items[1].role, "scale");
  EXPECT_TRUE(parse_gdal_metadata("<GDALMetadata>").empty());
  EXPECT_EQ(without_repetitions({{"a", "1"}, {"b", "2"}, {"a", "3"}, {"c", "4"}, {"b", "5"}}),
            (metadata_items{{"a", "3"}, {"b", "5"}, {"c", "4"}}));
}

}  // namespace
}  // namespace penstock::inline v0
