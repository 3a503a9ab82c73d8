// Writes an image and its coarser levels in one pass, row by row, as OME-Zarr. Then reads one level of it.
//
//   write_levels [PATH]

#include <penstock/penstock.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;

constexpr std::uint64_t kHeight = 1000, kWidth = 1500;
constexpr unsigned kLevels = 3;

ps::result<> run(const std::string& path) {
  PENSTOCK_ASSIGN(const ps::group image, ps::create_group(ps::open_file_store(path), {}));
  std::vector<std::pair<std::string, ps::array>> levels;
  for (unsigned number = 0; number < kLevels; ++number) {
    ps::create_options what;
    what.shape = ps::level_shape({kHeight, kWidth}, number);
    what.shape[0] = 0;  // rows are appended
    PENSTOCK_ASSIGN(what.type, ps::dtype::from_name("uint16"));
    what.chunks = ps::extents{256, 256};
    what.dimension_names = {"y", "x"};
    const std::string name = std::to_string(number);
    what.path = name;
    PENSTOCK_ASSIGN(ps::array level, ps::create_array(image, what));
    levels.emplace_back(name, std::move(level));
  }

  ps::level_options how;
  how.rule = ps::level_rule::mean;
  how.name = "slopes";
  const ps::dtype type = levels[0].second.type();
  PENSTOCK_ASSIGN(ps::level_appender rows, ps::level_appender::make(image, std::move(levels), how));
  std::vector<std::uint16_t> row(kWidth);
  for (std::uint64_t y = 0; y < kHeight; ++y) {
    for (std::uint64_t x = 0; x < kWidth; ++x) row[x] = static_cast<std::uint16_t>(x + y);
    PENSTOCK_TRY(rows.append(ps::tensor_view::contiguous(reinterpret_cast<std::byte*>(row.data()), type, {1, kWidth})));
  }
  // Stores what is left, and names the levels in the group's attributes.
  PENSTOCK_ASSIGN(const ps::group written, rows.close());

  PENSTOCK_ASSIGN(const std::vector<ps::group_level> named, ps::levels_of(written));
  for (const ps::group_level& each : named) {
    PENSTOCK_ASSIGN(const ps::array level, ps::open_array(path + "/" + each.path));
    std::printf("level %s has the shape %s, and pixels of %g x %g\n", each.path.c_str(),
                ps::to_string(level.shape()).c_str(), each.scale[0], each.scale[1]);
  }
  return {};
}

int main(int argc, char** argv) {
  const std::filesystem::path scratch = std::filesystem::temp_directory_path() / "penstock_write_levels.zarr";
  if (argc < 2) std::filesystem::remove_all(scratch);
  const ps::result<> done = run(argc > 1 ? argv[1] : scratch.string());
  if (argc < 2) std::filesystem::remove_all(scratch);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
