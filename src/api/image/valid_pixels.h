#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/geo_values.h>
#include <penstock/georeference.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// A flag for each pixel of some planes: 0 is missing.
struct pixel_flags {
  std::vector<std::uint8_t> values;
  std::uint64_t planes = 1;  ///< 1: all planes of the image share them

  const std::uint8_t* of(std::uint64_t plane) const noexcept {
    return values.data() + (planes == 1 ? 0 : plane * (values.size() / planes));
  }
};

/// The pixels that have a value: the masks include them, and they are not nodata. Immutable, thread-safe.
class valid_pixels {
 public:
  /// All pixels except those that are `nodata`, in each plane.
  valid_pixels(const dtype& type, std::uint64_t planes, const std::optional<nodata_value>& nodata);
  /// By GDAL's rules: see `validity_of`.
  /// \error As `validity_of` and `open_tiff`.
  static result<valid_pixels> of_image(const array& image, std::uint64_t planes);
  /// The same, from a result of `validity_of` for the image.
  static result<valid_pixels> of_validity(const array& image, std::uint64_t planes, pixel_validity by);

  /// All pixels have a value.
  bool all() const noexcept;
  /// The mask is an alpha band.
  bool by_opacity() const noexcept { return by_.is_alpha; }
  /// The images to read in addition: a mask of one plane or of as many as the image, or the bands that NODATA_VALUES
  /// compares.
  const std::vector<array>& masks() const noexcept { return masks_; }

  /// \param values  (planes, `pixels`) of the image's type.
  /// \param masks   For each of `masks()` the same pixels, in C order.
  pixel_flags flags(const std::byte* values, const std::vector<std::vector<std::byte>>& masks,
                    std::uint64_t pixels) const;

  /// A flag for each of `count` elements of the masks, in any shape.
  std::vector<std::uint8_t> mask_values(const std::vector<std::vector<std::byte>>& masks, std::uint64_t count) const;

 private:
  pixel_flags mask_flags(const std::vector<std::vector<std::byte>>& masks, std::uint64_t pixels) const;
  bool is_masked(std::uint64_t plane) const noexcept;

  dtype type_;
  std::uint64_t planes_;
  pixel_validity by_;
  std::vector<array> masks_;
};

/// Clears the flags of pixels that are `nodata`, or NaN if it is NaN.
void clear_nodata(const dtype& type, const std::byte* values, std::uint64_t count, const nodata_value& nodata,
                  std::uint8_t* flags);

}  // namespace penstock::inline v0
