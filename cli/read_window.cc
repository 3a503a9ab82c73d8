#include <fmt/format.h>
#include <penstock/array_writer.h>
#include <penstock/georeference.h>
#include <penstock/place.h>
#include <penstock/tiff.h>
#include <penstock/tiff_writer.h>
#include <penstock/window.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "driver/shard_endings.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_values.h"
#include "npy.h"
#include "output_file.h"
#include "read_arguments.h"
#include "run.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::uint64_t kMostShown = 1000;
constexpr std::uint64_t kRowBytes = std::uint64_t{32} << 20;  // that the writer receives at a time

bool is_tiff(const read_arguments& given) {
  return given.format.empty() && format_of_ending(lower_ending(given.output)) == "tiff";
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

result<ground_bounds> parse_bounds(const std::string& text) {
  const std::vector<std::string> words = split(text);
  if (words.size() != 4)
    return error(errc::invalid_argument,
                 fmt::format("--bounds: expected 4 arguments (left bottom right top), got {}", words.size()));
  ground_bounds out;
  double* const to[] = {&out.left, &out.bottom, &out.right, &out.top};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::optional<double> number = number_of_text(words[i]);
    if (!number) return error(errc::invalid_argument, fmt::format("--bounds: invalid float value '{}'", words[i]));
    *to[i] = *number;
  }
  return out;
}

result<image_size> parse_shape(const std::vector<std::string>& words) {
  image_size out{};
  for (std::size_t i = 0; i < 2; ++i) {
    constexpr double kMost = 0x1p53;
    const std::optional<double> number = number_of_text(words[i]);
    const bool is_digits = words[i].find_first_not_of("0123456789") == std::string::npos;
    if (!is_digits || !number || *number < 1 || *number > kMost)
      return error(errc::invalid_argument, fmt::format("--shape: rows and columns of 1 or more, not '{}'", words[i]));
    out[i] = static_cast<std::uint64_t>(*number);
  }
  return out;
}

result<window_options> options_of(const read_arguments& given) {
  window_options out;
  out.threads = given.threads;
  if (!given.bounds.empty()) {
    PENSTOCK_ASSIGN(out.bounds, parse_bounds(given.bounds));
  }
  if (!given.shape.empty()) {
    PENSTOCK_ASSIGN(out.size, parse_shape(given.shape));
  }
  if (given.resampling == "average") out.how = resampling::average;
  if (given.resampling == "bilinear") out.how = resampling::bilinear;
  return out;
}

/// The size with pixels that fill the bounds, or the size of the whole image.
affine_transform transform_of(const affine_transform& image, const image_size& size, const image_size& result,
                              const std::optional<ground_bounds>& bounds) {
  const auto rows = static_cast<double>(result[0]), columns = static_cast<double>(result[1]);
  if (!bounds) {
    const double across = static_cast<double>(size[1]) / columns, down = static_cast<double>(size[0]) / rows;
    return {image.a * across, image.b * down, image.c, image.d * across, image.e * down, image.f};
  }
  auto [left, right] = std::pair(std::min(bounds->left, bounds->right), std::max(bounds->left, bounds->right));
  auto [top, bottom] = std::pair(std::min(bounds->bottom, bounds->top), std::max(bounds->bottom, bounds->top));
  if (image.a < 0) std::swap(left, right);
  if (image.e < 0) std::swap(top, bottom);
  return {(right - left) / columns, 0, left, 0, (bottom - top) / rows, top};
}

/// Keys of the coordinate system of an image: its own, or those of the EPSG code in its sidecar file.
/// \error unsupported  The sidecar file describes it in a form that needs PROJ.
result<std::vector<geo_key>> keys_of(const georeference& of) {
  if (of.sidecar_crs().empty()) return of.geo_keys();
  PENSTOCK_ASSIGN(const std::optional<std::uint32_t> code, of.epsg());
  if (code) {
    if (const auto system = epsg_system(*code); system.ok()) return geo_keys_of(*system);
  }
  return error(errc::unsupported, "the image's coordinate system is in its .aux.xml, and writing it needs PROJ")
      .note("the Python package writes it; out.npy has no coordinate system");
}

