// Adds up an array whose tiles are read ahead into memory of a GPU.
//
//   device_tiles [PATH]
//
// A kernel of yours would be launched on `tile->stream`, with `tile->values.view()` and without waiting. This program
// has no kernel: it copies each tile back and adds it up here.

#include <penstock/penstock.h>

#include <cstdio>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<double> sum_of(const std::string& path) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path));
  ps::device_tiles_options options;
  options.tile = {250, 300};
  options.depth = 2;
  PENSTOCK_ASSIGN(ps::device_tiles tiles, ps::device_tiles::make(a, options));
  double sum = 0;
  std::vector<float> values;
  while (true) {
    PENSTOCK_ASSIGN(auto tile, tiles.next());
    if (!tile) return sum;
    PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(tile->where.size));
    values.resize(count);
    PENSTOCK_TRY(tile->values.copy_to_host(reinterpret_cast<std::byte*>(values.data())));
    for (const float value : values) sum += value;
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
