#include "array/weighted_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "array/resample_taps.h"

namespace penstock {
namespace {

constexpr std::size_t kRows = 41, kColumns = 37, kPlanes = 2;

template <class T>
dtype type_of() {
  constexpr auto kind = std::is_floating_point_v<T> ? dtype_kind::floating
                        : std::is_signed_v<T>       ? dtype_kind::signed_integer
                                                    : dtype_kind::unsigned_integer;
  return {kind, 8 * sizeof(T)};
}

struct mean_and_weight {
  double mean = 0, weight = 0;
};

// Calls visit(pixel, weight) for the pixels of an axis of `size` pixels, whose first one is number `low`.
template <class Visit>
void each_of(const axis_taps& taps, std::size_t output, std::size_t size, const Visit& visit) {
  for (std::size_t k = 0; k < taps.width; ++k) {
    const std::int64_t at = taps.first[output] - taps.low + static_cast<std::int64_t>(k);
    if (at >= 0 && at < static_cast<std::int64_t>(size))
      visit(static_cast<std::size_t>(at), taps.weights[output * taps.width + k]);
  }
}

// The mean of one output pixel, by its definition.
template <class T>
mean_and_weight model(const pixel_planes& from, std::size_t plane, const axis_taps& down, std::size_t i,
                      const axis_taps& across, std::size_t j, bool by_axis) {
  const auto* const values = reinterpret_cast<const T*>(from.values) + plane * from.rows * from.columns;
  const std::size_t of_valid = from.valid_planes == 1 ? 0 : plane;
  mean_and_weight out;
  each_of(down, i, from.rows, [&](std::size_t y, double of_row) {
    mean_and_weight row;
    each_of(across, j, from.columns, [&](std::size_t x, double weight) {
      const std::size_t at = y * from.columns + x;
      if (from.valid != nullptr && from.valid[of_valid * from.rows * from.columns + at] == 0) return;
      row.mean += static_cast<double>(values[at]) * weight;
      row.weight += weight;
    });
    if (by_axis && from.valid != nullptr)
      row = {row.weight > 0 ? row.mean / row.weight : 0.0, row.weight > 0 ? 1. : 0.};
    out.mean += row.mean * of_row;
    out.weight += row.weight * of_row;
  });
  out.mean /= out.weight;
  return out;
}

void expect_near(double got, double want) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else {
    EXPECT_NEAR(got, want, 1e-12 * std::abs(want) + 1e-300);
  }
}

template <class T>
void expect_model(const pixel_planes& from, const resample_taps& rows, const resample_taps& columns, bool by_axis) {
  const axis_taps down = rows.part(0, rows.count(), 3), across = columns.part(0, columns.count(), 2);
  const std::size_t pixels = rows.count() * columns.count();
  std::vector<double> means(from.planes * pixels), weight((from.valid == nullptr ? 1 : from.planes) * pixels);
  weighted_means(from, down, across, by_axis, means.data(), weight.data());
  for (std::size_t plane = 0; plane < from.planes; ++plane) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      const auto want = model<T>(from, plane, down, pixel / columns.count(), across, pixel % columns.count(), by_axis);
      expect_near(means[plane * pixels + pixel], want.mean);
      expect_near(weight[(from.valid == nullptr ? 0 : plane * pixels) + pixel], want.weight);
    }
  }
}

struct axis_window {
  double start, step;
  std::size_t count;
};

template <class T>
class WeightedMeans : public testing::Test {};
using numbers = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                               std::uint64_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(WeightedMeans, numbers);