/// The colours of an image's bands, all of which are written.
result<> add_colors(const array& image, const georeference& of, tiff_create_options& to) {
  constexpr std::uint16_t kRgb = 2, kPalette = 3, kOpacity = 2;
  if (to.type == dtype(dtype_kind::unsigned_integer, 8) && to.bands == 3) to.photometric = kRgb;
  const tiff_details* const details = tiff_details_of(image);
  if (details == nullptr) return {};
  constexpr std::uint16_t kPhotometric = 262;
  const tiff_values tags = tiff_values::of_image(*details);
  PENSTOCK_ASSIGN(const std::int64_t photometric, tags.integer(kPhotometric, 1));
  PENSTOCK_ASSIGN(const std::vector<std::uint16_t> palette, tiff_colormap(tags));
  PENSTOCK_ASSIGN(const std::optional<std::uint64_t> alpha, of.alpha_band());
  const std::string word = tiff_photometric_word(photometric);
  if ((word == "rgb" || word == "ycbcr") && to.bands >= 3) to.photometric = kRgb;
  if (word == "miniswhite") to.photometric = 0;
  if (alpha && *alpha + 1 == to.bands && to.bands > 1) {
    if (to.photometric == kRgb && to.bands == 3) to.photometric = 1;
    to.extra_samples.assign(to.bands - (to.photometric == kRgb ? 3 : 1), 0);
    to.extra_samples.back() = kOpacity;
  }
  const bool has_indexes = to.type.kind() == dtype_kind::unsigned_integer && to.type.bits() <= 16 && to.bands == 1;
  if (word != "palette" || palette.empty() || !has_indexes) return {};
  to.photometric = kPalette;
  const std::size_t colors = palette.size() / 3;
  to.colormap.resize(std::min(colors, std::size_t{1} << to.type.bits()));
  for (std::size_t i = 0; i < to.colormap.size(); ++i)
    to.colormap[i] = {palette[i], palette[colors + i], palette[2 * colors + i]};
  return {};
}

/// The meaning of the values of each band; empty if the image has none.
std::vector<new_band_meaning> meanings_of(const std::vector<band_meaning>& bands) {
  std::vector<new_band_meaning> out;
  bool has_any = false;
  for (const band_meaning& each : bands) {
    new_band_meaning& made = out.emplace_back();
    if (!each.description.empty()) made.description = each.description;
    if (!each.unit.empty()) made.unit = each.unit;
    if (each.scale != 1) made.scale = each.scale;
    if (each.offset != 0) made.offset = each.offset;
    has_any = has_any || made.description || made.unit || made.scale || made.offset;
  }
  if (!has_any) out.clear();
  return out;
}

/// The same window of the image's mask: not 0 if one of the source pixels is valid. nullopt: the image has no mask that
/// all of its bands share.
result<std::optional<window_reader>> mask_of(const array& image, window_options options) {
  if (tiff_details_of(image) == nullptr || !tiff_companions_of(image).has_mask) return std::optional<window_reader>();
  tiff_options which = tiff_options_of(image);
  which.mask = true;
  PENSTOCK_ASSIGN(const array mask, open_tiff(image, which));
  if (mask.shape().size() != 3 || mask.shape()[0] != 1) return std::optional<window_reader>();
  options.nodata = std::int64_t{0};
  options.fill_value = {std::byte{0}};
  PENSTOCK_ASSIGN(window_reader made, window_reader::make(mask, std::move(options)));
  return std::optional(std::move(made));
}

