#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "array/weighted_means.h"

namespace penstock::inline v0 {

/// Kernels of one axis: output pixel i covers source positions [start + i * step, start + (i + 1) * step), where source
/// pixel k covers [k, k + 1).
enum class resample_kernel : std::uint8_t { nearest, average, bilinear };

/// The source pixels of each output pixel along one axis: `first[i] + k` with `weights[i * width + k]`.
struct resample_taps {
  std::vector<std::int64_t> first;
  std::vector<double> weights;
  std::size_t width = 1;

  std::size_t count() const noexcept { return first.size(); }
  /// The range of source pixels with a weight: [low, high).
  std::int64_t low() const noexcept;
  std::int64_t high() const noexcept;
  /// For the output pixels [begin, end); `low_pixel` is the number of the first available source pixel.
  axis_taps part(std::size_t begin, std::size_t end, std::int64_t low_pixel) const noexcept;
  /// The one source pixel of each output pixel; nullopt if an output pixel has several.
  std::optional<std::vector<std::int64_t>> single_pixels() const;
};

/// - nearest: the pixel that holds the centre of the output pixel, start + (i + 1/2) * step.
/// - average: the pixels that the output pixel covers, weighted by the covered share.
/// - bilinear: a triangle around the centre that reaches max(1, step) pixels to either side: it grows with the output
/// pixel, so that no source pixel is skipped. Positions within 1e-9 of an edge between pixels are that edge. Outside of
/// the `size` pixels, at most numbers -1 and `size` have weights. Returns nullopt if there are more than 2^27 weights.
std::optional<resample_taps> make_taps(resample_kernel kernel, double start, double step, std::size_t count,
                                       std::uint64_t size);

}  // namespace penstock::inline v0
