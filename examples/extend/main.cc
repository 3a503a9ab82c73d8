// Uses the three extensions as any other format, codec and store.
//
//   extensions FOLDER      writes and reads images in FOLDER, which must exist

#include <penstock/penstock.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "extensions.h"

namespace ps = penstock;

ps::result<> run(const std::string& folder) {
  ps::context_options with;
  with.codecs = {run_length_codecs()};
  with.drivers = {pgm_format()};
  with.schemes = {toy_scheme()};
  PENSTOCK_ASSIGN(const auto context, ps::context::make(with));
  const ps::dtype uint16(ps::dtype_kind::unsigned_integer, 16);

  // A Zarr array in a store of the scheme `toy:`, encoded by `run_length`.
  PENSTOCK_ASSIGN(const ps::place to, ps::find_place("toy:memory/steps.zarr", {context, {}}));
  ps::create_options options;
  options.context = context;
  options.path = to.path;
  options.shape = {1000, 700};
  options.chunks = ps::extents{64, 64};
  options.type = uint16;
  options.codecs_json = R"(["bytes", "run_length"])";
  PENSTOCK_ASSIGN(const ps::array steps, ps::create_array(to.store, options));
  std::vector<std::uint16_t> values(1000 * 700);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i / 1234);
  PENSTOCK_TRY(steps.write(ps::basic_selection(), ps::tensor_view::contiguous(values.data(), uint16, {1000, 700})));
  ps::open_options opening;
  opening.context = context;
  PENSTOCK_ASSIGN(const ps::array again, ps::open_array("toy:memory/steps.zarr", opening));
  std::vector<std::uint16_t> read(values.size());
  PENSTOCK_TRY(again.read(ps::tensor_view::contiguous(read.data(), uint16, {1000, 700})));
  if (read != values) return ps::error(ps::errc::internal, "the Zarr array reads other values than were written");
  std::printf("%s %s: %s\n", again.uri().c_str(), again.codecs_text().c_str(), ps::to_string(again.shape()).c_str());

  // An image: created, written, opened again, and written in part.
  const std::string image = folder + "/steps.pgm";
  ps::create_options of_image;
  of_image.context = context;
  of_image.shape = {1000, 700};
  of_image.type = uint16;
  PENSTOCK_ASSIGN(const ps::array pgm, ps::create_array(image, of_image));
  PENSTOCK_TRY(pgm.write(ps::basic_selection(), ps::tensor_view::contiguous(values.data(), uint16, {1000, 700})));
  std::vector<std::uint16_t> corner(20, 65535);
  const ps::basic_selection part{{ps::slice{3, 7, {}}, ps::slice{-5, {}, {}}}};
  PENSTOCK_TRY(pgm.write(part, ps::tensor_view::contiguous(corner.data(), uint16, {4, 5})));
  for (std::size_t y = 3; y < 7; ++y) std::fill_n(&values[y * 700 + 695], 5, std::uint16_t{65535});
  PENSTOCK_ASSIGN(const ps::array opened, ps::open_array(image, opening));
  PENSTOCK_TRY(opened.read(ps::tensor_view::contiguous(read.data(), uint16, {1000, 700})));
  if (read != values) return ps::error(ps::errc::internal, "the image reads other values than were written");
  std::printf("%s %s: %s\n", image.c_str(), opened.format().c_str(), ps::to_string(opened.shape()).c_str());

  // From one to the other.
  PENSTOCK_ASSIGN(const ps::place copied, ps::find_place("toy:memory/copy.zarr", {context, {}}));
  ps::copy_options how;
  how.codecs_json = R"(["run_length"])";
  PENSTOCK_TRY(ps::copy(ps::node(opened), copied, how));
  PENSTOCK_ASSIGN(const ps::array copy, ps::open_array("toy:memory/copy.zarr", opening));
  PENSTOCK_TRY(copy.read(ps::tensor_view::contiguous(read.data(), uint16, {1000, 700})));
  if (read != values) return ps::error(ps::errc::internal, "the copy has other values than the image");
  return {};
}

int main(int argc, char** argv) {
  const auto done = run(argc > 1 ? argv[1] : ".");
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
