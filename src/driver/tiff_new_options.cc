#include "driver/tiff_new_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/counted.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_new_tags.h"
#include "format/tiff/tiff_nodata.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxLength = std::numeric_limits<std::int32_t>::max();  // GDAL's default
constexpr std::uint64_t kMaxBands = 65535;
constexpr std::uint64_t kMaxTileBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxTiles = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxFactor = std::uint64_t{1} << 30;

struct named_encoding {
  const char* name;
  tiff_encoding encoding;
  tiff_compression number;
};
constexpr named_encoding kEncodings[] = {
    {"none", tiff_encoding::none, tiff_compression::none},
    {"packbits", tiff_encoding::packbits, tiff_compression::packbits},
    {"lzw", tiff_encoding::lzw, tiff_compression::lzw},
    {"deflate", tiff_encoding::deflate, tiff_compression::adobe_deflate},
    {"zstd", tiff_encoding::zstd, tiff_compression::zstd},
    {"lzma", tiff_encoding::lzma, tiff_compression::lzma},
    {"jpeg", tiff_encoding::jpeg, tiff_compression::jpeg},
};

result<named_encoding> encoding_of(const std::string& name) {
  for (const named_encoding& each : kEncodings)
    if (name == each.name) return each;
  return error{
      errc::unsupported,
      fmt::format("TIFFs are written with none, packbits, lzw, deflate, zstd, lzma or jpeg, not with '{}'", name)};
}

result<sample_kind> kind_of(const dtype& type) {
  const std::uint32_t bits = type.bits();
  switch (type.kind()) {
    case dtype_kind::unsigned_integer:
      if (bits >= 8) return sample_kind::unsigned_integer;
      break;
    case dtype_kind::signed_integer:
      if (bits >= 8) return sample_kind::signed_integer;
      break;
    case dtype_kind::floating:
      return sample_kind::floating;
    case dtype_kind::complex:
      if (bits == 64 || bits == 128) return sample_kind::complex_floating;
      break;
    default:
      break;
  }
  return error{errc::unsupported, fmt::format("TIFFs are not written with samples of {}: use integers or floats of 8 "
                                              "to 64 bits, complex64 or complex128",
                                              type.name())};
}

std::uint32_t usual_predictor(sample_kind kind, tiff_encoding encoding, bool packed) noexcept {
  if (encoding == tiff_encoding::none || encoding == tiff_encoding::packbits || encoding == tiff_encoding::jpeg ||
      packed)
    return 1;
  if (kind == sample_kind::floating) return 3;
  return kind == sample_kind::complex_floating ? 1 : 2;
}

// Samples of fewer bits use the narrowest type that holds them.
result<> check_bits(const tiff_create_options& from) {
  const std::uint32_t wide = from.type.bits();
  if (from.bits == wide) return {};
  if (from.type.kind() != dtype_kind::unsigned_integer || wide > 32 || from.bits > wide ||
      (wide > 8 && from.bits <= wide / 2))
    return wrong_image(fmt::format("samples of {} are not {}: uint8 holds 1 to 8, uint16 9 to 16, uint32 17 to 32",
                                   counted(from.bits, "bit"), from.type.name()));
  return {};
}

