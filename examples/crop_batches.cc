// Adds up crops of an array, a batch at a time: batches are read ahead while this thread computes.
//
//   crop_batches [PATH]

#include <penstock/penstock.h>

#include <cstdint>
#include <cstdio>
#include <optional>

#include "sample_array.h"

namespace ps = penstock;

constexpr std::int64_t kCrop = 100;

ps::result<double> sum_of_crops(const std::string& path) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path));
  const auto rows = static_cast<std::int64_t>(a.shape()[0]) / kCrop;
  const auto columns = static_cast<std::int64_t>(a.shape()[1]) / kCrop;
  std::int64_t at = 0;
  const auto next_crop = [&]() -> ps::result<std::optional<ps::array_crop>> {
    if (at == rows * columns) return std::optional<ps::array_crop>();
    const std::int64_t row = at / columns * kCrop, column = at % columns * kCrop;
    ++at;
    const ps::basic_selection box{{ps::slice{row, row + kCrop, 1}, ps::slice{column, column + kCrop, 1}}};
    PENSTOCK_ASSIGN(ps::resolved_selection which, a.select(box));
    return std::optional(ps::array_crop{a, std::move(which)});
  };
  ps::batch_options options;
  options.type = ps::dtype::from_name("float64").value();
  PENSTOCK_ASSIGN(ps::crop_batches batches, ps::crop_batches::make(next_crop, options));
  double sum = 0;
  while (true) {
    PENSTOCK_ASSIGN(const auto batch, batches.next());
    if (!batch) return sum;
    PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(batch->view.extents));
    const auto* const values = reinterpret_cast<const double*>(batch->view.data);
    for (std::uint64_t i = 0; i < count; ++i) sum += values[i];
  }
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);
  const auto sum = sum_of_crops(sample.path());
  if (!sum.ok()) {
    std::fprintf(stderr, "%s\n", sum.error().to_string().c_str());
    return 1;
  }
  std::printf("sum %.0f\n", *sum);
  constexpr double kCount = 600.0 * 800.0;
  return argc > 1 || *sum == kCount * (kCount - 1) / 2 ? 0 : 1;
}
