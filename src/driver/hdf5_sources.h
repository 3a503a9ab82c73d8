#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include <penstock/store.h>
#include "driver/open_reference.h"
#include "format/hdf5/hdf5_array.h"

namespace penstock::inline v0 {

/// A file in a store.
struct hdf5_file_place {
  std::shared_ptr<const store> from;
  std::string key;
  std::string path;  ///< of a file of this machine; else empty
};

/// What an HDF5 file names another file for. libhdf5 has a variable of the environment for each, with the folders that
/// are looked into first (separated by ':'; `${ORIGIN}` is the folder of the file that names them).
enum class hdf5_purpose : std::uint8_t {
  source,  ///< of a virtual dataset: HDF5_VDS_PREFIX
  link,    ///< HDF5_EXT_PREFIX
  values,  ///< of a dataset: HDF5_EXTFILE_PREFIX
};

/// Finds the files that an HDF5 file names. Names are relative to the folder of the file; of a file of this machine
/// they may also be absolute, or relative to the working directory. A file elsewhere names files of its own store only.
class hdf5_neighbours {
 public:
  explicit hdf5_neighbours(hdf5_file_place of) : of_(std::move(of)) {}

  bool is_local() const noexcept { return !of_.path.empty(); }
  /// Whether the store has other files, so that one that is not there is known not to exist. Bytes and file objects
  /// are stores of one file.
  bool knows_others() const;

  /// Where a file of this name is; nullopt: of this machine, and not there. Others may not be there.
  /// \error unsupported  A file elsewhere names a file of this machine, or one outside of its store.
  result<std::optional<hdf5_file_place>> find(const std::string& name, hdf5_purpose why) const;
  /// The same of a dataset's external files, whose names libhdf5 takes as relative to the working directory first.
  /// Of this machine, it need not be there.
  result<hdf5_file_place> find_external(const std::string& name) const;

 private:
  result<hdf5_file_place> in_store(const std::string& name) const;
  static result<hdf5_file_place> of_path(const std::string& path);

  hdf5_file_place of_;
};

/// How far virtual datasets that show others have led. Shared by all threads of one operation.
struct hdf5_depth {
  std::shared_ptr<std::atomic<std::uint64_t>> sources = std::make_shared<std::atomic<std::uint64_t>>(0);
  unsigned level = 0;

  /// \error unsupported  Too deep, or too many: they may show each other.
  result<hdf5_depth> deeper(std::uint64_t count) const;
};

/// Describes datasets at these paths of a file: null for one that is not there or is not a dataset; none of them if
/// there is no such file.
using describe_hdf5_sources = std::function<result<std::vector<std::shared_ptr<const referenced_array>>>(
    const hdf5_file_place& file, const std::vector<std::string>& paths, const hdf5_depth& depth)>;

/// A virtual dataset as an array of references to the chunks of its sources. Sources that are not there are the fill
/// value, as in libhdf5.
/// \param like      The array but for its chunks, with the `.zarray` of `parts`' shape.
/// \param inner     Dimensions of its elements, behind those of the dataset.
/// \param self      The file that it is in. \param describe  Reads sources.
/// \error unsupported, corrupt_data  As match_hdf5_selections, compose_references, and of sources, by name.
/// Source: HDF5 Reference Manual, H5Pset_virtual, H5Pset_virtual_view (H5D_VDS_LAST_AVAILABLE), and
/// H5Pset_virtual_printf_gap (0).
result<referenced_array> compose_virtual(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner,
                                         const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                         const describe_hdf5_sources& describe);

/// The values of a virtual dataset, and the shape that its sources give it.
struct hdf5_virtual_text {
  extents shape;
  std::vector<std::string> values;  ///< in C order
};

/// Reads a virtual dataset of text or lists of variable length: these have no chunks to refer to.
/// \param like  As of compose_virtual; what it says of elements is not used. \param fill  Of elements without a source.
/// \param item  Of lists: the type of their items, as a .zarray has it. Null: text.
/// \error As compose_virtual's; unsupported  More than 2^22 elements or 2^28 bytes; a source of another type, by name.
result<hdf5_virtual_text> read_virtual_text(referenced_array like, hdf5_array::virtual_parts parts,
                                            const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                            const describe_hdf5_sources& describe, const std::string& fill,
                                            const json& item);

}  // namespace penstock::inline v0
