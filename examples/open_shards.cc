// Finds the files of a run, opens them as one array, adds it up in tiles, and saves a manifest of the files.
//
//   open_shards [FOLDER [PATTERN]]

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

/// Writes 600 rows as three files, of 250, 250 and 100 rows.
ps::result<> write_files(const std::string& from, const std::string& folder) {
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(from));
  ps::save_shards_options options;
  options.rows = 250;
  options.manifest.reset();
  PENSTOCK_TRY(ps::save_shards(a, folder + "/part_{:d}.npy", options));
  return {};
}

/// One of `processes` would read one tile; here they follow each other.
ps::result<double> sum_of(const ps::array& a, std::uint64_t processes) {
  PENSTOCK_ASSIGN(const ps::axis_tiles tiles, ps::tile_axis(a.shape()[0], processes));
  ps::read_options as_double;
  as_double.type = ps::dtype::from_name("float64").value();
  double sum = 0;
  for (std::uint64_t tile = 0; tile < tiles.count; ++tile) {
    ps::basic_selection rows;
    rows.items = {
        ps::slice{static_cast<std::int64_t>(tiles.begin(tile)), static_cast<std::int64_t>(tiles.end(tile)), {}}};
    PENSTOCK_ASSIGN(const ps::extents shape, a.result_shape(rows));
    PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(shape));
    std::vector<double> values(count);
    PENSTOCK_TRY(a.read(rows, ps::tensor_view::contiguous(values.data(), *as_double.type, shape), as_double));
    for (const double each : values) sum += each;
  }
  return sum;
}

ps::result<double> open_files(const std::string& folder, const std::string& pattern) {
  const std::shared_ptr<ps::store> files = ps::open_file_store(folder);
  PENSTOCK_ASSIGN(std::vector<std::string> names, ps::find_shards(*files, pattern));
  PENSTOCK_ASSIGN(const ps::array run, ps::open_shards(files, std::move(names)));

  // Later opens, also of other processes, read the manifest and not one of the headers.
  PENSTOCK_ASSIGN(const std::vector<std::byte> manifest, ps::save_manifest(run, ".", ps::manifest_form::binary));
  const ps::part parts[] = {manifest};
  PENSTOCK_TRY(files->put("run.shards", parts, {}));
  PENSTOCK_ASSIGN(const ps::array again, ps::open_manifest(files, manifest));
  PENSTOCK_ASSIGN(const ps::array by_path, ps::open_array(folder + "/run.shards"));
  for (const ps::shard_file& each : ps::shard_files(by_path))
    std::printf("%s: %llu rows\n", each.key.c_str(), static_cast<unsigned long long>(each.length));

  // The same in one call: files of any format, by a pattern, a folder or a list of names.
  PENSTOCK_ASSIGN(const ps::array named, ps::open_shards(folder + "/" + pattern));

  PENSTOCK_ASSIGN(const double sum, sum_of(run, 4));
  for (const ps::array& other : {again, by_path, named}) {
    PENSTOCK_ASSIGN(const double same, sum_of(other, 7));
    if (same != sum) return ps::error(ps::errc::internal, "the files have other values");
  }
  return sum;
}

int main(int argc, char** argv) {
  const sample_array sample(0, nullptr);
  const std::string made = (std::filesystem::temp_directory_path() / "penstock_open_shards").string();
  const std::string folder = argc > 1 ? argv[1] : made;
  ps::result<> written;
  if (argc == 1) written = write_files(sample.path(), folder);
  const ps::result<double> sum =
      written.ok() ? open_files(folder, argc > 2 ? argv[2] : "*.npy") : ps::result<double>(std::move(written).error());
  std::filesystem::remove_all(made);
  if (!sum.ok()) {
    std::fprintf(stderr, "%s\n", sum.error().to_string().c_str());
    return 1;
  }
  std::printf("sum %.0f\n", *sum);
  constexpr double kCount = 600.0 * 800.0;
  return argc > 1 || *sum == kCount * (kCount - 1) / 2 ? 0 : 1;
}
