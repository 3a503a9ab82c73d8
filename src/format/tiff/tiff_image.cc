#include "format/tiff/tiff_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 40;

class tag_reader {
 public:
  explicit tag_reader(const tiff_details& from) noexcept : from_(from) {}

  const tiff_tag* find(tiff_id id) const noexcept {
    for (const tiff_tag& each : from_.tags) {
      if (each.tag == static_cast<std::uint16_t>(id)) return &each;
    }
    return nullptr;
  }
  bool has(tiff_id id) const noexcept { return find(id) != nullptr; }

  std::optional<std::uint64_t> integer(tiff_id id, std::uint64_t i = 0) const noexcept {
    const tiff_tag* const tag = find(id);
    return tag == nullptr ? std::nullopt : tiff_integer(tag->value, tag->type, i, from_.big_endian);
  }

  /// The one value that all samples share. Values after the last sample's are ignored, as in libtiff.
  result<std::uint64_t> shared(tiff_id id, std::string_view name, std::uint64_t samples, std::uint64_t absent) const {
    const tiff_tag* const tag = find(id);
    if (tag == nullptr || tag->count == 0) return absent;
    const std::optional<std::uint64_t> first = integer(id);
    if (!first) return error(errc::corrupt_data, fmt::format("tag {} ({}) cannot be read", tag->tag, name));
    for (std::uint64_t i = 1; i < std::min(tag->count, samples); ++i) {
      if (integer(id, i) != first)
        return error(errc::unsupported, fmt::format("samples of unequal {} are not readable", name));
    }
    return *first;
  }

 private:
  const tiff_details& from_;
};

result<sample_kind> kind_of(std::uint64_t format, std::uint64_t bits) {
  switch (format) {
    case 1:
    case 4:  // without a known format: GDAL and tifffile treat them as unsigned
      return sample_kind::unsigned_integer;
    case 2:
      return sample_kind::signed_integer;
    case 3:
      return sample_kind::floating;
    case 5:
      return sample_kind::complex_integer;
    case 6:
      return sample_kind::complex_floating;
    default:
      return error(errc::unsupported, fmt::format("SampleFormat {} ({} bits) is not readable", format, bits));
  }
}

tiff_array array_of(const tiff_directory& directory, tiff_id id) noexcept {
  const tiff_entry* const entry = directory.find(id);
  if (entry == nullptr || entry->count == 0) return {};
  const std::uint32_t width = tiff_type_bytes(entry->type);
  const bool is_other_byte = width == 1 && entry->type != 1;
  if (width == 0 || is_other_byte || entry->type == 5 || (entry->type >= 10 && entry->type <= 12))
    return {};  // not integers
  return {entry->offset, entry->count, width};
}

std::string nodata_of(const tiff_tag* tag) {
  if (tag == nullptr) return {};
  std::string text(reinterpret_cast<const char*>(tag->value.data()), tag->value.size());
  text.resize(std::min(text.find('\0'), text.size()));
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  text.erase(0, begin + (text[begin] == '+' ? 1 : 0));
  return text;
}

/// Returns the number, limited to the largest value of T, which no known compression has.
template <class T>
T at_most(std::uint64_t number) noexcept {
  return static_cast<T>(std::min<std::uint64_t>(number, std::numeric_limits<T>::max()));
}

/// The compression does not depend on the meaning of its bytes.
bool is_of_samples(tiff_compression compression) noexcept {
  return has_predictors(compression) || compression == tiff_compression::none ||
         compression == tiff_compression::packbits;
}

/// Refuses luminance and chroma as plain samples: they are not converted, and are stored in blocks of pixels if the
/// chroma is coarser. JPEG streams are decoded to RGB, and those of other picture formats define their own colours.
/// Source: TIFF 6.0, section 21.
result<> check_colors(const tiff_image& image) {
  constexpr std::uint64_t kYCbCr = 6;
  const auto compression = static_cast<tiff_compression>(image.compression);
  if (image.photometric != kYCbCr || image.samples < 3) return {};
  if (!is_of_samples(compression) && compression != tiff_compression::lerc) return {};
  return error(errc::unsupported,
               fmt::format("photometric YCbCr (chroma of {} x {} pixels) with compression {} is not readable",
                           image.subsampling[0], image.subsampling[1], compression_name(image.compression)));
}

}  // namespace

bool is_picture(tiff_compression compression) noexcept {
  switch (compression) {
    case tiff_compression::jpeg:
    case tiff_compression::webp:
    case tiff_compression::lerc:
    case tiff_compression::aperio_ycbcr:
    case tiff_compression::aperio_rgb:
    case tiff_compression::jpeg2000:
    case tiff_compression::jpegxl:
    case tiff_compression::dng_jpegxl:
      return true;
    default:
      return false;
  }
}

bool has_predictors(tiff_compression compression) noexcept {
  switch (compression) {
    case tiff_compression::lzw:
    case tiff_compression::adobe_deflate:
    case tiff_compression::deflate:
    case tiff_compression::zstd:
    case tiff_compression::lzma:
      return true;
    default:
      return false;
  }
}

std::string_view compression_name(std::uint16_t compression) noexcept {
  switch (compression) {
    case 1:
      return "none";
    case 2:
    case 32771:
      return "ccitt_rle";
    case 3:
      return "ccitt_fax3";
    case 4:
      return "ccitt_fax4";
    case 5:
      return "lzw";
    case 6:
      return "old_jpeg";
    case 7:
      return "jpeg";
    case 8:
    case 32946:
      return "deflate";
    case 32773:
      return "packbits";
    case 32809:
      return "thunderscan";
    case 33003:
    case 33004:
    case 33005:
    case 34712:
      return "jpeg2000";
    case 34676:
    case 34677:
      return "sgilog";
    case 34887:
      return "lerc";
    case 34892:
      return "lossy_jpeg";
    case 34925:
      return "lzma";
    case 34933:
      return "png";
    case 34934:
      return "jpegxr";
    case 50000:
      return "zstd";
    case 50001:
      return "webp";
    case 50002:
    case 52546:
      return "jpegxl";
    default:
      return "unknown";
  }
}

