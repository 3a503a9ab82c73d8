// Writes an array as many .npy files, and one more set of files piece by piece as a simulation makes it.
//
//   save_shards [PATH]

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<std::uint64_t> cut(const std::string& path, const std::string& folder) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path));
  ps::save_shards_options options;
  options.rows = 250;
  PENSTOCK_TRY(ps::save_shards(a, folder + "/part_{:05d}.npy", options));
  PENSTOCK_ASSIGN(const ps::array again, ps::open_array(folder + "/penstock.shards"));
  return again.shape()[0];
}

ps::result<std::uint64_t> simulate(const std::string& folder) {
  PENSTOCK_ASSIGN(const ps::dtype float32, ps::dtype::from_name("float32"));
  PENSTOCK_ASSIGN(ps::shard_writer writer, ps::shard_writer::make(folder + "/step_{:04d}.raw"));
  for (int step = 0; step < 3; ++step) {
    std::vector<float> values(100 * 8, static_cast<float>(step));
    PENSTOCK_TRY(writer.write({ps::tensor_view::contiguous(values.data(), float32, {100, 8}), {}}));
  }
  PENSTOCK_TRY(writer.close());  // the manifest
  PENSTOCK_ASSIGN(const ps::array again, ps::open_array(folder + "/penstock.shards"));
  return again.shape()[0];
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);
  const auto folder = std::filesystem::temp_directory_path() / "penstock_save_shards";
  const auto rows = cut(sample.path(), (folder / "run").string());
  const auto steps = simulate((folder / "steps").string());
  std::filesystem::remove_all(folder);
  for (const auto* const each : {&rows, &steps})
    if (!each->ok()) std::fprintf(stderr, "%s\n", each->error().to_string().c_str());
  if (!rows.ok() || !steps.ok()) return 1;
  std::printf("%llu rows, %llu rows\n", static_cast<unsigned long long>(*rows),
              static_cast<unsigned long long>(*steps));
  return (argc > 1 || *rows == 600) && *steps == 300 ? 0 : 1;
}
