// Writes a GeoTIFF with overviews in memory, then reads a rectangle on the ground of it on a coarse grid.

#include <penstock/penstock.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

namespace ps = penstock;

constexpr std::uint64_t side = 1024;

ps::result<> write_scene(const std::shared_ptr<ps::store>& to) {
  ps::tiff_create_options options;
  options.tile_height = options.tile_width = 256;
  options.nodata = std::int64_t{0};
  options.meaning.transform = ps::affine_transform{10, 0, 500000, 0, -10, 4600000};
  PENSTOCK_ASSIGN(const ps::coordinate_system system, ps::epsg_system(32633));
  PENSTOCK_ASSIGN(options.meaning.geo_keys, ps::geo_keys_of(system));
  ps::create_options image;
  image.path = "scene.tif";
  image.shape = {1, side, side};
  image.type = ps::dtype(ps::dtype_kind::unsigned_integer, 16);
  image.tiff = std::make_shared<const ps::tiff_create_options>(options);
  PENSTOCK_ASSIGN(const std::unique_ptr<ps::array_writer> writer, ps::begin_array(to, image));
  std::vector<std::uint16_t> values(side * side);
  std::iota(values.begin(), values.end(), std::uint16_t{1});
  const ps::tensor_view all = ps::tensor_view::contiguous(values.data(), image.type, image.shape);
  PENSTOCK_TRY(writer->write(ps::extents{0, 0, 0}, all));
  return writer->close();
}

ps::result<std::vector<std::uint16_t>> read_coarse(const ps::array& a) {
  ps::window_options options;
  options.bounds = ps::ground_bounds{500000, 4595000, 505000, 4600000};
  options.size = ps::image_size{64, 64};
  options.how = ps::resampling::average;
  PENSTOCK_ASSIGN(const ps::window_reader window, ps::window_reader::make(a, options));
  PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(window.shape()));
  std::vector<std::uint16_t> values(count);
  PENSTOCK_TRY(window.read(ps::tensor_view::contiguous(values.data(), a.type(), window.shape())));
  return values;
}

ps::result<> run() {
  const auto store = ps::make_memory_store();
  PENSTOCK_TRY(write_scene(store));
  ps::open_options options;
  options.path = "scene.tif";
  PENSTOCK_ASSIGN(const ps::array a, ps::open_tiff(store, options, {}));
  PENSTOCK_ASSIGN(const auto values, read_coarse(a));
  std::printf("%zu pixels, the first is %u\n", values.size(), static_cast<unsigned>(values.front()));
  return {};
}

int main() {
  const ps::result<> done = run();
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
