#include "format/tiff/tiff_overview.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "codec/filters/half.h"

namespace penstock::inline v0 {
namespace {

template <class T>
struct pair_of {
  T real, imaginary;
};

__extension__ using wide_integer = __int128;

template <class T>
using sum_of = std::conditional_t<
    std::is_integral_v<T>,
    std::conditional_t<sizeof(T) <= 2, std::int32_t, std::conditional_t<sizeof(T) == 4, std::int64_t, wide_integer>>,
    double>;

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
bool is_nan(T value) noexcept {
  if constexpr (std::is_integral_v<T>) return false;
  return std::isnan(static_cast<double>(value));
}

template <class T>
T mean_of(sum_of<T> sum, int count) noexcept {
  if constexpr (std::is_integral_v<T>) {
    const sum_of<T> twice = 2 * sum + count, by = 2 * count;
    const sum_of<T> quotient = twice / by;
    return static_cast<T>(quotient - (twice % by < 0 ? 1 : 0));
  } else {
    return static_cast<T>(sum / count);
  }
}

/// Means of real numbers.
template <class T>
struct real_mean {
  T nodata{};
  bool has_nodata = false;

  bool is_nothing(T value) const noexcept {
    return is_nan(value) || (has_nodata && static_cast<sum_of<T>>(value) == static_cast<sum_of<T>>(nodata));
  }
  T operator()(T a, T b, T c, T d) const noexcept {
    if constexpr (std::is_integral_v<T>) {
      using sum = sum_of<T>;
      if (!has_nodata)
        return static_cast<T>(
            (static_cast<sum>(a) + static_cast<sum>(b) + static_cast<sum>(c) + static_cast<sum>(d) + 2) >> 2);
    }
    const T all[] = {a, b, c, d};
    return of(all);
  }
  // The mean of one to four pixels.
  T of(std::span<const T> values) const noexcept {
    sum_of<T> sum = 0;
    int count = 0;
    T one = values[0];
    for (const T each : values) {
      if (is_nothing(each)) continue;
      sum += static_cast<sum_of<T>>(each);
      if (count++ == 0) one = each;
    }
    // If none of the pixels is valid: nodata if one of them is nodata, otherwise their NaN.
    if (count == 0) return has_nodata ? nodata : values[0];
    const T mean = mean_of<T>(sum, count);
    return is_nothing(mean) ? one : mean;
  }
};

/// Means of complex numbers: NaN in either part is missing, and nodata is a real number.
template <class T>
struct complex_mean {
  pair_of<T> nodata{};
  bool has_nodata = false;

