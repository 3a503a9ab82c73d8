#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/dtype.h>

namespace penstock::inline v0 {

/// The source pixels of each output pixel along one axis: number `first[i] - low + k` has `weights[i * width + k]`.
/// Pixels beyond the axis count nothing.
struct axis_taps {
  std::span<const std::int64_t> first;
  std::span<const double> weights;
  std::size_t width = 0;
  std::int64_t low = 0;  ///< the number of the first pixel that there is

  std::size_t count() const noexcept { return first.size(); }
};

/// Planes of pixels, each (rows, columns) in C order.
struct pixel_planes {
  const std::byte* values = nullptr;
  dtype type;                           ///< integers of 8 to 64 bits, floats of 32 and 64, in native order
  const std::uint8_t* valid = nullptr;  ///< of `valid_planes` planes, not 0: counts; null: all do
  std::size_t planes = 1, rows = 0, columns = 0;
  std::size_t valid_planes = 1;  ///< 1 or `planes`
};

/// Weighted means of each plane on another grid, and the weight of what counted in each.
///
/// \param by_axis  Weights are scaled up along columns first, then along rows over those that had something; else in
///                 both at once. Matters where `valid` is given.
/// \param means    (planes, output rows, output columns); NaN where nothing counted.
/// \param weight   As `means` (valid given), else (output rows, output columns).
/// Source: penstock/geo/resample.py, which says the same in NumPy.
void weighted_means(const pixel_planes& from, const axis_taps& down, const axis_taps& across, bool by_axis,
                    double* means, double* weight);

/// Means in the type of the source: integers rounded (halves up) and cut to the type's range. 0 where nothing counted.
///
/// \param nodata  Two items: what a mean must not be, and what it is instead; or null.
/// \returns Whether nothing counted anywhere.
bool store_means(const dtype& type, std::byte* to, const double* means, const double* weight, std::size_t count,
                 const std::byte* nodata);

/// Whether `weighted_means` and `store_means` know values of that type.
bool has_weighted_means(const dtype& type) noexcept;

}  // namespace penstock::inline v0
