#include "contract/driver_contract.h"

#include <cstring>
#include <fstream>
#include <iterator>

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

bytes tiff_file() {  // tests run in the project's folder
  std::ifstream file("examples/scene.tif", std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

bytes kerchunk_file() {
  return bytes_of(
      R"({"version": 1, "refs": {
    ".zarray": "{\"zarr_format\": 2, \"shape\": [6], \"chunks\": [4], \"dtype\": \"|u1\", \"compressor\": null,)"
      R"( \"fill_value\": 0, \"order\": \"C\", \"filters\": null}", "0": "abcd", "1": "base64:ZWZnaA=="}})");
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
    {"pgm", "a.pgm", pgm_file, pgm_format(), [](create_options&) {}},
};
INSTANTIATE_TEST_SUITE_P(Drivers, DriverContract, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::contract