  bool is_nothing(const pair_of<T>& value) const noexcept {
    return is_nan(value.real) || is_nan(value.imaginary) ||
           (has_nodata && value.real == nodata.real && value.imaginary == nodata.imaginary);
  }
  pair_of<T> operator()(pair_of<T> a, pair_of<T> b, pair_of<T> c, pair_of<T> d) const noexcept {
    const pair_of<T> all[] = {a, b, c, d};
    return of(all);
  }
  pair_of<T> of(std::span<const pair_of<T>> values) const noexcept {
    double real = 0, imaginary = 0;
    int count = 0;
    pair_of<T> one = values[0];
    for (const pair_of<T>& each : values) {
      if (is_nothing(each)) continue;
      real += static_cast<double>(each.real);
      imaginary += static_cast<double>(each.imaginary);
      if (count++ == 0) one = each;
    }
    if (count == 0) return has_nodata ? nodata : values[0];
    const pair_of<T> mean{static_cast<T>(real / count), static_cast<T>(imaginary / count)};
    return is_nothing(mean) ? one : mean;
  }
};

struct shape {
  std::byte* to;
  std::size_t to_row_bytes;
  const std::byte* from;
  std::ptrdiff_t from_row, from_pixel;
  std::uint64_t rows, width;
  const std::byte* valid;
  std::size_t valid_row;
};

// Means of adjacent numbers. Returns false if one of the sums is NaN: then the general path, which leaves NaN out, has
// to repeat the row.
template <class T>
bool average_adjacent(std::byte* to, const std::byte* upper, const std::byte* lower, std::uint64_t count) noexcept {
  std::uint64_t bad = 0;
  for (std::uint64_t x = 0; x < count; ++x) {
    const std::uint64_t left = 2 * x * sizeof(T), right = left + sizeof(T);
    double sum = 0;  // in the order of `of`, from 0 on: the mean of zeros is 0, not -0
    sum += load<T>(upper + left);
    sum += load<T>(upper + right);
    sum += load<T>(lower + left);
    sum += load<T>(lower + right);
    bad |= static_cast<std::uint64_t>(sum != sum);
    const T made = static_cast<T>(sum / 4);
    std::memcpy(to + x * sizeof(T), &made, sizeof(T));
  }
  return bad == 0;
}

template <class T, class Mean>
void average_rows(const shape& at, const Mean& mean, std::ptrdiff_t pixel) noexcept {
  for (std::uint64_t y = 0; y < (at.rows + 1) / 2; ++y) {
    // At odd edges the existing pixels count twice, which gives the same mean.
    const std::byte* const upper = at.from + static_cast<std::ptrdiff_t>(2 * y) * at.from_row;
    const std::byte* const lower = 2 * y + 1 < at.rows ? upper + at.from_row : upper;
    std::byte* const to = at.to + y * at.to_row_bytes;
    std::uint64_t done = 0;
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const bool is_simple = !mean.has_nodata && pixel == static_cast<std::ptrdiff_t>(sizeof(T));
      if (is_simple && average_adjacent<T>(to, upper, lower, at.width / 2)) done = at.width / 2;
    }
    for (std::uint64_t x = done; x < at.width / 2; ++x) {
      const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(2 * x) * pixel, right = left + pixel;
      const T made = mean(load<T>(upper + left), load<T>(upper + right), load<T>(lower + left), load<T>(lower + right));
      std::memcpy(to + x * sizeof(T), &made, sizeof(T));
    }
    if (at.width % 2 != 0) {
      const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(at.width - 1) * pixel;
      const T a = load<T>(upper + left), b = load<T>(lower + left);
      const T made = mean(a, a, b, b);
      std::memcpy(to + at.width / 2 * sizeof(T), &made, sizeof(T));
    }
  }
}

// The same for those of the four pixels that a mask marks as valid.
template <class T, class Mean>
void average_masked_rows(const shape& at, const Mean& mean) noexcept {
  for (std::uint64_t y = 0; y < (at.rows + 1) / 2; ++y) {
    std::byte* const to = at.to + y * at.to_row_bytes;
    for (std::uint64_t x = 0; x < (at.width + 1) / 2; ++x) {
      T all[4], some[4];
      std::size_t there = 0, left = 0;
      for (std::uint64_t v = 2 * y; v < std::min(2 * y + 2, at.rows); ++v) {
        for (std::uint64_t u = 2 * x; u < std::min(2 * x + 2, at.width); ++u) {
          const T value = load<T>(at.from + static_cast<std::ptrdiff_t>(v) * at.from_row +
                                  static_cast<std::ptrdiff_t>(u) * at.from_pixel);
          all[there++] = value;
          if (at.valid[v * at.valid_row + u] != std::byte{0}) some[left++] = value;
        }
      }
      const T made = left == 0 ? mean.of(std::span<const T>(all, there)) : mean.of(std::span<const T>(some, left));
      std::memcpy(to + x * sizeof(T), &made, sizeof(T));
    }
  }
}

template <class T, class Mean>
void average_with(const shape& at, const overview_rule& rule) noexcept {
  Mean mean;
  if (rule.nodata.size() == sizeof(T)) {
    mean.nodata = load<T>(rule.nodata.data());
    mean.has_nodata = true;
  }
  constexpr auto kItem = static_cast<std::ptrdiff_t>(sizeof(T));
  if (at.valid != nullptr) {
    average_masked_rows<T>(at, mean);
  } else if (at.from_pixel == kItem) {
    average_rows<T>(at, mean, kItem);
  } else {
    average_rows<T>(at, mean, at.from_pixel);
  }
}

template <class T>
void average_real(const shape& at, const overview_rule& rule) noexcept {
  average_with<T, real_mean<T>>(at, rule);
}

void take_nearest(const shape& at, std::size_t item) noexcept {
  for (std::uint64_t y = 0; y < (at.rows + 1) / 2; ++y) {
    const std::byte* const from = at.from + static_cast<std::ptrdiff_t>(2 * y) * at.from_row;
    std::byte* const to = at.to + y * at.to_row_bytes;
    for (std::uint64_t x = 0; x < (at.width + 1) / 2; ++x)
      std::memcpy(to + x * item, from + static_cast<std::ptrdiff_t>(2 * x) * at.from_pixel, item);
  }
}

}  // namespace

void halve_rows(std::byte* to, std::size_t to_row_bytes, const std::byte* from, std::ptrdiff_t from_row,
                std::ptrdiff_t from_pixel, std::uint64_t rows, std::uint64_t width, const overview_rule& rule,
                const std::byte* valid, std::size_t valid_row) noexcept {
  const shape at{to, to_row_bytes, from, from_row, from_pixel, rows, width, valid, valid_row};
  const std::uint32_t item = rule.type.item_bytes();
  if (!rule.average) return take_nearest(at, item);
  switch (rule.type.kind()) {
    case dtype_kind::signed_integer:
      if (item == 1) return average_real<std::int8_t>(at, rule);
      if (item == 2) return average_real<std::int16_t>(at, rule);
      if (item == 4) return average_real<std::int32_t>(at, rule);
      return average_real<std::int64_t>(at, rule);
    case dtype_kind::floating:
      if (item == 2) return average_real<half>(at, rule);
      if (item == 4) return average_real<float>(at, rule);
      return average_real<double>(at, rule);
    case dtype_kind::complex:
      if (item == 8) return average_with<pair_of<float>, complex_mean<float>>(at, rule);
      return average_with<pair_of<double>, complex_mean<double>>(at, rule);
    default:
      if (item == 1) return average_real<std::uint8_t>(at, rule);
      if (item == 2) return average_real<std::uint16_t>(at, rule);
      if (item == 4) return average_real<std::uint32_t>(at, rule);
      return average_real<std::uint64_t>(at, rule);
  }
}

void halve_mask(std::byte* to, const std::byte* from, std::uint64_t rows, std::uint64_t width, bool average) noexcept {
  for (std::uint64_t y = 0; y < (rows + 1) / 2; ++y) {
    const std::byte* const upper = from + 2 * y * width;
    const std::byte* const lower = average && 2 * y + 1 < rows ? upper + width : upper;
    for (std::uint64_t x = 0; x < (width + 1) / 2; ++x) {
      const std::uint64_t right = average && 2 * x + 1 < width ? 2 * x + 1 : 2 * x;
      const std::byte any = upper[2 * x] | upper[right] | lower[2 * x] | lower[right];
      *to++ = any == std::byte{0} ? std::byte{0} : std::byte{255};
    }
  }
}

}  // namespace penstock::inline v0
