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
  /// The source pixels that matter: [low, high).
  std::int64_t low() const noexcept;
  std::int64_t high() const noexcept;
  /// Of the output pixels [begin, end); `low_pixel` is the number of the first source pixel that there is.
  axis_taps part(std::size_t begin, std::size_t end, std::int64_t low_pixel) const noexcept;
  /// The one source pixel that each output pixel is made of; nothing if any has more.
  std::optional<std::vector<std::int64_t>> single_pixels() const;
};

/// - nearest: the pixel that holds the centre of the output pixel, start + (i + 1/2) * step.
/// - average: the pixels that the output pixel covers, by the share that it covers of them.
/// - bilinear: a triangle around the centre that reaches max(1, step) pixels to either side: it grows with the output
///   pixel, so that no source pixel is passed over.
/// Positions within 1e-9 of an edge between pixels are that edge. Of pixels outside of the `size` that there are, at
/// most numbers -1 and `size` have taps. Nothing if there are more than 2^27 taps.
std::optional<resample_taps> make_taps(resample_kernel kernel, double start, double step, std::size_t count,
                                       std::uint64_t size);

}  // namespace penstock::inline v0
