#include <penstock/georeference.h>
#include <penstock/tiff.h>

#include <algorithm>

#include "engine/array_state.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0 {
namespace {

bool any_of(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }

bool is_of_one_band(const array& mask) {
  const auto* const layout = dynamic_cast<const tiff_layout*>(mask.state().layout.get());
  const int axis = layout->band_axis();
  return axis < 0 || mask.shape()[static_cast<std::size_t>(axis)] == 1;
}

// Another image of the same file: its mask, or some of its bands.
result<array> other_image(const array& of, const tiff_options& options, bool mask, std::vector<std::uint64_t> bands) {
  tiff_options changed = options;
  changed.mask = mask;
  changed.bands = std::move(bands);
  return open_tiff(of, changed);
}

// Sets the mask. If only some bands have a mask, all pixels of the others are valid.
result<> add_mask(const array& image, const tiff_options& options, const tiff_companions& known,
                  const std::vector<band_meaning>& bands, pixel_validity& to) {
  if (known.masked_bands.empty()) {
    PENSTOCK_ASSIGN(array whole, other_image(image, options, true, {}));
    if (is_of_one_band(whole)) {
      to.mask = std::move(whole);
      return {};
    }
  }
  const auto first = static_cast<std::size_t>(std::find(to.masked.begin(), to.masked.end(), true) - to.masked.begin());
  std::vector<std::uint64_t> of_mask;
  for (std::size_t i = 0; i < bands.size(); ++i) of_mask.push_back(bands[to.masked[i] ? i : first].number);
  PENSTOCK_ASSIGN(to.mask, other_image(image, options, true, std::move(of_mask)));
  return {};
}

// GDAL derives a mask from the last of two or four bands of 8 or 16 bits.
result<> add_alpha(const array& image, const tiff_layout& layout, const georeference& of,
                   const std::vector<band_meaning>& bands, pixel_validity& to) {
  const std::uint32_t samples = layout.image().samples;
  const dtype& type = layout.type();
  if ((samples != 2 && samples != 4) || type.kind() != dtype_kind::unsigned_integer || type.bits() > 16) return {};
  PENSTOCK_ASSIGN(const std::optional<std::uint64_t> alpha, of.alpha_band());
  if (!alpha) return {};
  PENSTOCK_ASSIGN(to.mask, other_image(image, layout.options(), false, {*alpha}));
  to.is_alpha = true;
  to.masked.assign(bands.size(), true);
  const auto own =
      std::find_if(bands.begin(), bands.end(), [&](const band_meaning& each) { return each.number == *alpha; });
  if (own == bands.end()) return {};
  to.alpha_band = static_cast<std::uint64_t>(own - bands.begin());
  to.masked[*to.alpha_band] = false;
  return {};
}

}  // namespace

bool pixel_validity::is_partial() const noexcept {
  const bool has_nodata = std::any_of(nodata.begin(), nodata.end(), [](const auto& each) { return each.has_value(); });
  return mask.has_value() || !nodata_of_pixels.empty() || has_nodata;
}

bool pixel_validity::mask_is_of_all_bands() const noexcept { return mask && is_of_one_band(*mask); }

result<pixel_validity> validity_of(const array& image, const georeference& of) {
  pixel_validity out;
  const auto* const layout = dynamic_cast<const tiff_layout*>(image.state().layout.get());
  if (layout == nullptr) return out;
  const std::vector<band_meaning> bands = of.bands();
  out.masked.assign(bands.size(), false);
  out.nodata.resize(bands.size());
  if (layout->options().mask) return out;
  const tiff_companions known = tiff_companions_of(image);
  const auto has_own = [&](std::uint64_t band) {
    const auto& some = known.masked_bands;
    return some.empty() || std::find(some.begin(), some.end(), band) != some.end();
  };
  for (std::size_t i = 0; i < bands.size(); ++i) out.masked[i] = known.has_mask && has_own(bands[i].number);
  if (any_of(out.masked)) {
    PENSTOCK_TRY(add_mask(image, layout->options(), known, bands, out));
  } else {
    PENSTOCK_ASSIGN(const std::optional<std::vector<double>> values, of.nodata_of_pixels());
    if (values) {
      for (const double each : *values) out.nodata_of_pixels.push_back(held_nodata(each, layout->type()));
      out.masked.assign(bands.size(), true);
      return out;
    }
  }
  bool has_nodata = false;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    if (!out.masked[i]) out.nodata[i] = bands[i].held_nodata;
    has_nodata = has_nodata || out.nodata[i].has_value();
  }
  if (!out.mask && !has_nodata) PENSTOCK_TRY(add_alpha(image, *layout, of, bands, out));
  return out;
}

}  // namespace penstock::inline v0
