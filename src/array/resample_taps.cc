#include "array/resample_taps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::inline v0 {
namespace {

constexpr double kSnap = 1e-9;  // pixels
constexpr std::size_t kMostTaps = std::size_t{1} << 27;

double snapped(double edge) noexcept {
  const double whole = std::nearbyint(edge);
  return std::abs(edge - whole) < kSnap ? whole : edge;
}

// The source positions of output pixel i.
struct reach_of_pixel {
  double low, high, centre;
};

reach_of_pixel reach(resample_kernel kernel, double start, double step, std::size_t i) noexcept {
  const double low = snapped(start + step * static_cast<double>(i));
  const double high = snapped(start + step * static_cast<double>(i + 1));
  const double centre = (low + high) / 2, radius = std::max(1.0, step);
  if (kernel == resample_kernel::average) return {low, high, centre};
  return {centre - radius, centre + radius, centre};
}

}  // namespace

std::int64_t resample_taps::low() const noexcept { return *std::min_element(first.begin(), first.end()); }

std::int64_t resample_taps::high() const noexcept {
  return *std::max_element(first.begin(), first.end()) + static_cast<std::int64_t>(width);
}

axis_taps resample_taps::part(std::size_t begin, std::size_t end, std::int64_t low_pixel) const noexcept {
  return {std::span(first).subspan(begin, end - begin),
          std::span(weights).subspan(begin * width, (end - begin) * width), width, low_pixel};
}

std::optional<std::vector<std::int64_t>> resample_taps::single_pixels() const {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < count(); ++i) {
    const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(i * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    const auto is_used = [](double weight) { return weight > 0; };
    if (std::count_if(begin, end, is_used) != 1) return std::nullopt;
    out.push_back(first[i] + (std::find_if(begin, end, is_used) - begin));
  }
  return out;
}

std::optional<resample_taps> make_taps(resample_kernel kernel, double start, double step, std::size_t count,
                                       std::uint64_t size) {
  const auto beyond = static_cast<double>(size);
  resample_taps out;
  out.first.resize(count);
  if (kernel == resample_kernel::nearest) {
    for (std::size_t i = 0; i < count; ++i) {
      const double pixel = std::floor(start + step * (static_cast<double>(i) + 0.5) + kSnap);
      out.first[i] = static_cast<std::int64_t>(std::clamp(pixel, -1.0, beyond));
    }
    out.weights.assign(count, 1.0);
    return out;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const reach_of_pixel of = reach(kernel, start, step, i);
    const double first = std::clamp(std::floor(of.low), -1.0, beyond);
    const double end = std::clamp(std::ceil(of.high), first + 1, beyond + 1);
    out.first[i] = static_cast<std::int64_t>(first);
    out.width = std::max(out.width, static_cast<std::size_t>(end - first));
  }
  if (out.width > kMostTaps / std::max<std::size_t>(count, 1)) return std::nullopt;
  out.weights.resize(count * out.width);
  const double radius = std::max(1.0, step);
  for (std::size_t i = 0; i < count; ++i) {
    const reach_of_pixel of = reach(kernel, start, step, i);
    double* const weights = out.weights.data() + i * out.width;
    for (std::size_t k = 0; k < out.width; ++k) {
      const auto pixel = static_cast<double>(out.first[i] + static_cast<std::int64_t>(k));
      const double weight = kernel == resample_kernel::average ? std::min(of.high, pixel + 1) - std::max(of.low, pixel)
                                                               : 1 - std::abs(pixel + 0.5 - of.centre) / radius;
      weights[k] = std::max(weight, 0.0);
    }
    const bool is_outside = out.first[i] == -1 || out.first[i] == static_cast<std::int64_t>(size);
    if (is_outside && std::all_of(weights, weights + out.width, [](double each) { return each == 0; })) weights[0] = 1;
  }
  return out;
}

}  // namespace penstock::inline v0
