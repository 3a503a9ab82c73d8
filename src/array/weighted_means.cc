#include "array/weighted_means.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace penstock::inline v0 {
namespace {

/// The weights of one output pixel on the axis, from the first to the last that is not 0.
struct pixel_taps {
  std::size_t at = 0;  ///< the first one's pixel
  std::span<const double> weights;
};

std::vector<pixel_taps> taps_within(const axis_taps& taps, std::size_t size) {
  std::vector<pixel_taps> made(taps.count());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::span<const double> weights = taps.weights.subspan(i * taps.width, taps.width);
    const std::int64_t first = taps.first[i] - taps.low;
    std::int64_t begin = std::max<std::int64_t>(0, -first);
    std::int64_t end = std::min(static_cast<std::int64_t>(taps.width), static_cast<std::int64_t>(size) - first);
    const auto is_nothing = [&](std::int64_t k) { return weights[static_cast<std::size_t>(k)] == 0; };
    while (begin < end && is_nothing(begin)) ++begin;
    while (begin < end && is_nothing(end - 1)) --end;
    if (begin >= end) continue;
    made[i] = {static_cast<std::size_t>(first + begin),
               weights.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
  }
  return made;
}

template <class Visit>
void each_tap(const pixel_taps& taps, const Visit& visit) {
  for (std::size_t k = 0; k < taps.weights.size(); ++k) visit(taps.at + k, taps.weights[k]);
}

template <class T>
void add_row(double* __restrict to, const T* __restrict from, double weight, std::size_t count) noexcept {
  for (std::size_t x = 0; x < count; ++x) to[x] += static_cast<double>(from[x]) * weight;
}
template <class T>
void add_valid_row(double* __restrict to, const T* __restrict from, const std::uint8_t* __restrict valid, double weight,
                   std::size_t count) noexcept {
  for (std::size_t x = 0; x < count; ++x) to[x] += (valid[x] != 0 ? static_cast<double>(from[x]) : 0.0) * weight;
}

void sum_across(double* to, const double* row, const std::vector<pixel_taps>& across) {
  for (std::size_t j = 0; j < across.size(); ++j) {
    double sum = 0;
    each_tap(across[j], [&](std::size_t at, double weight) { sum += row[at] * weight; });
    to[j] = sum;
  }
}

double sum_of(const pixel_taps& taps) {
  double sum = 0;
  for (const double weight : taps.weights) sum += weight;
  return sum;
}

template <class T>
class typed_means {
 public:
  typed_means(const pixel_planes& from, const axis_taps& down, const axis_taps& across)
      : from_(from),
        down_(taps_within(down, from.rows)),
        across_(taps_within(across, from.columns)),
        row_(from.columns) {}

  void all(double* means, double* weight) {
    std::vector<double> across(across_.size());
    for (std::size_t j = 0; j < across.size(); ++j) across[j] = sum_of(across_[j]);
    for (std::size_t i = 0; i < down_.size(); ++i) {
      const double rows = sum_of(down_[i]);
      for (std::size_t j = 0; j < across.size(); ++j) weight[i * across.size() + j] = rows * across[j];
    }
    for (std::size_t p = 0; p < from_.planes; ++p) {
      for (std::size_t i = 0; i < down_.size(); ++i) {
        std::fill(row_.begin(), row_.end(), 0.0);
        each_tap(down_[i], [&](std::size_t y, double w) { add_row(row_.data(), values(p, y), w, row_.size()); });
        double* const to = means + (p * down_.size() + i) * across_.size();
        sum_across(to, row_.data(), across_);
        for (std::size_t j = 0; j < across_.size(); ++j) to[j] /= weight[i * across_.size() + j];
      }
    }
  }

  void valid_at_once(double* means, double* weight) {
    const std::size_t width = across_.size();
    for (std::size_t p = 0; p < from_.planes; ++p) {
      for (std::size_t i = 0; i < down_.size(); ++i) {
        std::fill(row_.begin(), row_.end(), 0.0);
        each_tap(down_[i], [&](std::size_t y, double w) {
          add_valid_row(row_.data(), values(p, y), valid(p, y), w, row_.size());
        });
        double* const to = means + (p * down_.size() + i) * width;
        double* const weighs = weight + (p * down_.size() + i) * width;
        sum_across(to, row_.data(), across_);
        if (is_known(p)) {
          std::copy_n(weight + i * width, width, weighs);
        } else {
          std::fill(row_.begin(), row_.end(), 0.0);
          each_tap(down_[i], [&](std::size_t y, double w) {
            for (std::size_t x = 0; x < row_.size(); ++x) row_[x] += (valid(p, y)[x] != 0 ? 1.0 : 0.0) * w;
          });
          sum_across(weighs, row_.data(), across_);
        }
        for (std::size_t j = 0; j < width; ++j) to[j] /= weighs[j];
      }
    }
  }

