#include "contract/driver_contract.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include <penstock/shards.h>
#include "driver/open_reference.h"
#include "extend/extensions.h"
#include "format/npy/npy_header.h"

namespace penstock::contract {
namespace {

bytes bytes_of(std::string_view text) {
  bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

bytes npy_file() {
  bytes out = bytes_of(write_npy_header("'<f4'", storage_order::c, {5, 7}));
  out.resize(out.size() + 5 * 7 * 4, std::byte{1});
  return out;
}

bytes read_file(const char* path) {  // tests run in the project's folder
  std::ifstream file(path, std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

bytes tiff_file() { return read_file("examples/scene.tif"); }
bytes hdf5_file() { return read_file("tests/data/fuzz/hdf5_file/old"); }
bytes new_hdf5_file() { return read_file("tests/data/fuzz/hdf5_file/tree"); }
bytes netcdf_file() { return read_file("tests/data/fuzz/netcdf_header/cdf1"); }

bytes kerchunk_file() {
  return bytes_of(
      R"({"version": 1, "refs": {
    ".zarray": "{\"zarr_format\": 2, \"shape\": [6], \"chunks\": [4], \"dtype\": \"|u1\", \"compressor\": null,)"
      R"( \"fill_value\": 0, \"order\": \"C\", \"filters\": null}", "0": "abcd", "1": "base64:ZWZnaA=="}})");
}

result<array> open_in_memory(const char* key, const bytes& content) {
  const std::shared_ptr<store> from = make_memory_store();
  const part whole(content);
  PENSTOCK_TRY(from->put(key, {&whole, 1}, {}));
  open_options how;
  how.path = key;
  return open_array(from, how);
}

bytes manifest_file() {
  const auto saved = save_manifest(open_in_memory("b.npy", npy_file()).value(), ".", manifest_form::binary);
  EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  return *saved;
}

bytes references_file() {
  const auto saved = save_references(open_in_memory("b.json", kerchunk_file()).value(), {.folder = ""});
  EXPECT_TRUE(saved.ok()) << saved.error().to_string();
  return *saved;
}

bytes pgm_file() {
  bytes out = bytes_of("P5\n7 5\n65535\n");
  out.resize(out.size() + 5 * 7 * 2, std::byte{1});
  return out;
}

const driver_case kCases[] = {
    {"npy", "a.npy", npy_file},
    {"tiff", "a.tif", tiff_file},
    {"reference", "a.json", kerchunk_file},
    {"hdf5", "a.h5", hdf5_file, {}, {}, "x"},
    {"hdf5", "a.nc", new_hdf5_file, {}, {}, "x"},
    {"netcdf", "a.nc", netcdf_file, {}, {}, "b"},
    {"manifest", "a.manifest", manifest_file, {}, {}, "", {{"b.npy", npy_file}}},
    {"references", "a.references", references_file},
    {"pgm", "a.pgm", pgm_file, pgm_format(), [](create_options&) {}},
};
INSTANTIATE_TEST_SUITE_P(Drivers, DriverContract, testing::ValuesIn(kCases),
                         [](const auto& each) { return fmt::format("{}_{}", each.param.name, each.index); });

}  // namespace
}  // namespace penstock::contract
