#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// In which order files are joined.
enum class virtual_order : std::uint8_t {
  given,      ///< as named; a coordinate whose values go up and then down, or the reverse, is an error
  values,     ///< by the first value of the coordinate; files whose values overlap are an error
  unchecked,  ///< as named, whatever the values of the coordinate are
};

/// What open_virtual does with variables that a file lacks.
enum class virtual_missing : std::uint8_t { refuse, fill };

/// Which attributes of a variable must be the same in all files.
enum class virtual_attributes : std::uint8_t {
  meaning,  ///< those by which the same stored value means another: scale_factor, add_offset, _FillValue,
            ///< missing_value, _Unsigned, units, calendar, valid_min, valid_max, valid_range, flag_values, flag_masks,
            ///< flag_meanings
  all,
};

struct virtual_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::string concat;                          ///< name of the dimension that the files follow each other along
  std::string path;                            ///< of the group in each file; empty: the root
  virtual_order order = virtual_order::given;
  virtual_missing missing = virtual_missing::refuse;
  virtual_attributes attributes = virtual_attributes::meaning;
  bool compare_values = false;            ///< variables without `concat` must have the same values in all files
  std::vector<std::string> variables;     ///< only these; empty: all
  std::vector<std::string> without = {};  ///< not these
};

/// Opens many files as one read-only group: each variable that has the dimension `concat` is one array of the arrays of
/// all files; other variables are those of the first file.
///
/// Files are of any format that `open` reads: a group (HDF5, NetCDF, Zarr, references), or one array, which is the
/// variable `data`. Their metadata are read once, in parallel on the context's threads, and no values but those of the
/// coordinate, the one-dimensional variable of the name `concat`, which is kept in memory. Files may have different
/// lengths along `concat`. Times of the coordinate that count from another date are converted to the units of the first
/// file; what counts as it does (its bounds) refuses that. Dimensions have names in NetCDF, in Zarr, and in HDF5 with
/// dimension scales. Members are arrays of references where files are stored alike: these can be saved. Others are
/// joined as `join` does.
/// \param keys  Of `from`, each once.
/// \error invalid_argument  Variables that differ in dtype, dimensions, shape, fill value or attributes that change
///                          what values mean; a variable that a file lacks; values of the coordinate that are not in
///                          order. The message names the variable and two files. No variable has the dimension.
/// \error As `open`'s, of a file. \error conflict  By a read: a file changed since it was opened.
PENSTOCK_API result<group> open_virtual(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                        const virtual_options& options);
/// The same of paths and URIs, of any stores.
PENSTOCK_API result<group> open_virtual(std::span<const std::string> files, const virtual_options& options);
/// The same of a pattern (`run/*.nc`, `s3://bucket/run/*.nc`), whose files are in the order of the numbers in their
/// names. \error not_found  None matches.
PENSTOCK_API result<group> open_virtual(std::string_view pattern, const virtual_options& options);

}  // namespace penstock::inline v0
