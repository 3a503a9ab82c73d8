// Prints what a read will do, does it, and shows where the time went.
//
//   plan_and_profile [PATH [SELECTION]]

#include <penstock/penstock.h>

#include <cstdio>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<> run(const std::string& path, const char* text) {
  PENSTOCK_ASSIGN(const auto context, ps::context::make());
  ps::open_options options;
  options.context = context;
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path, options));
  PENSTOCK_ASSIGN(const ps::basic_selection which, ps::parse_selection(text));

  PENSTOCK_ASSIGN(const std::string plan, a.plan(which, 8));
  std::printf("%s\n", plan.c_str());

  PENSTOCK_ASSIGN(const ps::extents shape, a.result_shape(which));
  PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(shape));
  std::vector<std::byte> memory(count * a.type().item_bytes());
  PENSTOCK_TRY(context->start_profile());
  PENSTOCK_TRY(a.read(which, ps::tensor_view::contiguous(memory.data(), a.type(), shape)));
  const ps::profile_report report = context->stop_profile();

  if (ps::converts(a.type(), ps::dtype::from_name("float64").value())) {
    ps::read_options as_double;
    as_double.type = ps::dtype::from_name("float64").value();
    std::vector<double> doubles(count);
    const auto out = ps::tensor_view::contiguous(doubles.data(), *as_double.type, shape);
    PENSTOCK_TRY(a.read(which, out, as_double));
    std::printf("as float64, the first is %g\n", doubles.empty() ? 0.0 : doubles[0]);
  }

  for (const ps::profile_stage& stage : report.stages) {
    std::printf("%-8s %6llu operations %10.3f ms\n", std::string(ps::to_string(stage.what)).c_str(),
                static_cast<unsigned long long>(stage.operations), static_cast<double>(stage.busy_ns) / 1e6);
  }
  std::printf("%llu requests, %llu bytes from the store, %.3f ms in all\n",
              static_cast<unsigned long long>(report.store_requests),
              static_cast<unsigned long long>(report.store_bytes), static_cast<double>(report.wall_ns) / 1e6);
  return {};
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);
  const ps::result<> done = run(sample.path(), argc > 2 ? argv[2] : "");
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
