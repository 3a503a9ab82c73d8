#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/dtype.h>

namespace penstock::inline v0 {

/// The source pixels of each output pixel along one axis: number `first[i] - low + k` has `weights[i * width + k]`.
/// Pixels beyond the axis have no weight.
struct axis_taps {
  std::span<const std::int64_t> first;
  std::span<const double> weights;
  std::size_t width = 0;
  std::int64_t low = 0;  ///< the number of the first available pixel

  std::size_t count() const noexcept { return first.size(); }
};

/// Planes of pixels, each (rows, columns) in C order.
struct pixel_planes {
  const std::byte* values = nullptr;
  dtype type;                           ///< integers of 8 to 64 bits, floats of 32 and 64, in native order
  const std::uint8_t* valid = nullptr;  ///< of `valid_planes` planes, not 0: valid; null: all are
  std::size_t planes = 1, rows = 0, columns = 0;
  std::size_t valid_planes = 1;  ///< 1 or `planes`
};

/// Weighted means of each plane on another grid, and the weight of the valid pixels in each.
///
/// \param by_axis  Weights are scaled along columns first, then along rows over those with valid pixels; otherwise
/// along both at once. Has an effect only with `valid`.
/// \param means    (planes, output rows, output columns); NaN without valid pixels.
/// \param weight   As `means` (valid given), else (output rows, output columns).
void weighted_means(const pixel_planes& from, const axis_taps& down, const axis_taps& across, bool by_axis,
                    double* means, double* weight);

/// Means in the type of the source: integers rounded (halves up) and clipped to the type's range. 0 without valid
/// pixels.
///
/// \param nodata  Two items: a value that a mean must not have, and its replacement; or null.
/// \returns Whether a result pixel has no valid source pixel.
bool store_means(const dtype& type, std::byte* to, const double* means, const double* weight, std::size_t count,
                 const std::byte* nodata);

/// Whether `weighted_means` and `store_means` support values of that type.
bool has_weighted_means(const dtype& type) noexcept;

}  // namespace penstock::inline v0
