#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include <penstock/open.h>
#include <penstock/shards.h>
#include <penstock/store.h>
#include "format/hdf5/hdf5_dimensions.h"
#include "format/hdf5/hdf5_typed_values.h"

namespace penstock::inline v0 {

/// The name of the format in arrays and groups.
inline constexpr std::string_view kHdf5Format = "hdf5";

/// Properties of a dataset or group in an HDF5 file that arrays and groups of other formats do not have.
struct hdf5_facts {
  std::vector<hdf5_typed_value> attributes;  ///< those whose types JSON cannot express
  json storage;                              ///< of a dataset: as in hdf5_array
  bool is_compound = false;                  ///< a group that represents a dataset of compounds
};

/// The members of a group in the order of the file.
struct hdf5_members {
  std::vector<std::string> shown;
  std::vector<std::string> stand_ins;  ///< netCDF's marks for dimensions without a variable
};

/// Known facts about a file and its store.
struct hdf5_hints {
  std::optional<std::uint64_t> size;  ///< size, for stores that do not report it
  /// A file of more than 4 MiB on a server that ignores ranges fails now, and not when values are read.
  bool needs_ranges = false;
};

/// Opens the dataset or group at `path` of the HDF5 file at `key` of a store, whatever the file's name is.
/// \error As the driver's: not_found, corrupt_data, unsupported, conflict.
result<node> open_hdf5(std::shared_ptr<const store> from, const std::string& key, std::string_view path,
                       const open_options& how, const hdf5_hints& hints = {});
/// The same for the file at a location whose first bytes may be known.
result<node> open_hdf5(location at, std::string_view path, const open_options& how, const hdf5_hints& hints);

/// Whether open_hdf5 failed with `unsupported` at an object that cannot be an array: elements of references or lists,
/// or no dataspace. Links into other files are not followed.
bool is_no_hdf5_array(const store& from, const std::string& key, std::string_view path);

/// Whether a group is in this file, rather than in another one that a link led to.
bool is_in_hdf5_file(const group_state& of, const store& from, const std::string& key);

struct referenced_array;  // driver/open_reference.h

/// A group of an HDF5 file and its datasets, which are described but not opened: for many files whose datasets become
/// one array.
struct hdf5_contents {
  struct dataset {
    std::string name;
    std::shared_ptr<const referenced_array> what;  ///< null: not readable
    std::optional<error> failed;
  };
  std::string attributes_json;  ///< of the group
  std::shared_ptr<const hdf5_facts> facts;
  std::vector<dataset> datasets;  ///< direct children, in the order of the file; without netCDF's marks
};

/// Reads all metadata of the group at `path` of an HDF5 file at once.
/// \param at  Its head is known and is that of an HDF5 file.
/// \error As open_hdf5, of the group; not_found also if `path` is a dataset.
result<hdf5_contents> describe_hdf5_group(const location& at, std::string_view path);

/// The datasets of an HDF5 file that match `pattern`: the one with that name, or all that match it as a shell pattern
/// (`run/shard_*`), in the order of the numbers in their names. They are described but not opened; their names are
/// paths. Links are followed into other files.
/// \error not_found  No dataset matches. \error invalid_argument  A group has that name; as find_shards, names are
/// missing in the sequence. \error As open_hdf5, of a dataset.
result<std::vector<hdf5_contents::dataset>> describe_hdf5_datasets(std::shared_ptr<const store> from,
                                                                   const std::string& key, const std::string& pattern,
                                                                   shard_gaps gaps, const open_options& how,
                                                                   const hdf5_hints& hints = {});

/// Paths of the datasets of an HDF5 file, the first `most`.
/// \error As open_hdf5, of a group.
result<std::vector<std::string>> hdf5_dataset_paths(std::shared_ptr<const store> from, const std::string& key,
                                                    std::size_t most, const open_options& how,
                                                    const hdf5_hints& hints = {});

/// Null if the node is not in an HDF5 file that the engine opened.
const hdf5_facts* hdf5_facts_of(const array_state& of) noexcept;
const hdf5_facts* hdf5_facts_of(const group_state& of) noexcept;

/// \error invalid_argument  The group is not in an HDF5 file. \error conflict  The file changed. \error As the
/// driver's.
result<hdf5_members> hdf5_members_of(const group_state& of);
/// Describes the whole file, by paths from its root.
/// \error As hdf5_members_of.
result<hdf5_dimension_names> hdf5_dimensions_of(const group_state& of);

}  // namespace penstock::inline v0
