#include "format/tiff/tiff_chain.h"

#include <fmt/format.h>

#include <bit>

#include "base/checked.h"
#include "codec/byte_codecs.h"
#include "codec/tiff/tiff_codecs.h"
#include "codec/tiff/tiff_pictures.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxCellBytes = std::uint64_t{1} << 62;
constexpr const char* kNativeOrder = std::endian::native == std::endian::big ? "big" : "little";

/// The codecs of one chain. They do not appear in metadata by name, so they are not in the registry.
class tiff_stages final : public codec_provider {
 public:
  std::shared_ptr<const byte_codec> samples;
  std::uint64_t stored_bytes = 0;
  std::shared_ptr<const byte_codec> compressor;

  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    if (config.name == "tiff.samples")
      return compiled_codec{samples, stage_type::bytes_of(input.type, stored_bytes, true)};
    if (config.name == "tiff.compressor") return compressed_stage(compressor, input);
    if (config.name == "tiff.bit_reversal") return sized_stage(make_bit_reversal_codec(), input);
    return error(errc::unsupported, fmt::format("no codec '{}'", config.name));
  }
};

using codec = std::shared_ptr<const byte_codec>;

result<codec> picture_codec(const tiff_image& image, const tiff_samples& samples) {
  constexpr std::uint16_t kYCbCr = 6;
  tiff_picture picture;
  picture.rows = samples.rows;
  picture.width = samples.width;
  picture.samples = samples.samples;
  picture.bits = samples.bits;
  picture.kind = samples.kind;
  picture.compression = image.compression;
  picture.name = compression_name(image.compression);
  picture.ycbcr =
      image.photometric == kYCbCr && image.compression == static_cast<std::uint16_t>(tiff_compression::jpeg);
  picture.subsampling[0] = image.subsampling[0];
  picture.subsampling[1] = image.subsampling[1];
  picture.jpeg_tables = image.jpeg_tables;
  picture.fax_options = image.fax_options;
  picture.lerc_compression = image.lerc_compression;
  switch (static_cast<tiff_compression>(image.compression)) {
    case tiff_compression::aperio_ycbcr:
    case tiff_compression::aperio_rgb:
    case tiff_compression::jpeg2000:
      return make_tiff_jpeg2000_codec(std::move(picture));
    case tiff_compression::jpegxl:
    case tiff_compression::dng_jpegxl:
      return make_tiff_jpegxl_codec(std::move(picture));
    default:
      return make_tiff_library_codec(std::move(picture));
  }
}

// Null: not compressed.
result<codec> compressor_of(const tiff_image& image, const tiff_samples& samples, std::uint64_t& max_ratio) {
  switch (static_cast<tiff_compression>(image.compression)) {
    case tiff_compression::none:
      max_ratio = 1;
      return codec();
    case tiff_compression::lzw:
      max_ratio = 2800;  // 3840 bytes in 12 bits
      return make_tiff_lzw_codec();
    case tiff_compression::packbits:
      max_ratio = 64;
      return make_tiff_packbits_codec();
    case tiff_compression::adobe_deflate:
    case tiff_compression::deflate:
      max_ratio = 1100;  // 258 bytes in 2 bits
      return make_tiff_deflate_codec();
    case tiff_compression::zstd:
      max_ratio = 65536;  // 128 KiB in a block of 4 bytes
      return make_tiff_zstd_codec();
    case tiff_compression::lzma:
      max_ratio = 65536;
      return make_tiff_lzma_codec();
    case tiff_compression::ccitt_rle:
    case tiff_compression::ccitt_rlew:
    case tiff_compression::ccitt_fax3:
    case tiff_compression::ccitt_fax4:
      max_ratio = 8 * samples.row_bytes();  // a row in one bit
      return picture_codec(image, samples);
    default:
      if (!is_picture(static_cast<tiff_compression>(image.compression))) {
        return error(errc::unsupported, fmt::format("compression {} ({}) is not readable in this build",
                                                    image.compression, compression_name(image.compression)));
      }
      max_ratio = std::uint64_t{1} << 22;  // one colour takes a few bytes, for any size
      return picture_codec(image, samples);
  }
}

}  // namespace