result<> check_sizes(const tiff_create_options& from) {
  if (from.width < 1 || from.height < 1 || from.bands < 1)
    return wrong_image(fmt::format("an image of {} of {} x {} pixels has no pixels", counted(from.bands, "band"),
                                   from.height, from.width));
  if (from.width > kMaxLength || from.height > kMaxLength)
    return wrong_image(fmt::format("images have at most {} rows and columns, this one has {} x {}", kMaxLength,
                                   from.height, from.width));
  if (from.bands > kMaxBands)
    return wrong_image(
        fmt::format("images have at most {} bands, this one has {}; the shape is (band, y, x)", kMaxBands, from.bands));
  for (const std::uint32_t length : {from.tile_height, from.tile_width}) {
    if (length < 16 || length % 16 != 0 || length > 65536)
      return wrong_image(fmt::format("tiles have 16, 32, ..., 65536 rows and columns, not {} x {}", from.tile_height,
                                     from.tile_width));
  }
  const std::uint64_t samples = from.planar ? 1 : from.bands;
  const std::uint64_t tile_bytes = samples * from.tile_height * from.tile_width * std::uint64_t{from.type.item_bytes()};
  if (tile_bytes > kMaxTileBytes)
    return wrong_image(
        fmt::format("a tile of {} x {} pixels of {} has {} bytes, at most {} are written: take smaller "
                    "tiles, or tiles of one band each",
                    from.tile_height, from.tile_width, counted(samples, "band"), tile_bytes, kMaxTileBytes));
  const std::uint64_t across = (from.width - 1) / from.tile_width + 1, down = (from.height - 1) / from.tile_height + 1;
  if (across * down > kMaxTiles / (from.planar ? from.bands : 1))
    return wrong_image(fmt::format("the image has {} x {} tiles{}, at most {} are written: take larger ones", down,
                                   across, from.planar ? fmt::format(" of each of {} bands", from.bands) : "",
                                   kMaxTiles));
  return {};
}

result<> check_colours(const tiff_create_options& from) {
  const std::uint64_t colours = from.photometric == 2 ? 3 : 1;
  if (from.photometric > 3) return wrong_image(fmt::format("unknown photometric interpretation {}", from.photometric));
  if (from.bands < colours) return wrong_image(fmt::format("RGB needs 3 bands, there are {}", from.bands));
  if (from.extra_samples.size() > from.bands - colours)
    return wrong_image(fmt::format("{} extra samples are named, {} of {} bands are extra", from.extra_samples.size(),
                                   from.bands - colours, from.bands));
  if (from.photometric == 3 &&
      (from.bands != 1 || from.type.kind() != dtype_kind::unsigned_integer || from.type.bits() > 16))
    return wrong_image("a palette needs one band of uint8 or uint16");
  if (from.photometric == 3 && from.bits > 16) return wrong_image("a palette needs samples of at most 16 bits");
  if (from.photometric == 3 && from.resampling == overview_resampling::average)
    return wrong_image("indexes of a palette have no mean: overviews need resampling by the nearest pixel");
  return {};
}

template <class T>
std::string shown_number(T number) {
  if constexpr (std::is_same_v<T, double>) {
    return text_of_number(number);
  } else {
    return fmt::to_string(number);
  }
}

// The options as tags, then the caller's tags.
result<> add_tags(const tiff_create_options& from, tiff_new_image& to) {
  if (from.nodata) {
    const auto held = held_nodata(*from.nodata, from.type);
    if (!held) {
      const auto shown = std::visit([](auto number) { return shown_number(number); }, *from.nodata);
      return wrong_image(fmt::format("nodata {} is not a value of {}", shown, from.type.name()));
    }
    to.nodata = item_of_nodata(*held, from.type);
    to.shared_tags.push_back(nodata_tag(*held));
  }
  if (!from.colormap.empty()) {
    if (from.photometric != 3) return wrong_image("a colormap needs photometric interpretation 3");
    PENSTOCK_ASSIGN(tiff_tag made, colormap_tag(from.colormap, from.bits));
    to.shared_tags.push_back(std::move(made));
  }
  if (!from.meaning.bands.empty() && from.meaning.bands.size() != from.bands)
    return wrong_image(fmt::format("the meaning of {} is given, the image has {}",
                                   counted(from.meaning.bands.size(), "band"), from.bands));
  PENSTOCK_ASSIGN(to.tags, tags_of_meaning(from.meaning));
  to.shared_tags.insert(to.shared_tags.end(), from.shared_tags.begin(), from.shared_tags.end());
  to.tags.insert(to.tags.end(), from.tags.begin(), from.tags.end());
  return {};
}

