#include "format/tiff/tiff_georeference.h"

#include <algorithm>
#include <cmath>

#include "format/tiff/geo_keys.h"
#include "format/tiff/number_text.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_values.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kPhotometric = 262, kSamples = 277, kXResolution = 282, kYResolution = 283,
                        kResolutionUnit = 296, kExtraSamples = 338;
constexpr std::uint16_t kPixelScale = 33550, kTiePoints = 33922, kMatrix = 34264, kPolynomial = 50844;
/// More points than any file has.
constexpr std::uint64_t kMostTieNumbers = std::uint64_t{6} << 20;

result<bool> is_of_points(const tiff_details& details) {
  PENSTOCK_ASSIGN(const std::vector<geo_key> keys, parse_geo_keys(details));
  return pixel_extent_of(keys) == pixel_extent::point;
}

// As the layout reads them: a negative number counts as 1.
result<std::uint64_t> samples_of(const tiff_values& image) {
  PENSTOCK_ASSIGN(const std::int64_t samples, image.integer(kSamples, 1));
  return samples < 1 ? 1 : static_cast<std::uint64_t>(samples);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace

page_pixels page_pixels::of(const tiff_details& details, std::uint64_t rows, std::uint64_t columns) noexcept {
  if (rows == 0 || columns == 0) return {};
  return {static_cast<double>(details.page_height) / static_cast<double>(rows),
          static_cast<double>(details.page_width) / static_cast<double>(columns)};
}

result<std::optional<affine_transform>> page_transform(const tiff_details& details, const sidecar_metadata& sidecar) {
  const tiff_values tags = tiff_values::of_page(details);
  PENSTOCK_ASSIGN(const auto scale, tags.numbers(kPixelScale, false, 3));
  PENSTOCK_ASSIGN(const auto points, tags.numbers(kTiePoints, false, 6));
  affine_transform out;
  bool is_placed = false;
  if (sidecar.transform) {
    out = *sidecar.transform;
  } else if (scale && scale->size() >= 2 && (*scale)[0] != 0 && (*scale)[1] != 0) {  // which GDAL prefers to a matrix
    out.a = (*scale)[0];
    out.e = -std::abs((*scale)[1]);
    is_placed = points && points->size() >= 6;
    if (is_placed) {
      out.c = (*points)[3] - (*points)[0] * out.a;
      out.f = (*points)[4] - (*points)[1] * out.e;
    }
  } else {
    PENSTOCK_ASSIGN(const auto matrix, tags.numbers(kMatrix, false, 16));
    if (!matrix || matrix->size() < 16) return std::optional<affine_transform>();
    const std::vector<double>& m = *matrix;
    out = {m[0], m[1], m[3], m[4], m[5], m[7]};
    is_placed = true;
  }
  PENSTOCK_ASSIGN(const bool of_points, is_of_points(details));
  if (of_points && is_placed) {
    out.c -= 0.5 * (out.a + out.b);
    out.f -= 0.5 * (out.d + out.e);
  }
  return std::optional(out);
}

affine_transform of_level(const affine_transform& page, const page_pixels& of) noexcept {
  return {page.a * of.columns, page.b * of.rows, page.c, page.d * of.columns, page.e * of.rows, page.f};
}

ground_bounds bounds_of(const affine_transform& transform, std::uint64_t rows, std::uint64_t columns) noexcept {
  const auto [a, b, c, d, e, f] = transform;
  const auto down = static_cast<double>(rows), across = static_cast<double>(columns);
  if (b == 0 && d == 0) return {c, f + e * down, c + a * across, f};
  const auto [left, right] = std::minmax({c, c + a * across, c + b * down, c + a * across + b * down});
  const auto [bottom, top] = std::minmax({f, f + d * across, f + e * down, f + d * across + e * down});
  return {left, bottom, right, top};
}

result<std::vector<ground_control_point>> sidecar_points(const tiff_details& details, const sidecar_metadata& sidecar) {
  std::vector<ground_control_point> out = sidecar.gcps;
  if (!sidecar.gcps_in_inches) return out;
  const tiff_values tags = tiff_values::of_page(details);
  PENSTOCK_ASSIGN(const auto across, tags.numbers(kXResolution, false, 1));
  PENSTOCK_ASSIGN(const auto down, tags.numbers(kYResolution, false, 1));
  constexpr double kInches = 2;
  const tiff_tag* const unit = tags.find(kResolutionUnit);
  const bool in_inches = unit != nullptr && !is_text_type(unit->type) && unit->type != 7 && unit->count == 1 &&
                         tags.number(*unit, 0) == kInches;
  if (!across || !down || !in_inches) return std::vector<ground_control_point>();
  for (ground_control_point& each : out) {
    each.column *= (*across)[0];
    each.row = static_cast<double>(details.page_height) - each.row * (*down)[0];
  }
  return out;
}

result<std::vector<ground_control_point>> own_points(const tiff_details& details) {
  std::vector<ground_control_point> out;
  PENSTOCK_ASSIGN(const auto points, tiff_values::of_page(details).numbers(kTiePoints, false, kMostTieNumbers));
  if (!points) return out;
  PENSTOCK_ASSIGN(const bool of_points, is_of_points(details));
  const double shift = of_points ? 0.5 : 0.0;
  for (std::size_t i = 0; i + 6 <= points->size(); i += 6) {
    const double* const p = points->data() + i;
    out.push_back({p[0] + shift, p[1] + shift, p[3], p[4], p[5]});
  }
  return out;
}

result<std::optional<rational_polynomial>> own_polynomial(const tiff_details& details) {
  constexpr std::uint64_t kCount = 92;
  PENSTOCK_ASSIGN(const auto numbers, tiff_values::of_page(details).numbers(kPolynomial, false, kCount));
  if (!numbers || numbers->size() < kCount) return std::optional<rational_polynomial>();
  const double* from = numbers->data();
  rational_polynomial out;
  out.err_bias = from[0];
  out.err_rand = from[1];
  from += 2;
  for (double* const to : {&out.line_off, &out.samp_off, &out.lat_off, &out.long_off, &out.height_off, &out.line_scale,
                           &out.samp_scale, &out.lat_scale, &out.long_scale, &out.height_scale})
    *to = *from++;
  for (auto* const to : {&out.line_num_coeff, &out.line_den_coeff, &out.samp_num_coeff, &out.samp_den_coeff}) {
    std::copy(from, from + to->size(), to->begin());
    from += to->size();
  }
  return std::optional(out);
}

rational_polynomial of_level(rational_polynomial page, const page_pixels& of) noexcept {
  // Counted from the centre of the first pixel.
  const auto scaled = [](double& offset, double& scale, double pixels) {
    if (pixels == 1) return;
    offset = (offset + 0.5) / pixels - 0.5;
    scale /= pixels;
  };
  scaled(page.line_off, page.line_scale, of.rows);
  scaled(page.samp_off, page.samp_scale, of.columns);
  return page;
}

result<std::optional<std::uint64_t>> alpha_band_of(const tiff_details& details, const std::vector<gdal_item>& items) {
  const tiff_values tags = tiff_values::of_image(details);
  PENSTOCK_ASSIGN(const std::uint64_t samples, samples_of(tags));
  std::optional<std::uint64_t> none;
  const auto last = std::optional(samples - 1);
  if (const std::string* const role = find_role(items, *last, "colorinterp"))
    return lower_case(*role) == "alpha" ? last : none;
  const tiff_tag* const extra = tags.find(kExtraSamples);
  if (extra == nullptr || extra->count >= samples || !(is_integer_type(extra->type) || is_real_type(extra->type)))
    return none;
  const double kind = tags.number(*extra, extra->count - 1);
  return kind == 1 || kind == 2 ? last : none;
}

result<std::vector<std::string>> colors_of(const tiff_details& details, const std::vector<gdal_item>& items) {
  constexpr std::uint64_t kMostBands = 65535;
  const tiff_values tags = tiff_values::of_image(details);
  PENSTOCK_ASSIGN(const std::uint64_t samples, samples_of(tags));
  PENSTOCK_ASSIGN(const std::int64_t photometric, tags.integer(kPhotometric, 0));
  PENSTOCK_ASSIGN(const std::optional<std::uint64_t> alpha, alpha_band_of(details, items));
  const std::string word = tiff_photometric_word(photometric);
  std::vector<std::string> named = {"gray"};
  if (word == "rgb" || word == "ycbcr") named = {"red", "green", "blue"};
  if (word == "palette") named = {"palette"};
  if (word == "separated") named = {"cyan", "magenta", "yellow", "black"};
  const std::size_t of_photometric = named.size();
  named.resize(std::min(samples, kMostBands), "undefined");
  if (alpha && named.size() > of_photometric) named.back() = "alpha";
  for (const gdal_item& each : items) {
    if (each.band && each.role == "colorinterp" && *each.band < named.size()) named[*each.band] = lower_case(each.text);
  }
  return named;
}

result<std::optional<std::vector<double>>> nodata_of_pixels(const tiff_details& details, const metadata_items& image) {
  const std::string* const text = find_item(image, "NODATA_VALUES");
  PENSTOCK_ASSIGN(const std::uint64_t samples, samples_of(tiff_values::of_image(details)));
  std::vector<double> values;
  std::string_view rest = text == nullptr ? std::string_view() : trimmed(*text);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" \t\n\v\f\r"), rest.size());
    values.push_back(number_of_text(rest.substr(0, end)).value_or(0));
    rest = trimmed(rest.substr(end));
  }
  if (values.size() != samples) return std::optional<std::vector<double>>();
  return std::optional(std::move(values));
}

const std::string* find_role(const std::vector<gdal_item>& items, std::uint64_t band, std::string_view role) noexcept {
  const auto found = std::find_if(items.rbegin(), items.rend(),
                                  [&](const gdal_item& each) { return each.band == band && each.role == role; });
  return found == items.rend() ? nullptr : &found->text;
}

}  // namespace penstock::inline v0
