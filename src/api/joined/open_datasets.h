#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/datasets.h>
#include "driver/open_hdf5.h"

namespace penstock::inline v0 {

/// One of the HDF5 files whose datasets are joined.
struct dataset_file {
  std::shared_ptr<const store> from;
  std::string key;
  hdf5_hints hints = {};
  std::optional<std::uint32_t> crc32c = {};  ///< of all its bytes, for the manifest
};

/// Datasets that can be joined.
struct dataset_parts {
  struct part {
    std::size_t file = 0;
    std::string path;
    array opened;
  };
  std::string dataset;  ///< the datasets' name; that of the only dataset if none was given
  std::size_t axis = 0;
  std::vector<std::uint64_t> lengths;  ///< of the datasets along the axis
  std::optional<array> merged;         ///< all of them, as an array of references
  std::vector<part> parts;             ///< if no table of references can describe them; else empty
};

/// Finds, compares and merges datasets: open_datasets.
/// \error As open_datasets.
result<dataset_parts> merge_datasets(const std::vector<dataset_file>& files, const dataset_options& options);

}  // namespace penstock::inline v0
