#include "driver/shard_endings.h"

#include <algorithm>
#include <vector>

#include "driver/drivers.h"

namespace penstock::inline v0 {

std::span<const shard_ending> shard_endings() noexcept {
  static const std::vector<shard_ending> kEndings = [] {
    std::vector<shard_ending> out;
    const auto add = [&](std::string_view format, std::span<const std::string_view> endings) {
      for (const std::string_view each : endings) out.push_back({each, format});
    };
    add("npy", npy_driver().endings());
    for (const std::string_view each : {"raw", "bin", "dat"}) out.push_back({each, "raw"});
    add("hdf5", hdf5_driver().endings());
    out.push_back({"npz", "npz"});
    out.push_back({"zarr", "zarr"});
    add("tiff", tiff_driver().endings());
    for (const std::string_view each : table_driver().endings())
      out.push_back({each, each.starts_with("parq") ? "parquet" : "arrow"});
    return out;
  }();
  return kEndings;
}

std::string lower_ending(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  name.remove_prefix(std::min(name.find_first_not_of('.'), name.size()));  // `.npy` is a hidden file's name
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string out(name.substr(dot + 1));
  for (char& each : out)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return out;
}

std::string_view format_of_ending(std::string_view ending) noexcept {
  for (const shard_ending& each : shard_endings())
    if (each.ending == ending) return each.format;
  return {};
}

}  // namespace penstock::inline v0