TYPED_TEST(WeightedMeans, AreThoseOfTheDefinition) {
  std::mt19937 random(5);
  std::vector<TypeParam> values(kPlanes * kRows * kColumns);
  for (TypeParam& each : values) each = static_cast<TypeParam>(1 + random() % 120);
  std::vector<std::uint8_t> some(values.size()), none(values.size(), 0);
  for (std::uint8_t& each : some) each = static_cast<std::uint8_t>(random() % 5 < 3);
  const std::pair<axis_window, axis_window> windows[] = {{{0, 1, 41}, {0, 1, 37}},
                                                         {{-3.5, 2.25, 20}, {4.25, 0.3, 60}},
                                                         {{2, 7.7, 5}, {-20, 13, 6}},
                                                         {{50, 1, 4}, {0, 1, 4}}};
  pixel_planes from;
  from.values = reinterpret_cast<const std::byte*>(values.data());
  from.type = type_of<TypeParam>();
  from.planes = kPlanes;
  from.rows = kRows;
  from.columns = kColumns;
  for (const resample_kernel kernel : {resample_kernel::nearest, resample_kernel::average, resample_kernel::bilinear}) {
    for (const auto& [down, across] : windows) {
      const auto rows = make_taps(kernel, down.start, down.step, down.count, 60);
      const auto columns = make_taps(kernel, across.start, across.step, across.count, 60);
      ASSERT_TRUE(rows && columns);
      for (const bool by_axis : {false, true}) {
        for (const std::vector<std::uint8_t>* const valid :
             {static_cast<std::vector<std::uint8_t>*>(nullptr), &some, &none}) {
          for (const std::size_t planes : {std::size_t{1}, kPlanes}) {
            from.valid = valid == nullptr ? nullptr : valid->data();
            from.valid_planes = planes;
            expect_model<TypeParam>(from, *rows, *columns, by_axis);
          }
        }
      }
    }
  }
}

TYPED_TEST(WeightedMeans, AreStoredInTheTypeOfTheSource) {
  using limits = std::numeric_limits<TypeParam>;
  constexpr bool is_float = std::is_floating_point_v<TypeParam>;
  const double means[] = {0.5, 1.5, 2.4999, -0.5, -1.5, 0x1p65, -0x1p65, 7, limits::quiet_NaN()};
  const double weight[] = {1, 1, 1, 1, 1, 1, 1, 1, 0};
  const TypeParam nodata[] = {2, 3};
  TypeParam made[9];
  auto* const to = reinterpret_cast<std::byte*>(made);
  const auto store = [&](const TypeParam* instead) {
    return store_means(type_of<TypeParam>(), to, means, weight, 9, reinterpret_cast<const std::byte*>(instead));
  };
  EXPECT_TRUE(store(nullptr)) << "the last one has no valid pixel";
  const auto value = [&](std::size_t i, double rounded) {
    return is_float ? static_cast<TypeParam>(means[i]) : static_cast<TypeParam>(rounded);
  };
  EXPECT_EQ(made[0], value(0, 1));
  EXPECT_EQ(made[1], value(1, 2));
  EXPECT_EQ(made[2], value(2, 2));
  EXPECT_EQ(made[3], value(3, 0));
  EXPECT_EQ(made[4], std::is_signed_v<TypeParam> ? value(4, -1) : TypeParam{0});
  EXPECT_EQ(made[5], is_float ? static_cast<TypeParam>(0x1p65) : limits::max());
  EXPECT_EQ(made[6], is_float ? static_cast<TypeParam>(-0x1p65) : limits::lowest());
  EXPECT_EQ(made[7], TypeParam{7});
  EXPECT_EQ(made[8], TypeParam{0});
  store(nodata);
  EXPECT_EQ(made[1], value(1, 3)) << "a mean is never nodata";
  EXPECT_EQ(made[7], TypeParam{7});
}

TEST(MeansOfTypes, AreOfRealNumbers) {
  EXPECT_FALSE(has_weighted_means(dtype(dtype_kind::complex, 64)));
  EXPECT_FALSE(has_weighted_means(dtype(dtype_kind::boolean, 8)));
  EXPECT_FALSE(has_weighted_means(dtype(dtype_kind::floating, 16))) << "these are converted first";
}

}  // namespace
}  // namespace penstock