bool may_hold_fewer_rows(tiff_compression compression) noexcept {
  return has_predictors(compression) || compression == tiff_compression::none ||
         compression == tiff_compression::packbits;
}

result<tiff_chain> make_tiff_chain(const tiff_image& image, std::uint64_t rows, int band_axis,
                                   const std::vector<std::uint32_t>& picked, std::uint64_t least_rows) {
  tiff_samples samples;
  samples.rows = rows;
  samples.width = image.cell_width;
  samples.samples = image.planar ? 1 : image.samples;
  samples.bits = image.bits;
  samples.kind = image.kind;
  // Codecs of pictures return native samples; but libtiff packs samples with LERC in the file's order.
  const bool native = is_picture(static_cast<tiff_compression>(image.compression)) &&
                      image.compression != static_cast<std::uint16_t>(tiff_compression::lerc);
  samples.big_endian = native ? std::endian::native == std::endian::big : image.big_endian;
  samples.predictor = image.predictor;
  samples.mask = image.mask;
  std::uint64_t bits = 0, bytes = 0;
  if (!checked_mul(samples.width, std::uint64_t{samples.samples} * samples.bits, bits) || bits > kMaxCellBytes ||
      !checked_mul(samples.row_bytes(), rows, bytes) || bytes > kMaxCellBytes / 16) {
    return error(errc::corrupt_data,
                 fmt::format("a tile or strip of {} x {} pixels exceeds 2^62 bytes", rows, samples.width));
  }
  PENSTOCK_ASSIGN(const dtype type, type_of_samples(samples.bits, samples.kind));

  extents cell;
  if (band_axis == 0) cell.push_back(picked.size());
  cell.push_back(rows);
  cell.push_back(image.cell_width);
  if (band_axis == 2) cell.push_back(picked.size());
  std::vector<codec_config> codecs;
  if (band_axis == 0 && picked.size() > 1) {
    using list = json::array_t;
    codecs.push_back({"transpose", json::object_t{{"order", list{json(std::int64_t{1}), json(std::int64_t{2}),
                                                                 json(std::int64_t{0})}}}});
  }

  tiff_stages stages;
  stages.stored_bytes = bytes;
  bool every_sample = picked.size() == samples.samples;
  for (std::size_t i = 0; i < picked.size(); ++i) every_sample = every_sample && picked[i] == i;
  const bool whole_items = samples.bits == 8 * type.item_bytes() && samples.kind != sample_kind::complex_integer;
  const bool plain = samples.predictor == 1 && whole_items && every_sample && !samples.mask;
  const char* const order = !plain ? kNativeOrder : samples.big_endian ? "big" : "little";
  codecs.push_back({"bytes", json::object_t{{"endian", json(order)}}});
  if (!plain) {
    PENSTOCK_ASSIGN(stages.samples, make_tiff_samples(samples, picked));
    codecs.push_back({"tiff.samples", {}});
  }
  tiff_chain out;
  out.samples = samples;
  PENSTOCK_ASSIGN(stages.compressor, compressor_of(image, samples, out.max_ratio));
  out.compressed = stages.compressor != nullptr;
  if (least_rows < rows && may_hold_fewer_rows(static_cast<tiff_compression>(image.compression))) {
    stages.compressor = make_short_tile_codec(std::move(stages.compressor), least_rows * samples.row_bytes(),
                                              samples.row_bytes(), bytes);
  }
  if (stages.compressor) codecs.push_back({"tiff.compressor", {}});
  if (image.reversed_bits) codecs.push_back({"tiff.bit_reversal", {}});
  codec_chain_options options;
  options.external = &stages;
  PENSTOCK_ASSIGN(out.chain, codec_chain::compile(codecs, type, cell, options));
  return out;
}

}  // namespace penstock::inline v0
