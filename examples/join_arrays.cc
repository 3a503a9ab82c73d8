// Joins two arrays along their first dimension, reads the rows where they meet, and saves their manifest.

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<std::vector<float>> read_rows(const std::string& first, const std::string& second) {
  std::vector<ps::array> parts;
  for (const std::string& path : {first, second}) {
    PENSTOCK_ASSIGN(ps::array part, ps::open_array(path));
    parts.push_back(std::move(part));
  }
  PENSTOCK_ASSIGN(const ps::array joined, ps::join(parts, 0));
  const std::int64_t seam = static_cast<std::int64_t>(parts[0].shape()[0]);
  ps::basic_selection which;  // [seam - 1:seam + 1]
  which.items = {ps::slice{seam - 1, seam + 1, {}}};
  PENSTOCK_ASSIGN(const ps::extents shape, joined.result_shape(which));
  PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(shape));
  std::vector<float> values(count);
  PENSTOCK_TRY(joined.read(which, ps::tensor_view::contiguous(values.data(), joined.type(), shape)));
  return values;
}

// Later opens read the manifest and need no list of arrays.
ps::result<ps::array> open_again(const std::vector<std::string>& paths, const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const std::vector<ps::array> parts, ps::open_arrays(paths));
  PENSTOCK_ASSIGN(const std::vector<std::byte> manifest, ps::save_manifest(parts, 0, path.parent_path().string()));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(manifest.data()), static_cast<std::streamsize>(manifest.size()));
  return ps::open_array(path.string());
}

int main() {
  const sample_array one(0, nullptr), two(0, nullptr);
  const auto values = read_rows(one.path(), two.path());
  if (!values.ok()) {
    std::fprintf(stderr, "%s\n", values.error().to_string().c_str());
    return 1;
  }
  const std::filesystem::path manifest = one.path() + ".manifest";
  const auto again = open_again({one.path(), two.path()}, manifest);
  std::filesystem::remove(manifest);
  if (!again.ok()) {
    std::fprintf(stderr, "%s\n", again.error().to_string().c_str());
    return 1;
  }
  const bool right =
      values->size() == 1600 && values->front() == 599 * 800 && values->at(800) == 0 && again->shape()[0] == 1200;
  std::printf("%zu values around the seam\n", values->size());
  return right ? 0 : 1;
}
