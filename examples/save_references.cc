// Saves the manifest of an array of references, and opens it: later opens read one file, however many it names.

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

/// References to the chunks of the sample, in the form of kerchunk.
void write_references(const std::string& array, const std::string& path) {
  std::ofstream out(path);
  out << R"({"version": 1, "refs": {".zgroup": "{\"zarr_format\": 2}", "x/.zarray": )"
      << R"("{\"zarr_format\": 2, \"shape\": [600, 800], \"chunks\": [200, 400], \"dtype\": \"<f4\", )"
      << R"(\"compressor\": null, \"filters\": null, \"fill_value\": 0, \"order\": \"C\"}")";
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      out << ", \"x/" << i << '.' << j << "\": [\"" << array << "/c/" << i << '/' << j << "\"]";
  out << "}}";
}

ps::result<float> save_and_open(const std::string& folder) {
  PENSTOCK_ASSIGN(const ps::group run, ps::open_group(folder + "/run.json"));
  ps::manifest_options options;
  options.folder = folder;
  PENSTOCK_ASSIGN(const std::vector<std::byte> manifest, ps::save_references(run, options));
  const ps::part parts[] = {manifest};
  PENSTOCK_TRY(ps::open_file_store(folder)->put("run.manifest", parts, {}));

  PENSTOCK_ASSIGN(const ps::array x, ps::open_array(folder + "/run.manifest/x"));
  ps::basic_selection last;
  last.items = {ps::slice{599, 600, {}}, ps::slice{799, 800, {}}};
  float value = 0;
  PENSTOCK_TRY(x.read(last, ps::tensor_view::contiguous(&value, x.type(), {1, 1})));
  return value;
}

int main() {
  const sample_array sample(0, nullptr);
  write_references(sample.path(), sample.path() + "/run.json");
  const auto value = save_and_open(sample.path());
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.error().to_string().c_str());
    return 1;
  }
  std::printf("last element %.0f\n", static_cast<double>(*value));
  return *value == 600 * 800 - 1 ? 0 : 1;
}
