#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

/// The array that an example reads: the one named on the command line, or else a small one that is written into a
/// temporary folder and removed again. It is as plain as a Zarr v3 array can be: 600 x 800 float32 in chunks of
/// 200 x 400, uncompressed, element (r, c) = 800 r + c.
class sample_array {
 public:
  sample_array(int argc, char** argv) {
    if (argc > 1) {
      path_ = argv[1];
      return;
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-example-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    path_ = folder_ = std::move(pattern);
    std::ofstream(path_ + "/zarr.json") << R"({
      "zarr_format": 3, "node_type": "array", "shape": [600, 800], "data_type": "float32", "fill_value": 0,
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [200, 400]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
      "attributes": {"title": "a small example"}, "dimension_names": ["y", "x"]
    })";
    for (int i = 0; i < 3; ++i) {
      std::filesystem::create_directories(path_ + "/c/" + std::to_string(i));
      for (int j = 0; j < 2; ++j) write_chunk(i, j);
    }
  }
  ~sample_array() {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  sample_array(const sample_array&) = delete;
  sample_array& operator=(const sample_array&) = delete;

  const std::string& path() const { return path_; }

 private:
  void write_chunk(int i, int j) const {
    std::ofstream file(path_ + "/c/" + std::to_string(i) + "/" + std::to_string(j), std::ios::binary);
    for (int row = 200 * i; row < 200 * (i + 1); ++row) {
      for (int column = 400 * j; column < 400 * (j + 1); ++column) {
        const auto value = static_cast<float>(800 * row + column);
        file.write(reinterpret_cast<const char*>(&value), sizeof value);
      }
    }
  }

  std::string path_, folder_;
};