result<tiff_create_options> tiff_options_for(const window_reader& window, const array& image,
                                             const window_options& given) {
  tiff_create_options out;
  const extents& shape = window.shape();
  if (shape.size() != 2 && shape.size() != 3)
    return error(errc::invalid_argument,
                 fmt::format("a TIFF has the shape (band, y, x) or (y, x), not {}", to_string(shape)));
  const std::size_t rank = shape.size();
  out.bands = rank == 3 ? shape[0] : 1;
  out.height = shape[rank - 2];
  out.width = shape[rank - 1];
  out.type = image.type();
  const georeference of = georeference_of(image);
  PENSTOCK_TRY(add_colors(image, of, out));
  PENSTOCK_ASSIGN(const auto transform, of.transform());
  if (const std::vector<band_meaning> bands = of.bands(); !bands.empty()) {
    out.nodata = bands.front().held_nodata;
    if (bands.size() == out.bands) out.meaning.bands = meanings_of(bands);
  }
  if (!transform) return out;
  const image_size size = {image.shape()[rank - 2], image.shape()[rank - 1]};
  out.meaning.transform = transform_of(*transform, size, {out.height, out.width}, given.bounds);
  out.meaning.extent = pixel_extent::area;
  PENSTOCK_ASSIGN(out.meaning.geo_keys, keys_of(of));
  return out;
}

result<> write_tiff(const read_arguments& given, const window_reader& window, const std::optional<window_reader>& mask,
                    tiff_create_options options) {
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(window.shape()));
  const std::uint64_t item = options.type.item_bytes();
  const std::unique_ptr<std::byte[]> values(new (std::nothrow) std::byte[count * item]);
  if (values == nullptr)
    return error(errc::resource_exhausted, fmt::format("no memory for a window of {}", counted(count * item, "byte")));
  PENSTOCK_TRY(window.read(tensor_view::contiguous(values.get(), options.type, window.shape())));
  std::vector<std::byte> valid;
  if (mask) {
    valid.resize(options.height * options.width);
    PENSTOCK_TRY(mask->read(tensor_view::contiguous(valid.data(), mask->type(), mask->shape())));
  }
  options.mask = mask.has_value();
  const std::uint64_t height = options.height, width = options.width, row_bytes = options.bands * options.width * item;
  const std::uint64_t tile = options.tile_height;
  const std::uint64_t rows =
      std::max<std::uint64_t>(1, kRowBytes / std::max<std::uint64_t>(1, row_bytes * tile)) * tile;
  const extents shape{options.bands, height, options.width};
  tensor_view view = tensor_view::contiguous(values.get(), options.type, shape);
  std::byte* const begin = view.data;
  create_options how;
  how.format = "tiff";
  how.shape = shape;
  how.type = options.type;
  how.overwrite = given.force;
  how.tiff = std::make_shared<const tiff_create_options>(std::move(options));
  PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin_array(given.output, how));
  for (std::uint64_t row = 0; row < height; row += rows) {
    view.data = begin + static_cast<std::int64_t>(row) * view.strides[1];
    view.extents[1] = std::min(rows, height - row);
    if (!mask) {
      PENSTOCK_TRY(writer->write(extents{0, row, 0}, view));
      continue;
    }
    const tensor_view of_rows =
        tensor_view::contiguous(valid.data() + row * width, mask->type(), extents{view.extents[1], width});
    PENSTOCK_TRY(dynamic_cast<tiff_writer&>(*writer).write(0, row, view, &of_rows));
  }
  return writer->close();
}

result<> write_values(const read_arguments& given, const window_reader& window, const dtype& type) {
  std::string header;
  if (output_format(given) == "npy") {
    PENSTOCK_ASSIGN(header, npy_header(type, window.shape()));
  }
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(window.shape()));
  const std::uint64_t bytes = header.size() + count * type.item_bytes();
  if (given.output == "-" || is_stream(given.output)) {
    std::vector<std::byte> all(bytes);
    std::memcpy(all.data(), header.data(), header.size());
    PENSTOCK_TRY(window.read(tensor_view::contiguous(all.data() + header.size(), type, window.shape())));
    if (given.output == "-") return write_all(1, all);
    return write_to_stream(given.output, [&](int descriptor) { return write_all(descriptor, all); });
  }
  PENSTOCK_ASSIGN(output_file file, output_file::create(given.output, bytes, given.force));
  std::memcpy(file.bytes().data(), header.data(), header.size());
  PENSTOCK_TRY(window.read(tensor_view::contiguous(file.bytes().data() + header.size(), type, window.shape())));
  return file.commit();
}

