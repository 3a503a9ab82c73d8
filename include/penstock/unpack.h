#pragma once

#include <memory>
#include <utility>

#include <penstock/array.h>
#include <penstock/config.h>
#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

struct unpacked_state;  // src/api/image/unpacked_state.h

/// An image whose reads return physical values: value = stored * scale + offset of each band, and NaN for missing
/// pixels (by the mask, else by nodata, else by alpha: see `validity_of`).
///
/// Elements are converted in the copy after decoding. Immutable and thread-safe; holds the array.
class PENSTOCK_API unpacked_image {
 public:
  /// \param image   Has an axis of bands, or one band.
  /// \param masked  False: missing pixels keep their numbers.
  /// \error invalid_argument  The array is not an image of a TIFF, or its bands have no axis.
  /// \error corrupt_data  A tag, by number.
  static result<unpacked_image> make(const array& image, bool masked = true);

  /// Without scale and offset: floats and complex numbers keep their type, integers of up to 16 bits become float32.
  /// Otherwise float64 or complex128.
  const dtype& type() const noexcept;
  /// The image as it is stored.
  const array& packed() const noexcept;
  /// Whether elements may be NaN because their pixels are missing.
  bool is_partial() const noexcept;

  /// Reads `which` into `out`, whose dtype is `type()`.
  /// \error unsupported  Lists, points, masks of elements, if the image has a mask or its bands differ in scale, offset
  ///                     or nodata.
  /// \error  As `array::read`.
  result<> read(const selection& which, const tensor_view& out, const read_options& options = {}) const;
  result<> read(const resolved_basic& which, const tensor_view& out, const read_options& options = {}) const;

  const unpacked_state& state() const noexcept { return *state_; }

 private:
  explicit unpacked_image(std::shared_ptr<const unpacked_state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<const unpacked_state> state_;
};

}  // namespace penstock::inline v0
