#include <penstock/window.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <penstock/georeference.h>
#include <penstock/tiff.h>
#include "api/image/unpacked_state.h"
#include "api/image/window_plan.h"
#include "base/counted.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_nodata.h"
#include "format/tiff/tiff_values.h"

namespace penstock::inline v0 {
namespace {

constexpr double kSlack = 1e-3;         // in pixels: bounds are computed with rounding errors
constexpr double kMostPixels = 0x1p53;  // along an axis
constexpr std::int64_t kPalette = 3;

error bad_window(std::string what) { return {errc::invalid_argument, std::move(what)}; }

std::string text_of_bounds(const ground_bounds& of) {
  return fmt::format("({}, {}, {}, {})", text_of_number(of.left), text_of_number(of.bottom), text_of_number(of.right),
                     text_of_number(of.top));
}

image_size size_of_image(const array& of) {
  const extents& shape = of.shape();
  return {shape[shape.size() - 2], shape[shape.size() - 1]};
}

const array& stored(const window_image& of) noexcept {
  const auto* const unpacked = std::get_if<unpacked_image>(&of);
  return unpacked == nullptr ? std::get<array>(of) : unpacked->packed();
}

const dtype& type_of(const window_image& of) noexcept {
  const auto* const unpacked = std::get_if<unpacked_image>(&of);
  return unpacked == nullptr ? std::get<array>(of).type() : unpacked->type();
}

result<> check_image(const window_image& of) {
  const array& image = stored(of);
  if (image.shape().size() < 2)
    return bad_window(fmt::format("an array of shape {} has no rows and columns", to_string(image.shape())));
  const auto& names = image.dimension_names();
  const bool is_named = names.size() >= 2 && names[names.size() - 2] == "y" && names[names.size() - 1] == "x";
  if (image.format() == "tiff" && !is_named)
    return error(errc::unsupported, "windows need (band, y, x): open the file without layout='native'");
  const auto* const unpacked = std::get_if<unpacked_image>(&of);
  if (unpacked == nullptr) return {};
  std::uint64_t planes = 1;
  for (std::size_t d = 0; d + 2 < image.shape().size(); ++d) planes *= image.shape()[d];
  if (planes != unpacked->state().bands.size())
    return error(errc::unsupported, "windows of unpacked images have the dimensions band, y and x");
  return {};
}

// Refuses a window outside the image, or one that exceeds an image that has no value for pixels outside.
result<> check_within(const array& image, const georeference& of, const window_plan& plan,
                      const window_options& options) {
  if (!options.bounds) return {};
  const auto [rows, columns] = size_of_image(image);
  const pixel_window& w = plan.window;
  const auto within = [](double start, double length, std::uint64_t size) {
    return start >= -kSlack && start + length <= static_cast<double>(size) + kSlack;
  };
  const auto touches = [](double start, double length, std::uint64_t size) {
    return start < static_cast<double>(size) && start + length > 0;
  };
  const bool overlaps = touches(w.row, w.height, rows) && touches(w.column, w.width, columns);
  const bool has_fill =
      plan.fill_value || std::find(plan.nodata.begin(), plan.nodata.end(), std::nullopt) == plan.nodata.end();
  if (within(w.row, w.height, rows) && within(w.column, w.width, columns)) return {};
  if (has_fill && (overlaps || options.boundless)) return {};
  std::string where = fmt::format("the image of {} x {} pixels", rows, columns);
  if (const auto box = of.bounds(); box.ok() && *box) where += ", which has bounds " + text_of_bounds(**box);
  if (const auto code = of.epsg(); code.ok() && *code) where += fmt::format(" in EPSG:{}", **code);
  const std::string bounds = text_of_bounds(*options.bounds);
  if (!overlaps && !options.boundless)
    return bad_window(
        fmt::format("the bounds {} are outside {}. Are they of another CRS? boundless=True reads them as "
                    "fill_value",
                    bounds, where));
  return bad_window(fmt::format("the bounds {} exceed {}. It has no nodata value: give fill_value=", bounds, where));
}

result<pixel_window> find_window(const array& image, const georeference& of, const window_options& options) {
  const auto [rows, columns] = size_of_image(image);
  if (!options.bounds) return pixel_window{0, 0, static_cast<double>(rows), static_cast<double>(columns)};
  std::optional<affine_transform> transform = options.transform;
  if (!transform) {
    PENSTOCK_ASSIGN(transform, of.transform());
  }
  if (!transform) return bad_window("the array has no position: it has no transform");
  return window_of(*transform, *options.bounds);
}

// The overview that is `number` levels below the image; for a mask, the nearest above it that the file has.
result<array> open_overview(const array& image, std::size_t number) {
  tiff_options options = tiff_options_of(image);
  const std::uint64_t own = options.level;
  for (; number > 0; --number) {
    options.level = own + number;
    auto opened = open_tiff(image, options);
    if (opened.ok()) return opened;
    if (opened.error().code() != errc::not_found || !options.mask) return std::move(opened).error();
  }
  return image;
}

// Whether a coarser image has the type and the other dimensions of the image.
result<> check_overview(const window_image& overview, const window_image& of) {
  const extents &shape = stored(overview).shape(), &wanted = stored(of).shape();
  if (shape.size() == wanted.size() && type_of(overview) == type_of(of) &&
      std::equal(wanted.begin(), wanted.end() - 2, shape.begin()))
    return {};
  return bad_window(
      fmt::format("overview '{}' is {} of shape {}: it differs from the image in more than rows and columns",
                  stored(overview).uri(), type_of(overview).name(), to_string(shape)));
}

result<window_image> choose_level(const window_image& of, const window_plan& plan, const window_options& options,
                                  const image_size& result_size) {
  const array& image = stored(of);
  std::vector<image_size> sizes;
  if (options.overviews) {
    for (const window_image& each : *options.overviews) {
      PENSTOCK_TRY(check_overview(each, of));
      sizes.push_back(size_of_image(stored(each)));
    }
  } else if (tiff_details_of(image) != nullptr) {
    const tiff_companions companions = tiff_companions_of(image);
    const std::uint64_t own = std::min<std::uint64_t>(tiff_options_of(image).level, companions.overviews.size());
    sizes.assign(companions.overviews.begin() + static_cast<std::ptrdiff_t>(own), companions.overviews.end());
  }
  const std::size_t number = choose_overview(size_of_image(image), sizes, plan.window, result_size, plan.how);
  if (number == 0) return of;
  if (options.overviews) return (*options.overviews)[number - 1];
  PENSTOCK_ASSIGN(window_image opened, open_overview(image, number));
  if (const auto* const unpacked = std::get_if<unpacked_image>(&of)) {
    PENSTOCK_ASSIGN(opened, unpacked_image::make(stored(opened), unpacked->state().masked));
  }
  PENSTOCK_TRY(check_overview(opened, of));
  return opened;
}

bool has_means(const dtype& type) noexcept {
  return has_weighted_means(type) || (type.kind() == dtype_kind::floating && type.bits() == 16);
}

result<> check_means(const array& image, const dtype& type) {
  if (!has_means(type))
    return error(errc::unsupported, fmt::format("values of {} are read with resampling='nearest' only", type.name()));
  const tiff_details* const details = tiff_details_of(image);
  if (details == nullptr) return {};
  constexpr std::uint16_t kPhotometric = 262;
  PENSTOCK_ASSIGN(const std::int64_t photometric, tiff_values::of_image(*details).integer(kPhotometric, 0));
  if (photometric == kPalette)
    return error(errc::unsupported, "indexes of a palette have no mean: read them with resampling='nearest'");
  return {};
}

result<> set_nodata(const window_image& image, const georeference& of, const window_options& options,
                    window_plan& plan) {
  const dtype& type = plan.type;
  const auto* const unpacked = std::get_if<unpacked_image>(&image);
  plan.nodata.resize(1);
  if (options.nodata) {
    plan.given_nodata = true;
    plan.nodata[0] = held_nodata(*options.nodata, type);
  } else if (unpacked != nullptr) {
    if (unpacked->is_partial()) plan.nodata[0] = std::numeric_limits<double>::quiet_NaN();
  } else if (const std::vector<band_meaning> bands = of.bands(); !bands.empty()) {
    plan.nodata.resize(bands.size() == plan.planes() ? bands.size() : 1);
    for (std::size_t plane = 0; plane < plan.nodata.size(); ++plane) plan.nodata[plane] = bands[plane].held_nodata;
  }
  if (!options.fill_value.empty()) {
    if (options.fill_value.size() != type.item_bytes())
      return bad_window(fmt::format("fill_value has {}, an item of {} has {}",
                                    counted(options.fill_value.size(), "byte"), type.name(), type.item_bytes()));
    plan.fill_value = options.fill_value;
  }
  const bool is_number = type.kind() == dtype_kind::signed_integer || type.kind() == dtype_kind::unsigned_integer ||
                         type.kind() == dtype_kind::floating || type.kind() == dtype_kind::complex;
  for (const std::optional<nodata_value>& nodata : plan.nodata) {
    if (plan.fill_value)
      plan.missing.push_back(*plan.fill_value);
    else if (nodata && is_number)
      plan.missing.push_back(item_of_nodata(*nodata, type));
    else
      plan.missing.emplace_back(type.item_bytes());
  }
  return {};
}

result<resample_taps> taps_of_axis(resampling how, double start, double length, std::uint64_t of_image,
                                   std::uint64_t of_level, std::uint64_t count) {
  const double scale = static_cast<double>(of_image) / static_cast<double>(of_level);
  const double first = start / scale, step = length / scale / static_cast<double>(count);
  const double end = first + step * static_cast<double>(count);
  if (!(std::abs(first) < kMostPixels && std::abs(end) < kMostPixels))
    return bad_window("the bounds are too far from the image");
  auto made = make_taps(static_cast<resample_kernel>(how), first, step, count, of_level);
  if (!made) return error(errc::resource_exhausted, "the window is too large for a result of so many pixels");
  return *std::move(made);
}

result<> plan_window(const window_image& from, const window_options& options, window_plan& plan) {
  PENSTOCK_TRY(check_image(from));
  const array& image = stored(from);
  plan.type = type_of(from);
  const georeference of = georeference_of(image);
  plan.how = options.how;
  plan.threads = options.threads;
  plan.shape = image.shape();
  PENSTOCK_TRY(set_nodata(from, of, options, plan));
  PENSTOCK_ASSIGN(plan.window, find_window(image, of, options));
  PENSTOCK_TRY(check_within(image, of, plan, options));
  image_size size;
  if (options.size) {
    size = *options.size;
    if (size[0] < 1 || size[1] < 1)
      return bad_window(fmt::format("shape must be (rows, columns) of at least 1, got ({}, {})", size[0], size[1]));
  } else {
    PENSTOCK_ASSIGN(size, size_of_window(plan.window));
  }
  plan.shape[plan.shape.size() - 2] = size[0];
  plan.shape[plan.shape.size() - 1] = size[1];
  std::uint64_t bytes = plan.type.item_bytes();
  constexpr std::uint64_t kMostOfWindow = std::uint64_t{1} << 62;
  for (const std::uint64_t each : plan.shape) {
    if (each != 0 && bytes > kMostOfWindow / each)
      return error(errc::resource_exhausted, fmt::format("a window of shape {} is too large", to_string(plan.shape)));
    bytes *= each;
  }
  PENSTOCK_ASSIGN(const window_image chosen, choose_level(from, plan, options, size));
  plan.level = stored(chosen);
  if (const auto* const unpacked = std::get_if<unpacked_image>(&chosen)) plan.unpacked = *unpacked;
  if (options.how != resampling::nearest) PENSTOCK_TRY(check_means(image, plan.type));
  const image_size full = size_of_image(image), level = size_of_image(plan.level);
  if (full[0] == 0 || full[1] == 0 || level[0] == 0 || level[1] == 0) return bad_window("the image has no pixels");
  PENSTOCK_ASSIGN(plan.rows,
                  taps_of_axis(options.how, plan.window.row, plan.window.height, full[0], level[0], size[0]));
  PENSTOCK_ASSIGN(plan.columns,
                  taps_of_axis(options.how, plan.window.column, plan.window.width, full[1], level[1], size[1]));
  return {};
}

}  // namespace

result<pixel_window> window_of(const affine_transform& transform, const ground_bounds& bounds) {
  const auto [a, b, c, d, e, f] = transform;
  if (b != 0 || d != 0)
    return error(errc::unsupported, "the image is rotated: bounds are not a rectangle of its pixels");
  if (a == 0 || e == 0 || !std::isfinite(a) || !std::isfinite(e) || !std::isfinite(c) || !std::isfinite(f))
    return bad_window(
        fmt::format("the array's transform ({}, {}, {}, {}, {}, {}) does not give its pixels a position and a size", a,
                    b, c, d, e, f));
  const auto [left, right] = std::minmax({(bounds.left - c) / a, (bounds.right - c) / a});
  const auto [top, bottom] = std::minmax({(bounds.bottom - f) / e, (bounds.top - f) / e});
  const double first_column = left, last_column = right, first_row = top, last_row = bottom;
  // The bounds of an image whose first row or column is the southern or eastern one begin with that side.
  const bool in_order = (bounds.left < bounds.right || a < 0) && (bounds.bottom < bounds.top || e > 0);
  const bool is_area = bounds.left != bounds.right && bounds.bottom != bounds.top && std::isfinite(first_column) &&
                       std::isfinite(last_column) && std::isfinite(first_row) && std::isfinite(last_row);
  if (!in_order || !is_area)
    return bad_window(fmt::format("bounds must be (left, bottom, right, top), got {}", text_of_bounds(bounds)));
  return pixel_window{first_row, first_column, last_row - first_row, last_column - first_column};
}

result<image_size> size_of_window(const pixel_window& window) {
  image_size out = {1, 1};
  const double lengths[] = {window.height, window.width};
  for (std::size_t i = 0; i < 2; ++i) {
    const double whole = std::nearbyint(lengths[i]);
    if (!(whole < kMostPixels))
      return bad_window(fmt::format("a window of {} x {} pixels is too large", lengths[0], lengths[1]));
    if (whole > 1) out[i] = static_cast<std::uint64_t>(whole);
  }
  return out;
}

std::size_t choose_overview(const image_size& image, std::span<const image_size> overviews, const pixel_window& window,
                            const image_size& result_size, resampling how) noexcept {
  const double pixels =
      std::min(window.height / static_cast<double>(result_size[0]), window.width / static_cast<double>(result_size[1]));
  const double wanted = pixels * (how == resampling::nearest ? 1.2 : 1.0) + 0.1;
  std::size_t best = 0;
  double best_factor = 1;
  for (std::size_t i = 0; i < overviews.size(); ++i) {
    const double factor = std::min(static_cast<double>(image[1]) / static_cast<double>(overviews[i][1]),
                                   static_cast<double>(image[0]) / static_cast<double>(overviews[i][0]));
    if (best_factor < factor && factor < wanted) {
      best = i + 1;
      best_factor = factor;
    }
  }
  return best;
}

struct window_reader::state : window_plan {
  using window_plan::window_plan;
};

result<window_reader> window_reader::make(const window_image& image, window_options options) {
  auto made = std::make_shared<state>(stored(image));
  auto planned = plan_window(image, options, *made);
  if (!planned.ok()) return std::move(planned).error().note(fmt::format("array '{}'", stored(image).uri()));
  return window_reader(std::move(made));
}

const extents& window_reader::shape() const noexcept { return state_->shape; }
const dtype& window_reader::type() const noexcept { return state_->type; }
const pixel_window& window_reader::window() const noexcept { return state_->window; }
const array& window_reader::level() const noexcept { return state_->level; }
std::span<const std::int64_t> window_reader::nearest_rows() const noexcept {
  return state_->how == resampling::nearest ? state_->rows.first : std::span<const std::int64_t>();
}
std::span<const std::int64_t> window_reader::nearest_columns() const noexcept {
  return state_->how == resampling::nearest ? state_->columns.first : std::span<const std::int64_t>();
}

result<> window_reader::read(const tensor_view& out, const progress_fn& progress) const {
  const dtype& type = state_->type;
  if (type.variable_length())
    return error(errc::unsupported, fmt::format("windows of {} are not read", type.name()))
        .note(fmt::format("array '{}'", state_->level.uri()));
  if (out.space != memory_space::host || !(out.type == type) || out.extents != state_->shape ||
      out.strides != c_order_strides(out.extents, type.item_bytes()))
    return bad_window(fmt::format("a window is read into contiguous host memory of {} and shape {}", type.name(),
                                  to_string(state_->shape)));
  if (std::find(state_->shape.begin(), state_->shape.end(), 0U) != state_->shape.end()) return {};
  return read_planned(*state_, progress, out.data);
}

}  // namespace penstock::inline v0
