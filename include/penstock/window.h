#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/array.h>
#include <penstock/config.h>
#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// A rectangle of an image in its pixels, from the upper left corner of the first one. It may begin and end within
/// pixels, and outside the image.
struct pixel_window {
  double row = 0, column = 0, height = 0, width = 0;
};

/// Rows and columns.
using image_size = std::array<std::uint64_t, 2>;

/// How the pixels of a window are computed from the image's. Each axis is resampled on its own; a kernel gives each
/// source pixel a weight, and missing pixels are ignored.
enum class resampling : std::uint8_t {
  nearest,   ///< the pixel that holds the centre of the result's pixel
  average,   ///< the pixels that the result's pixel covers, weighted by the covered share
  bilinear,  ///< a triangle around the centre that reaches max(1, pixels of the source per pixel of the result)
};

/// The pixels that `bounds` cover, without rounding. If the image's coordinates decrease to the right or increase
/// downwards, bounds may be given in either order along that axis.
/// \error unsupported  The image is rotated. \error invalid_argument  Pixels without a size; bounds that are empty, not
/// finite, or not in the order left, bottom, right, top.
PENSTOCK_API result<pixel_window> window_of(const affine_transform& transform, const ground_bounds& bounds);

/// The window's size in whole pixels: the nearest (halves to even), at least 1.
/// \error invalid_argument  More than 2^53 rows or columns.
PENSTOCK_API result<image_size> size_of_window(const pixel_window& window);

/// The overview from which a window is read: the smallest whose pixels exceed the result's by at most a tenth
/// ("nearest": a fifth and a tenth). 0: the image itself; k: `overviews[k - 1]`. Source: GDAL,
/// GDALBandGetBestOverviewLevel2.
PENSTOCK_API std::size_t choose_overview(const image_size& image, std::span<const image_size> overviews,
                                         const pixel_window& window, const image_size& result_size,
                                         resampling how) noexcept;

struct window_options {
  std::optional<ground_bounds> bounds;  ///< in the units of the image's coordinate system; nothing: all of the image
  std::optional<image_size> size;       ///< of the result; nothing: as many pixels as the image itself has there
  resampling how = resampling::nearest;
  /// For pixels without a value: one item of the array's type in native byte order. Empty: nodata; without nodata, 0
  /// for missing pixels within the image.
  std::vector<std::byte> fill_value;
  /// True permits bounds that are wholly outside the image.
  bool boundless = false;
  unsigned threads = 0;  ///< for decoding; 0: the context's

  // For arrays that are not TIFFs, or instead of the values in the TIFF.
  std::optional<affine_transform> transform;
  std::optional<nodata_value> nodata;           ///< decides alone which pixels are missing
  std::optional<std::vector<array>> overviews;  ///< the same image in coarser arrays, the largest first
};

/// A rectangle on the ground, read on a grid of any size from a suitable overview.
///
/// Results equal GDAL's for the same window, with the exceptions that Python's `read_window` lists. Immutable and
/// thread-safe; holds the array.
class PENSTOCK_API window_reader {
 public:
  /// \param image  Its last dimensions are rows and columns.
  /// \error invalid_argument  Bounds wholly outside the image, unless `boundless`. Bounds that leave an image that has
  ///                          neither nodata nor `fill_value`. Bounds of an array without a transform.
  /// \error unsupported  Bounds of a rotated image; means of a palette or of other values than integers and floats;
  ///                     items of variable length.
  /// \error corrupt_data  A tag that is needed, by number.
  static result<window_reader> make(const array& image, window_options options = {});

  /// Of the result: the dimensions of the image before the last two, then rows and columns.
  const extents& shape() const noexcept;
  /// In pixels of the image.
  const pixel_window& window() const noexcept;
  /// What is read: the image or an overview of it.
  const array& level() const noexcept;

  /// Reads the window. Needs about 64 MiB of memory in addition to `out`.
  /// \param out  Host memory of `shape()` and the array's type, contiguous in C order. Unspecified after an error.
  /// \error  As `array::read`.
  result<> read(const tensor_view& out) const;

 private:
  struct state;
  explicit window_reader(std::shared_ptr<const state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<const state> state_;
};

}  // namespace penstock::inline v0