result<tiff_image> tiff_image::read(const tiff_details& from, const tiff_directory& directory) {
  const tag_reader tags(from);
  tiff_image out;
  out.big_endian = from.big_endian;
  const auto width = tags.integer(tiff_id::image_width), height = tags.integer(tiff_id::image_length);
  if (!width || !height || *width == 0 || *height == 0 || *width > kMaxLength || *height > kMaxLength) {
    return error(errc::corrupt_data,
                 fmt::format("ImageWidth is {}, ImageLength {}", width.value_or(0), height.value_or(0)));
  }
  out.width = *width;
  out.height = *height;
  const std::uint64_t samples = tags.integer(tiff_id::samples_per_pixel).value_or(1);
  if (samples == 0 || samples > 65535) return error(errc::corrupt_data, fmt::format("SamplesPerPixel is {}", samples));
  out.samples = static_cast<std::uint32_t>(samples);
  PENSTOCK_ASSIGN(const std::uint64_t bits, tags.shared(tiff_id::bits_per_sample, "BitsPerSample", samples, 1));
  if (bits == 0 || bits > 128) return error(errc::unsupported, fmt::format("{} bits a sample are not readable", bits));
  out.bits = static_cast<std::uint32_t>(bits);
  PENSTOCK_ASSIGN(const std::uint64_t format, tags.shared(tiff_id::sample_format, "SampleFormat", samples, 1));
  PENSTOCK_ASSIGN(out.kind, kind_of(format, bits));
  const std::uint64_t compression = tags.integer(tiff_id::compression).value_or(1);
  if (compression > std::numeric_limits<std::uint16_t>::max())
    return error(errc::unsupported, fmt::format("compression {} (unknown) is not readable", compression));
  out.compression = static_cast<std::uint16_t>(compression);
  out.photometric = tags.integer(tiff_id::photometric).value_or(0);
  out.reversed_bits = tags.integer(tiff_id::fill_order) == std::uint64_t{2} &&
                      !is_picture(static_cast<tiff_compression>(out.compression));
  out.planar = samples > 1 && tags.integer(tiff_id::planar_configuration) == std::uint64_t{2};
  if (tags.integer(tiff_id::image_depth).value_or(1) != 1)
    return error(errc::unsupported, "volumes (ImageDepth above 1) are not readable");
  // Other codecs have no predictors; writers may still write the tag.
  if (has_predictors(static_cast<tiff_compression>(out.compression))) {
    out.predictor =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(tags.integer(tiff_id::predictor).value_or(1), 65536));
  }

  out.tiled = tags.has(tiff_id::tile_width) || tags.has(tiff_id::tile_offsets);
  if (out.tiled) {
    const std::uint64_t across = tags.integer(tiff_id::tile_width).value_or(0);
    const std::uint64_t down = tags.integer(tiff_id::tile_length).value_or(0);
    if (across == 0 || down == 0 || across > kMaxLength || down > kMaxLength)
      return error(errc::corrupt_data, fmt::format("tiles are {} wide and {} high", across, down));
    out.cell_width = across;
    out.cell_height = down;
    out.offsets = array_of(directory, tiff_id::tile_offsets);
    out.byte_counts = array_of(directory, tiff_id::tile_byte_counts);
  }
  if (!out.tiled || out.offsets.width == 0) {
    // Some writers use the tags of strips for tiles.
    out.offsets = array_of(directory, tiff_id::strip_offsets);
    out.byte_counts = array_of(directory, tiff_id::strip_byte_counts);
  }
  if (!out.tiled) {
    out.cell_width = out.width;
    out.cell_height = tags.integer(tiff_id::rows_per_strip).value_or(out.height);
    if (out.cell_height == 0 || out.cell_height > out.height) out.cell_height = out.height;
  }
  if (out.offsets.width == 0) {
    return error(errc::corrupt_data, fmt::format("the image has no {}", out.tiled ? "TileOffsets" : "StripOffsets"));
  }
  out.nodata = nodata_of(tags.find(tiff_id::gdal_nodata));
  if (out.nodata.empty()) {
    for (const tiff_tag& each : from.page_tags) {
      if (each.tag == static_cast<std::uint16_t>(tiff_id::gdal_nodata)) out.nodata = nodata_of(&each);
    }
  }
  if (const tiff_tag* const tables = tags.find(tiff_id::jpeg_tables)) out.jpeg_tables = tables->value;
  for (std::uint64_t i = 0; i < 2; ++i) {
    out.subsampling[i] = at_most<std::uint16_t>(tags.integer(tiff_id::ycbcr_subsampling, i).value_or(2));
  }
  PENSTOCK_TRY(check_colors(out));
  const bool fax3 = out.compression == static_cast<std::uint16_t>(tiff_compression::ccitt_fax3);
  out.fax_options = at_most<std::uint32_t>(tags.integer(fax3 ? tiff_id::t4_options : tiff_id::t6_options).value_or(0));
  out.lerc_compression = at_most<std::uint32_t>(tags.integer(tiff_id::lerc_parameters, 1).value_or(0));
  return out;
}

}  // namespace penstock::inline v0
