#include "api/image/valid_pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <penstock/tiff.h>
#include "codec/filters/half.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0 {
namespace {

template <class T>
void clear_equal(const std::byte* values, std::uint64_t count, const std::vector<std::byte>& nodata,
                 std::uint8_t* flags) {
  T wanted;
  std::memcpy(&wanted, nodata.data(), sizeof wanted);
  for (std::uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    flags[i] &= static_cast<std::uint8_t>(!(value == wanted) && (wanted == wanted || value == value));
  }
}

void clear_equal_halves(const std::byte* values, std::uint64_t count, float wanted, std::uint8_t* flags) {
  for (std::uint64_t i = 0; i < count; ++i) {
    half value;
    std::memcpy(&value.bits, values + 2 * i, 2);
    const auto number = static_cast<float>(value);
    flags[i] &= static_cast<std::uint8_t>(!(number == wanted) && (wanted == wanted || number == number));
  }
}

// Complex numbers are nodata if their imaginary part is 0.
template <class T>
void clear_equal_pairs(const std::byte* values, std::uint64_t count, T wanted, std::uint8_t* flags) {
  for (std::uint64_t i = 0; i < count; ++i) {
    T value[2];
    std::memcpy(value, values + i * sizeof value, sizeof value);
    const bool is_nan = value[0] != value[0] || value[1] != value[1];
    const bool is_equal = value[0] == wanted && value[1] == 0;
    flags[i] &= static_cast<std::uint8_t>(wanted == wanted ? !is_equal : !is_nan);
  }
}

bool is_set(const std::byte* item, std::uint32_t bytes) noexcept {
  return std::any_of(item, item + bytes, [](std::byte each) { return each != std::byte{}; });
}

}  // namespace

void clear_nodata(const dtype& type, const std::byte* values, std::uint64_t count, const nodata_value& nodata,
                  std::uint8_t* flags) {
  const std::vector<std::byte> item = item_of_nodata(nodata, type);
  const double real = std::visit([](auto number) { return static_cast<double>(number); }, nodata);
  if (type.kind() == dtype_kind::complex) {
    if (type.bits() == 64) return clear_equal_pairs(values, count, static_cast<float>(real), flags);
    return clear_equal_pairs(values, count, real, flags);
  }
  if (type.kind() == dtype_kind::floating) {
    if (type.bits() == 16) return clear_equal_halves(values, count, static_cast<float>(real), flags);
    if (type.bits() == 32) return clear_equal<float>(values, count, item, flags);
    return clear_equal<double>(values, count, item, flags);
  }
  switch (item.size()) {
    case 1:
      return clear_equal<std::uint8_t>(values, count, item, flags);
    case 2:
      return clear_equal<std::uint16_t>(values, count, item, flags);
    case 4:
      return clear_equal<std::uint32_t>(values, count, item, flags);
    default:
      return clear_equal<std::uint64_t>(values, count, item, flags);
  }
}

valid_pixels::valid_pixels(const dtype& type, std::uint64_t planes, const std::optional<nodata_value>& nodata)
    : type_(type), planes_(planes) {
  by_.nodata.assign(planes, nodata);
  by_.masked.assign(planes, false);
}

result<valid_pixels> valid_pixels::of_image(const array& image, std::uint64_t planes) {
  PENSTOCK_ASSIGN(pixel_validity by, validity_of(image, georeference_of(image)));
  return of_validity(image, planes, std::move(by));
}

result<valid_pixels> valid_pixels::of_validity(const array& image, std::uint64_t planes, pixel_validity by) {
  valid_pixels out(image.type(), planes, std::nullopt);
  out.by_ = std::move(by);
  out.by_.nodata.resize(planes);
  out.by_.masked.resize(planes);
  if (out.by_.mask) {
    out.masks_.push_back(*out.by_.mask);
  } else {
    for (std::uint64_t band = 0; band < out.by_.nodata_of_pixels.size(); ++band) {
      tiff_options options = tiff_options_of(image);
      options.bands = {band};
      PENSTOCK_ASSIGN(array of, open_tiff(image, options));
      out.masks_.push_back(std::move(of));
    }
  }
  return out;
}

bool valid_pixels::all() const noexcept { return !by_.is_partial(); }

bool valid_pixels::is_masked(std::uint64_t plane) const noexcept {
  return !masks_.empty() && by_.masked[plane] && by_.alpha_band != plane;
}

std::vector<std::uint8_t> valid_pixels::mask_values(const std::vector<std::vector<std::byte>>& masks,
                                                    std::uint64_t count) const {
  std::vector<std::uint8_t> out(count, 0);
  if (by_.mask) {
    const std::uint32_t item = by_.mask->type().item_bytes();
    const std::byte* const values = masks[0].data();
    if (item == 1) {
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(values[i] != std::byte{});
    } else {
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(is_set(values + i * item, item));
    }
    return out;
  }
  // Missing if all bands have their value.
  for (std::size_t band = 0; band < masks.size(); ++band) {
    std::vector<std::uint8_t> differs(count, 1);
    const bool has_nan = type_.kind() == dtype_kind::floating || type_.kind() == dtype_kind::complex;
    const auto& nodata = by_.nodata_of_pixels[band];
    if (nodata || has_nan)  // NaN is missing instead of a value that the type cannot hold
      clear_nodata(type_, masks[band].data(), count,
                   nodata ? *nodata : nodata_value(std::numeric_limits<double>::quiet_NaN()), differs.data());
    for (std::uint64_t i = 0; i < count; ++i) out[i] |= differs[i];
  }
  return out;
}

pixel_flags valid_pixels::mask_flags(const std::vector<std::vector<std::byte>>& masks, std::uint64_t pixels) const {
  pixel_flags out;
  if (by_.mask) out.planes = by_.mask_is_of_all_bands() ? 1 : planes_;
  out.values = mask_values(masks, out.planes * pixels);
  return out;
}

pixel_flags valid_pixels::flags(const std::byte* values, const std::vector<std::vector<std::byte>>& masks,
                                std::uint64_t pixels) const {
  pixel_flags of_mask;
  if (!masks_.empty()) of_mask = mask_flags(masks, pixels);
  bool is_shared = of_mask.planes == 1;
  for (std::uint64_t plane = 0; plane < planes_; ++plane)
    is_shared = is_shared && is_masked(plane) && !by_.nodata[plane];
  if (is_shared) return of_mask;
  pixel_flags out;
  out.planes = planes_;
  out.values.assign(planes_ * pixels, 1);
  for (std::uint64_t plane = 0; plane < planes_; ++plane) {
    std::uint8_t* const to = out.values.data() + plane * pixels;
    if (is_masked(plane)) std::copy_n(of_mask.of(plane), pixels, to);
    if (const auto& nodata = by_.nodata[plane])
      clear_nodata(type_, values + plane * pixels * type_.item_bytes(), pixels, *nodata, to);
  }
  return out;
}

}  // namespace penstock::inline v0
