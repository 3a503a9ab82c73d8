#include "format/tiff/tiff_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace penstock::inline v0 {
namespace {

// Each table is sorted by number.
struct name_of_number {
  std::uint16_t number;
  std::string_view name;
};

constexpr name_of_number kTags[] = {
    {254, "NewSubfileType"},
    {255, "SubfileType"},
    {256, "ImageWidth"},
    {257, "ImageLength"},
    {258, "BitsPerSample"},
    {259, "Compression"},
    {262, "PhotometricInterpretation"},
    {266, "FillOrder"},
    {269, "DocumentName"},
    {270, "ImageDescription"},
    {271, "Make"},
    {272, "Model"},
    {274, "Orientation"},
    {277, "SamplesPerPixel"},
    {278, "RowsPerStrip"},
    {280, "MinSampleValue"},
    {281, "MaxSampleValue"},
    {282, "XResolution"},
    {283, "YResolution"},
    {284, "PlanarConfiguration"},
    {292, "T4Options"},
    {293, "T6Options"},
    {296, "ResolutionUnit"},
    {297, "PageNumber"},
    {305, "Software"},
    {306, "DateTime"},
    {315, "Artist"},
    {316, "HostComputer"},
    {317, "Predictor"},
    {320, "ColorMap"},
    {322, "TileWidth"},
    {323, "TileLength"},
    {330, "SubIFDs"},
    {332, "InkSet"},
    {338, "ExtraSamples"},
    {339, "SampleFormat"},
    {340, "SMinSampleValue"},
    {341, "SMaxSampleValue"},
    {347, "JPEGTables"},
    {529, "YCbCrCoefficients"},
    {530, "YCbCrSubSampling"},
    {531, "YCbCrPositioning"},
    {532, "ReferenceBlackWhite"},
    {700, "XMP"},
    {33432, "Copyright"},
    {33550, "ModelPixelScale"},
    {33922, "ModelTiepoint"},
    {34264, "ModelTransformation"},
    {34675, "ICCProfile"},
    {34735, "GeoKeyDirectory"},
    {34736, "GeoDoubleParams"},
    {34737, "GeoAsciiParams"},
    {42112, "GDAL_METADATA"},
    {42113, "GDAL_NODATA"},
    {50674, "LercParameters"},
    {50844, "RPCCoefficient"},
};

constexpr name_of_number kGeoKeys[] = {
    {1024, "GTModelType"},
    {1025, "GTRasterType"},
    {1026, "GTCitation"},
    {2048, "GeodeticCRS"},
    {2049, "GeodeticCitation"},
    {2050, "GeodeticDatum"},
    {2051, "PrimeMeridian"},
    {2052, "GeogLinearUnits"},
    {2053, "GeogLinearUnitSize"},
    {2054, "GeogAngularUnits"},
    {2055, "GeogAngularUnitSize"},
    {2056, "Ellipsoid"},
    {2057, "EllipsoidSemiMajorAxis"},
    {2058, "EllipsoidSemiMinorAxis"},
    {2059, "EllipsoidInvFlattening"},
    {2061, "PrimeMeridianLongitude"},
    {2062, "GeogTOWGS84"},
    {3072, "ProjectedCRS"},
    {3073, "ProjectedCitation"},
    {3074, "Projection"},
    {3075, "ProjMethod"},
    {3076, "ProjLinearUnits"},
    {3077, "ProjLinearUnitSize"},
    {3078, "ProjStdParallel1"},
    {3079, "ProjStdParallel2"},
    {3080, "ProjNatOriginLong"},
    {3081, "ProjNatOriginLat"},
    {3082, "ProjFalseEasting"},
    {3083, "ProjFalseNorthing"},
    {3084, "ProjFalseOriginLong"},
    {3085, "ProjFalseOriginLat"},
    {3086, "ProjFalseOriginEasting"},
    {3087, "ProjFalseOriginNorthing"},
    {3088, "ProjCenterLong"},
    {3089, "ProjCenterLat"},
    {3090, "ProjCenterEasting"},
    {3091, "ProjCenterNorthing"},
    {3092, "ProjScaleAtNatOrigin"},
    {3093, "ProjScaleAtCenter"},
    {3094, "ProjAzimuthAngle"},
    {3095, "ProjStraightVertPoleLong"},
    {3096, "ProjRectifiedGridAngle"},
    {4096, "Vertical"},
    {4097, "VerticalCitation"},
    {4098, "VerticalDatum"},
    {4099, "VerticalUnits"},
};

constexpr name_of_number kCompressions[] = {
    {1, "none"},
    {2, "ccitt_rle"},
    {3, "ccitt_fax3"},
    {4, "ccitt_fax4"},
    {5, "lzw"},
    {6, "old_jpeg"},
    {7, "jpeg"},
    {8, "deflate"},
    {32771, "ccitt_rle"},
    {32773, "packbits"},
    {32809, "thunderscan"},
    {32946, "deflate"},
    {33003, "jpeg2000"},
    {33004, "jpeg2000"},
    {33005, "jpeg2000"},
    {34676, "sgilog"},
    {34677, "sgilog"},
    {34712, "jpeg2000"},
    {34887, "lerc"},
    {34892, "lossy_jpeg"},
    {34925, "lzma"},
    {50000, "zstd"},
    {50001, "webp"},
    {50002, "jpegxl"},
    {52546, "jpegxl"},
};

constexpr name_of_number kPhotometrics[] = {
    {0, "miniswhite"}, {1, "minisblack"}, {2, "rgb"},        {3, "palette"},        {4, "mask"},
    {5, "separated"},  {6, "ycbcr"},      {8, "cielab"},     {9, "icclab"},         {10, "itulab"},
    {32803, "cfa"},    {32844, "logl"},   {32845, "logluv"}, {34892, "linear_raw"},
};

template <std::size_t N>
std::string_view find(const name_of_number (&table)[N], std::int64_t number) noexcept {
  const auto* const at = std::lower_bound(std::begin(table), std::end(table), number,
                                          [](const name_of_number& each, std::int64_t of) { return each.number < of; });
  return at == std::end(table) || at->number != number ? std::string_view() : at->name;
}

std::string or_number(std::string_view name, std::int64_t number) {
  return name.empty() ? fmt::format("{}", number) : std::string(name);
}

}  // namespace

std::string_view tiff_tag_name(std::uint16_t tag) noexcept { return find(kTags, tag); }
std::optional<std::uint16_t> tiff_tag_of(std::string_view name) noexcept {
  const auto* const at =
      std::find_if(std::begin(kTags), std::end(kTags), [&](const name_of_number& each) { return each.name == name; });
  if (at == std::end(kTags)) return std::nullopt;
  return static_cast<std::uint16_t>(at->number);
}
std::string_view geo_key_name(std::uint16_t key) noexcept { return find(kGeoKeys, key); }
std::string tiff_compression_word(std::int64_t number) { return or_number(find(kCompressions, number), number); }
std::string tiff_photometric_word(std::int64_t number) { return or_number(find(kPhotometrics, number), number); }

}  // namespace penstock::inline v0
