// Adds up an array tile by tile: tiles are read ahead while this thread computes.
//
//   stream_tiles [PATH]

#include <penstock/penstock.h>

#include <cstdio>

#include "sample_array.h"

namespace ps = penstock;

ps::result<double> sum_of(const std::string& path) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path));
  ps::stream_options options;
  options.tile = {250, 300};
  options.depth = 2;
  options.type = ps::dtype::from_name("float64").value();
  PENSTOCK_ASSIGN(ps::array_stream tiles, ps::array_stream::make(a, options));
  double sum = 0;
  while (true) {
    PENSTOCK_ASSIGN(const auto tile, tiles.next());
    if (!tile) return sum;
    PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(tile->where.size));
    const auto* const values = reinterpret_cast<const double*>(tile->values.view.data);
    for (std::uint64_t i = 0; i < count; ++i) sum += values[i];
  }
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);
  const auto sum = sum_of(sample.path());
  if (!sum.ok()) {
    std::fprintf(stderr, "%s\n", sum.error().to_string().c_str());
    return 1;
  }
  std::printf("sum %.0f\n", *sum);
  constexpr double kCount = 600.0 * 800.0;
  return argc > 1 || *sum == kCount * (kCount - 1) / 2 ? 0 : 1;
}
