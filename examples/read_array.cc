// Opens an array, reads every second column of its first ten rows into a vector, and adds the values up.
//
//   read_array [PATH]      PATH: a two-dimensional float32 array

#include <penstock/penstock.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<std::vector<float>> read_floats(const std::string& path, const ps::selection& which) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path));
  const ps::dtype float32(ps::dtype_kind::floating, 32);
  if (a.type() != float32) return ps::error(ps::errc::invalid_argument, "not float32 but " + a.type().name());

  PENSTOCK_ASSIGN(const ps::extents shape, a.result_shape(which));
  PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(shape));
  std::vector<float> values(count);
  PENSTOCK_TRY(a.read(which, ps::tensor_view::contiguous(values.data(), float32, shape)));
  return values;
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);

  ps::basic_selection which;  // [0:10, ::2]
  which.items = {ps::slice{0, 10, {}}, ps::slice{{}, {}, 2}};

  const auto values = read_floats(sample.path(), which);
  if (!values.ok()) {
    std::fprintf(stderr, "%s\n", values.error().to_string().c_str());
    return 1;
  }
  std::printf("%zu values, sum %.0f\n", values.value().size(), std::accumulate(values->begin(), values->end(), 0.0));
}
