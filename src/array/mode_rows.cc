#include "array/mode_rows.h"

#include <algorithm>
#include <cstring>

namespace penstock::inline v0 {
namespace {

/// Pixels of the result that are computed at once.
template <class T>
constexpr std::size_t kModes = 256 / sizeof(T);

// Loops of a constant number of steps without branches, which compilers turn into vector instructions: in images of few
// different values a branch for each comparison is mispredicted for most pixels.
template <class T>
void take_modes(T* to, const T* upper, const T* lower) noexcept {
  constexpr std::size_t kCount = kModes<T>;
  T a[kCount], b[kCount], c[kCount], d[kCount];
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = upper[2 * i];
    b[i] = upper[2 * i + 1];
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    c[i] = lower[2 * i];
    d[i] = lower[2 * i + 1];
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    T most = c[i] == d[i] ? c[i] : a[i];
    most = ((b[i] == c[i]) | (b[i] == d[i])) ? b[i] : most;
    to[i] = ((a[i] == b[i]) | (a[i] == c[i]) | (a[i] == d[i])) ? a[i] : most;
  }
}

// The last of an odd number of pixels is repeated.
template <class T>
void load_pixels(T* to, const std::byte* from, std::ptrdiff_t pixel, std::size_t count) noexcept {
  if (pixel == static_cast<std::ptrdiff_t>(sizeof(T))) {
    std::memcpy(to, from, count * sizeof(T));
  } else {
    for (std::size_t i = 0; i < count; ++i, from += pixel) std::memcpy(to + i, from, sizeof(T));
  }
  if (count % 2 != 0) to[count] = to[count - 1];
}

template <class T>
void halve_rows_by_mode(std::byte* to, const std::byte* from, std::ptrdiff_t row, std::ptrdiff_t pixel,
                        std::uint64_t rows, std::uint64_t width) noexcept {
  constexpr std::size_t kPixels = 2 * kModes<T>;
  T upper[kPixels] = {}, lower[kPixels] = {}, modes[kModes<T>];
  for (std::uint64_t y = 0; y < rows; y += 2) {
    const std::byte* first = from + static_cast<std::ptrdiff_t>(y) * row;
    const std::byte* second = y + 1 < rows ? first + row : first;
    for (std::uint64_t x = 0; x < width; x += kPixels) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kPixels, width - x));
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * pixel;
      load_pixels(upper, first + at, pixel, count);
      load_pixels(lower, second + at, pixel, count);
      take_modes(modes, upper, lower);
      const std::size_t bytes = (count + 1) / 2 * sizeof(T);
      std::memcpy(to, modes, bytes);
      to += bytes;
    }
  }
}

}  // namespace

void halve_by_mode(std::byte* to, const std::byte* from, std::ptrdiff_t from_row, std::ptrdiff_t from_pixel,
                   std::uint64_t rows, std::uint64_t width, std::uint32_t item_bytes) noexcept {
  switch (item_bytes) {
    case 1:
      return halve_rows_by_mode<std::uint8_t>(to, from, from_row, from_pixel, rows, width);
    case 2:
      return halve_rows_by_mode<std::uint16_t>(to, from, from_row, from_pixel, rows, width);
    case 4:
      return halve_rows_by_mode<std::uint32_t>(to, from, from_row, from_pixel, rows, width);
    default:
      return halve_rows_by_mode<std::uint64_t>(to, from, from_row, from_pixel, rows, width);
  }
}

}  // namespace penstock::inline v0