int print_window(const session& speak, const window_reader& window, const array& image) {
  const auto count = element_count(window.shape());
  if (!count.ok() || *count > kMostShown)
    return speak.refuse(
        fmt::format("{} elements are too many to print; write them to a file with -o out.npy, or give "
                    "--shape",
                    count.ok() ? fmt::to_string(*count) : "so many"));
  const dtype type = image.type();
  std::vector<std::byte> values(*count * type.item_bytes());
  if (auto done = window.read(tensor_view::contiguous(values.data(), type, window.shape())); !done.ok())
    return speak.fail(done.error());
  if (!speak.as_json) return speak.print(block_text(type, window.shape(), values.data()) + "\n");
  return speak.print_document(json::object_t{{"uri", image.uri()},
                                             {"dtype", short_type_text(type)},
                                             {"shape", to_json(window.shape())},
                                             {"values", block_json(type, window.shape(), values.data())}});
}

json bounds_json(const std::optional<ground_bounds>& bounds) {
  if (!bounds) return {};
  return json::array_t{bounds->left, bounds->bottom, bounds->right, bounds->top};
}

}  // namespace

std::string output_format(const read_arguments& given) {
  if (!given.format.empty()) return given.format;
  if (given.output == "-" || given.output.ends_with(".npy")) return "npy";
  if (given.output.ends_with(".csv")) return "csv";
  if (given.output.ends_with(".bin") || given.output.ends_with(".raw")) return "bin";
  return "";
}

bool is_window(const read_arguments& given) {
  return !given.bounds.empty() || !given.shape.empty() || !given.resampling.empty() || is_tiff(given);
}

int read_window(const session& speak, const read_arguments& given) {
  if (!given.selection.empty())
    return speak.refuse(fmt::format(
        "a window is chosen by --bounds, not by the selection '{}', which .npy and .bin take", given.selection));
  if (!given.output.empty() && output_format(given).empty() && !is_tiff(given))
    return speak.refuse(
        fmt::format("a window is written to out.bin, out.npy, out.png or out.tif, not to '{}'", given.output));
  if (given.output == "-" && speak.as_json) return speak.refuse("--json and -o - both write to stdout");
  if (output_format(given) == "csv")
    return speak.refuse("a window has bands, which --format csv cannot hold: give a selection instead");
  const auto options = options_of(given);
  if (!options.ok()) return speak.refuse(options.error().message());
  std::error_code none;
  if (is_tiff(given) && !given.force && std::filesystem::exists(given.output, none))
    return speak.fail(error(errc::conflict, fmt::format("'{}' exists; --force replaces it", given.output)));

  const auto image = open_one(speak, given.uri, given.threads);
  if (!image.ok()) return speak.fail(image.error());
  const auto window = window_reader::make(*image, *options);
  if (!window.ok()) return speak.fail(window.error());
  if (given.output.empty()) return print_window(speak, *window, *image);
  if (is_tiff(given)) {
    auto made = tiff_options_for(*window, *image, *options);
    if (!made.ok()) return speak.fail(made.error());
    const auto mask = mask_of(*image, *options);
    if (!mask.ok()) return speak.fail(mask.error());
    if (auto done = write_tiff(given, *window, *mask, *std::move(made)); !done.ok()) return speak.fail(done.error());
  } else if (auto done = write_values(given, *window, image->type()); !done.ok()) {
    return speak.fail(done.error());
  }
  if (!speak.as_json) return kOk;
  return speak.print_document(json::object_t{{"uri", image->uri()},
                                             {"bounds", bounds_json(options->bounds)},
                                             {"dtype", short_type_text(image->type())},
                                             {"shape", to_json(window->shape())},
                                             {"output", given.output}});
}

std::vector<std::string> join_bounds(int argc, const char* const* argv) {
  std::vector<std::string> out;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word != "--bounds") {
      out.emplace_back(word);
      continue;
    }
    std::string joined = "--bounds=";
    for (std::size_t count = 0; count < 4 && i + 1 < argc; ++i) {
      const std::string next = argv[i + 1];
      const std::vector<std::string> words = split(next);
      if (next.starts_with('-') && !number_of_text(words.front())) break;  // an option
      joined += (count == 0 ? "" : ",") + next;
      count += words.size();
    }
    out.push_back(std::move(joined));
  }
  return out;
}

}  // namespace penstock::inline v0::cli