// The tags of the image's layout in the file cannot be set by the caller.
result<> check_tags(const tiff_new_image& from) {
  static constexpr std::uint16_t kOwn[] = {254, 255, 256, 257, 258, 259, 262, 266, 273, 277, 278, 279,
                                           284, 317, 322, 323, 324, 325, 330, 338, 339, 347, 530};
  std::vector<std::uint16_t> seen;
  for (const auto* tags : {&from.tags, &from.shared_tags}) {
    for (const tiff_tag& tag : *tags) {
      if (std::find(std::begin(kOwn), std::end(kOwn), tag.tag) != std::end(kOwn))
        return wrong_image(fmt::format("tag {} is made from the options", tag.tag));
      if (std::find(seen.begin(), seen.end(), tag.tag) != seen.end())
        return wrong_image(fmt::format("tag {} is given twice", tag.tag));
      const std::uint32_t width = tiff_type_bytes(tag.type);
      if (width == 0 || tag.count != tag.value.size() / width || tag.value.size() % width != 0 ||
          tag.value.size() > (std::uint64_t{1} << 28))
        return wrong_image(fmt::format("tag {}: {} values of type {} do not have {} bytes", tag.tag, tag.count,
                                       tag.type, tag.value.size()));
      seen.push_back(tag.tag);
    }
  }
  return {};
}

result<std::vector<tiff_level>> levels_of(tiff_create_options& from) {
  if (from.auto_overviews) {
    from.overviews.clear();
    for (std::uint64_t factor = 1;
         (from.width - 1) / factor + 1 > from.tile_width || (from.height - 1) / factor + 1 > from.tile_height;
         factor *= 2)
      from.overviews.push_back(2 * factor);
  }
  std::uint64_t last = 1;
  for (const std::uint64_t factor : from.overviews) {
    if (factor <= last || (factor & (factor - 1)) != 0 || factor > kMaxFactor)
      return wrong_image(
          fmt::format("overviews are powers of two from 2 on, ascending; {} comes after {}", factor, last));
    if ((from.width - 1) / (factor / 2) + (from.height - 1) / (factor / 2) == 0)
      return wrong_image(
          fmt::format("an image of {} x {} pixels has no overview of 1/{}", from.height, from.width, factor));
    last = factor;
  }
  std::vector<tiff_level> out;
  for (std::uint64_t factor = 1; factor <= last; factor *= 2) {
    tiff_level level;
    // The length is halved repeatedly, and rounded up each time, which equals one division that rounds up.
    level.width = (from.width - 1) / factor + 1;
    level.height = (from.height - 1) / factor + 1;
    level.across = (level.width - 1) / from.tile_width + 1;
    level.down = (level.height - 1) / from.tile_height + 1;
    level.stored =
        factor == 1 || std::find(from.overviews.begin(), from.overviews.end(), factor) != from.overviews.end();
    out.push_back(std::move(level));
  }
  return out;
}

}  // namespace

error wrong_image(std::string what) { return {errc::invalid_argument, std::move(what)}; }

result<tiff_new_image> resolve_options(tiff_create_options& options) {
  tiff_new_image out;
  PENSTOCK_ASSIGN(out.kind, kind_of(options.type));
  if (options.bits == 0) options.bits = options.type.bits();
  PENSTOCK_TRY(check_bits(options));
  PENSTOCK_TRY(check_sizes(options));
  PENSTOCK_TRY(check_colours(options));
  PENSTOCK_TRY(add_tags(options, out));
  PENSTOCK_TRY(check_tags(out));
  if (!options.resampling)
    options.resampling = options.photometric == 3 ? overview_resampling::nearest : overview_resampling::average;
  PENSTOCK_ASSIGN(const named_encoding encoding, encoding_of(options.compression));
  out.encoding = encoding.encoding;
  out.compression = encoding.number;
  if (!options.predictor)
    options.predictor = usual_predictor(out.kind, encoding.encoding, options.bits != options.type.bits());
  PENSTOCK_ASSIGN(out.levels, levels_of(options));
  return out;
}

}  // namespace penstock::inline v0
