#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// A selection of a dataspace: nothing, everything, listed boxes or points, or blocks at regular distances.
struct hdf5_selection {
  enum class kind : std::uint8_t { none, points, boxes, all, regular };

  /// One dimension of regular blocks.
  struct axis {
    std::uint64_t start = 0, stride = 1;
    std::uint64_t count = 1, block = 1;     ///< byte_range::kAll: without a limit
    std::uint64_t most = byte_range::kAll;  ///< limit of the selected positions; not stored in files
  };

  kind what = kind::all;
  std::size_t rank = 0;
  std::vector<axis> axes;  ///< regular: one for each dimension
  std::vector<std::uint64_t>
      corners;  ///< points: `rank` numbers each; boxes: first and last element, 2 * `rank` numbers each
};

/// A part of a virtual dataset that shows elements of another dataset.
struct hdf5_mapping {
  std::string file;     ///< ".": this file; `%b` stands for the number of the block
  std::string dataset;  ///< its path
  hdf5_selection from, to;
};

/// Parses the selection at the beginning of `from`.
/// \error corrupt_data  It is damaged. \error unsupported  An unknown version or selection.
result<hdf5_selection> parse_hdf5_selection(hdf5_file& file, std::span<const std::byte> from);

/// The mappings of a virtual dataset, in the file's order. Empty if the layout is of another kind, or has none.
///
/// Source: HDF5 File Format Specification 4.0, IV.A.2.i (virtual storage layout), VIII.A and VIII.B.
/// \error corrupt_data  They are damaged. \error unsupported  An unknown version or selection.
result<std::vector<hdf5_mapping>> read_hdf5_mappings(hdf5_file& file, const hdf5_layout& layout);

}  // namespace penstock::inline v0
