#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include <penstock/store.h>
#include "driver/compose_references.h"
#include "driver/open_reference.h"
#include "format/hdf5/hdf5_array.h"

namespace penstock::inline v0 {

/// A file in a store.
struct hdf5_file_place {
  std::shared_ptr<const store> from;
  std::string key;
  std::string path;  ///< the path of a local file; else empty
};

/// The kinds of files that an HDF5 file names. For each, libhdf5 has an environment variable with the folders that are
/// searched first (separated by ':'; `${ORIGIN}` is the folder of the file that names them).
enum class hdf5_purpose : std::uint8_t {
  source,  ///< of a virtual dataset: HDF5_VDS_PREFIX
  link,    ///< HDF5_EXT_PREFIX
  values,  ///< of a dataset: HDF5_EXTFILE_PREFIX
};

/// Finds the files that an HDF5 file names. Names are relative to the folder of the file; names in a local file may
/// also be absolute, or relative to the working directory. A file in another store may name only files of that store.
class hdf5_neighbours {
 public:
  explicit hdf5_neighbours(hdf5_file_place of) : of_(std::move(of)) {}

  bool is_local() const noexcept { return !of_.path.empty(); }
  /// Whether the store may have other files, so that a file that is not found is known not to exist. Bytes and file
  /// objects are stores of one file.
  bool knows_others() const;

  /// The location of the file with this name; nullopt: it is local and does not exist. Remote files may not exist.
  /// \error unsupported  A remote file names a local file, or one outside of its store.
  result<std::optional<hdf5_file_place>> find(const std::string& name, hdf5_purpose why) const;
  /// The same for a dataset's external files, whose names libhdf5 first takes as relative to the working directory.
  /// A local file need not exist.
  result<hdf5_file_place> find_external(const std::string& name) const;

 private:
  result<hdf5_file_place> in_store(const std::string& name) const;
  static result<hdf5_file_place> of_path(const std::string& path);

  hdf5_file_place of_;
};

/// The sources that one operation has described: datasets that several others show are described once. Thread-safe.
class hdf5_known_sources {
 public:
  using source = std::shared_ptr<const referenced_array>;  // null: it does not exist, or is not a dataset

  std::optional<source> find(const hdf5_file_place& file, const std::string& path) const;
  void add(const hdf5_file_place& file, const std::string& path, source found);

 private:
  using name = std::tuple<const store*, std::string, std::string>;
  static name name_of(const hdf5_file_place& file, const std::string& path);

  mutable std::mutex mutex_;
  std::map<name, source> known_;
};

/// Counts the virtual datasets that show each other. Shared by all threads of one operation.
struct hdf5_depth {
  std::shared_ptr<hdf5_known_sources> known = std::make_shared<hdf5_known_sources>();
  std::shared_ptr<std::atomic<std::uint64_t>> sources = std::make_shared<std::atomic<std::uint64_t>>(0);
  unsigned level = 0;

  /// \error unsupported  Too deep or too many: they may refer to each other in a loop.
  result<hdf5_depth> deeper(std::uint64_t count) const;
};

/// Describes datasets at these paths of a file: null for one that does not exist or is not a dataset; empty if the file
/// does not exist.
using describe_hdf5_sources = std::function<result<std::vector<std::shared_ptr<const referenced_array>>>(
    const hdf5_file_place& file, const std::vector<std::string>& paths, const hdf5_depth& depth)>;

/// A virtual dataset as an array of references to the chunks of its sources. Sources that do not exist are the fill
/// value, as in libhdf5.
/// \param like      The array except for its chunks, with the `.zarray` of `parts`' shape.
/// \param inner     Dimensions of its elements, after those of the dataset.
/// \param self      The file that it is in. \param describe  Reads sources.
/// \error unsupported, corrupt_data  As match_hdf5_selections, compose_references, and of sources, by name.
/// Source: HDF5 Reference Manual, H5Pset_virtual, H5Pset_virtual_view (H5D_VDS_LAST_AVAILABLE), and
/// H5Pset_virtual_printf_gap (0).
result<referenced_array> compose_virtual(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner,
                                         const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                         const describe_hdf5_sources& describe);

/// The parts that a virtual dataset shows, and the shape that its sources define.
struct hdf5_shown_parts {
  extents shape;
  std::vector<shown_part> parts;
};

/// Finds the parts that a virtual dataset of text or lists of variable length shows. These have no chunks to refer to.
/// \param like  As in compose_virtual; its element type is not used.
/// \error As compose_virtual's.
result<hdf5_shown_parts> find_shown_parts(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner,
                                          const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                          const describe_hdf5_sources& describe);

}  // namespace penstock::inline v0
