#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <penstock/array.h>
#include <penstock/config.h>
#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/tensor.h>
#include <penstock/unpack.h>

namespace penstock::inline v0 {

/// A rectangle of an image in its pixels, from the upper left corner of the first one. It may begin and end within
/// pixels, and outside the image.
struct pixel_window {
  double row = 0, column = 0, height = 0, width = 0;
};

/// Rows and columns.
using image_size = std::array<std::uint64_t, 2>;

/// How the pixels of a window are computed from the image's.
///
/// Each axis is resampled on its own: pixel i of the result covers source positions [start + i * step, start + (i + 1)
/// * step), where source pixel k covers [k, k + 1). A kernel gives each source pixel a weight. Weights of missing
/// pixels, and of pixels beyond the edge, are omitted. The others are scaled to a sum of one: in both directions at
/// once (average), or along x, then along y over the rows with valid pixels (bilinear, as in GDAL).
///
/// Means are computed in doubles. Integers are rounded, halves up, and limited to the range of the type. A mean that
/// equals nodata becomes the next number of the type. Where each result pixel has one source pixel, values are copied.
enum class resampling : std::uint8_t {
  nearest,  ///< the pixel that holds the centre, start + (i + 1/2) * step
  average,  ///< the pixels that the result's pixel covers, weighted by the covered share
  /// A triangle around the centre that reaches max(1, step) pixels to either side: if the result is coarser than the
  /// source, it grows with the result's pixel, so that no source pixel is skipped.
  bilinear,
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

/// The source of a window: an image's pixels as they are stored, or its physical values, which are resampled after they
/// were unpacked. In physical values NaN marks missing pixels, if the image has any.
using window_image = std::variant<array, unpacked_image>;

struct window_options {
  std::optional<ground_bounds> bounds;  ///< in the units of the image's coordinate system; nullopt: the whole image
  std::optional<image_size> size;       ///< size of the result; nullopt: as many pixels as the image itself has there
  resampling how = resampling::nearest;
  /// For pixels without a value: one item of the result's type in native byte order. Empty: nodata; without nodata, 0
  /// for missing pixels within the image.
  std::vector<std::byte> fill_value;
  /// True permits bounds that are wholly outside the image.
  bool boundless = false;
  unsigned threads = 0;  ///< for decoding; 0: the context's

  // For arrays that are not TIFFs, or instead of the values in the TIFF.
  std::optional<affine_transform> transform;
  std::optional<nodata_value> nodata;                  ///< alone decides which pixels are missing
  std::optional<std::vector<window_image>> overviews;  ///< the same image, coarser, the largest first; of one type
};

/// A rectangle on the ground, read on a grid of any size from a suitable overview.
///
/// Results equal GDAL's for the same window, with these exceptions. GDAL propagates a nodata value of NaN. GDAL ignores
/// source values outside the window in pixels that its edge cuts. GDAL averages MINISWHITE images through a colour
/// table. Without resampling, GDAL returns the stored values of masked pixels; here these get the fill value, and only
/// transparent pixels keep their stored values unless `fill_value` is given. Halves can differ by rounding errors.
///
/// Immutable and thread-safe; holds the array.
class PENSTOCK_API window_reader {
 public:
  /// \param image  Its last dimensions are rows and columns.
  /// \error invalid_argument  Bounds wholly outside the image, unless `boundless`. Bounds that exceed an image that has
  ///                          neither nodata nor `fill_value`. Bounds of an array without a transform.
  /// \error unsupported  Bounds of a rotated image; means of a palette or of other values than integers and floats;
  ///                     items of variable length, unless `how` is `nearest`; an unpacked image of other dimensions
  ///                     than bands, rows and columns.
  /// \error corrupt_data  A tag that is needed, by number.
  static result<window_reader> make(const window_image& image, window_options options = {});

  /// Shape of the result: the dimensions of the image before the last two, then rows and columns.
  const extents& shape() const noexcept;
  /// Type of the result: the image's, or that of its unpacked values.
  const dtype& type() const noexcept;
  /// The window in pixels of the image.
  const pixel_window& window() const noexcept;
  /// The array that is read, as it is stored: the image or an overview of it.
  const array& level() const noexcept;
  /// For `nearest`: for each row and each column of the result the row and the column of `level()`, ascending. Pixels
  /// outside the level have the fill value.
  std::span<const std::int64_t> nearest_rows() const noexcept;
  std::span<const std::int64_t> nearest_columns() const noexcept;

  /// Reads the window. Needs about 64 MiB of memory in addition to `out`, and two bytes for each pixel of a mask if
  /// values are copied.
  /// \param out  Host memory of `shape()` and `type()`, contiguous in C order. Unspecified after an error.
  /// \param progress  Empty, or called in this thread with bytes of `level()`; false stops (`cancelled`).
  /// \error unsupported  Items of variable length: read `nearest_rows()` and `nearest_columns()` of `level()`.
  /// \error  As `array::read`.
  result<> read(const tensor_view& out, const progress_fn& progress = {}) const;

 private:
  struct state;
  explicit window_reader(std::shared_ptr<const state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<const state> state_;
};

}  // namespace penstock::inline v0