  void valid_by_axis(double* means, double* weight) {
    const std::size_t width = across_.size();
    std::vector<double> rows(from_.rows * width), weights(from_.rows * width);
    for (std::size_t p = 0; p < from_.planes; ++p) {
      for (std::size_t y = 0; y < from_.rows; ++y) {
        const T* const row = values(p, y);
        const std::uint8_t* const counts = valid(p, y);
        for (std::size_t j = 0; j < width && !is_known(p); ++j) {
          double weighs = 0;
          each_tap(across_[j], [&](std::size_t x, double w) { weighs += (counts[x] != 0 ? 1.0 : 0.0) * w; });
          weights[y * width + j] = weighs;
        }
        for (std::size_t j = 0; j < width; ++j) {
          double total = 0;
          each_tap(across_[j],
                   [&](std::size_t x, double w) { total += (counts[x] != 0 ? static_cast<double>(row[x]) : 0.0) * w; });
          const double weighs = weights[y * width + j];
          rows[y * width + j] = weighs > 0 ? total / weighs : 0.0;
        }
      }
      for (std::size_t i = 0; i < down_.size(); ++i) {
        double* const to = means + (p * down_.size() + i) * width;
        double* const weighs = weight + (p * down_.size() + i) * width;
        std::fill(to, to + width, 0.0);
        std::fill(weighs, weighs + width, 0.0);
        each_tap(down_[i], [&](std::size_t y, double w) {
          add_row(to, rows.data() + y * width, w, width);
          for (std::size_t j = 0; j < width && !is_known(p); ++j)
            weighs[j] += (weights[y * width + j] > 0 ? 1.0 : 0.0) * w;
        });
        if (is_known(p)) std::copy_n(weight + i * width, width, weighs);
        for (std::size_t j = 0; j < width; ++j) to[j] /= weighs[j];
      }
    }
  }

 private:
  /// The valid pixels of the first plane are those of every plane.
  bool is_known(std::size_t plane) const noexcept { return plane != 0 && from_.valid_planes == 1; }
  const T* values(std::size_t plane, std::size_t y) const noexcept {
    return reinterpret_cast<const T*>(from_.values) + (plane * from_.rows + y) * from_.columns;
  }
  const std::uint8_t* valid(std::size_t plane, std::size_t y) const noexcept {
    return from_.valid + ((from_.valid_planes == 1 ? 0 : plane) * from_.rows + y) * from_.columns;
  }

  const pixel_planes& from_;
  const std::vector<pixel_taps> down_, across_;
  std::vector<double> row_;
};

/// Calls `with(T())` for the C++ type of `type`; false if it is not supported.
template <class With>
bool for_type(const dtype& type, const With& with) {
  const std::uint32_t bits = type.bits();
  switch (type.kind()) {
    case dtype_kind::unsigned_integer:
      if (bits == 8) return with(std::uint8_t()), true;
      if (bits == 16) return with(std::uint16_t()), true;
      if (bits == 32) return with(std::uint32_t()), true;
      if (bits == 64) return with(std::uint64_t()), true;
      return false;
    case dtype_kind::signed_integer:
      if (bits == 8) return with(std::int8_t()), true;
      if (bits == 16) return with(std::int16_t()), true;
      if (bits == 32) return with(std::int32_t()), true;
      if (bits == 64) return with(std::int64_t()), true;
      return false;
    case dtype_kind::floating:
      if (bits == 32) return with(float()), true;
      if (bits == 64) return with(double()), true;
      return false;
    default:
      return false;
  }
}

template <class T>
T in_type(double mean) noexcept {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(mean);
  using limits = std::numeric_limits<T>;
  const double rounded = std::floor(mean + 0.5);
  // A double rounds up the largest 64-bit integer.
  if (rounded >= static_cast<double>(limits::max())) return limits::max();
  if (rounded <= static_cast<double>(limits::min())) return limits::min();
  return static_cast<T>(rounded);
}

template <class T>
bool store_typed(T* to, const double* means, const double* weight, std::size_t count, const T* nodata) noexcept {
  bool has_nothing = false;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_nothing = weight[i] <= 0;
    has_nothing = has_nothing || is_nothing;
    to[i] = is_nothing ? T() : in_type<T>(means[i]);
    if (nodata != nullptr && !is_nothing && to[i] == nodata[0]) to[i] = nodata[1];
  }
  return has_nothing;
}

}  // namespace

bool has_weighted_means(const dtype& type) noexcept {
  return for_type(type, [](auto) {});
}

void weighted_means(const pixel_planes& from, const axis_taps& down, const axis_taps& across, bool by_axis,
                    double* means, double* weight) {
  for_type(from.type, [&](auto item) {
    typed_means<decltype(item)> work(from, down, across);
    if (from.valid == nullptr) {
      work.all(means, weight);
    } else if (by_axis) {
      work.valid_by_axis(means, weight);
    } else {
      work.valid_at_once(means, weight);
    }
  });
}

bool store_means(const dtype& type, std::byte* to, const double* means, const double* weight, std::size_t count,
                 const std::byte* nodata) {
  bool has_nothing = false;
  for_type(type, [&](auto item) {
    using T = decltype(item);
    has_nothing = store_typed(reinterpret_cast<T*>(to), means, weight, count, reinterpret_cast<const T*>(nodata));
  });
  return has_nothing;
}

}  // namespace penstock::inline v0
