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

/// The order in which files are joined.
enum class virtual_order : std::uint8_t {
  given,      ///< as given; a coordinate whose values increase and then decrease, or the reverse, is an error
  values,     ///< by the first value of the coordinate; files whose values overlap are an error
  unchecked,  ///< as given, without a check of the coordinate's values
};

/// How open_virtual treats variables that a file does not have.
enum class virtual_missing : std::uint8_t { refuse, fill };

/// Which attributes of a variable must be the same in all files.
enum class virtual_attributes : std::uint8_t {
  meaning,  ///< those that change the meaning of a stored value: scale_factor, add_offset, _FillValue,
            ///< missing_value, _Unsigned, units, calendar, valid_min, valid_max, valid_range, flag_values, flag_masks,
            ///< flag_meanings
  all,
};

struct virtual_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::string concat;                          ///< name of the dimension along which the files follow each other
  std::string path;                            ///< path of the group in each file; empty: the root
  virtual_order order = virtual_order::given;
  virtual_missing missing = virtual_missing::refuse;
  virtual_attributes attributes = virtual_attributes::meaning;
  bool compare_values = false;            ///< variables without `concat` must have the same values in all files
  std::vector<std::string> variables;     ///< only these variables; empty: all
  std::vector<std::string> without = {};  ///< not these variables
};

/// Opens many files as one read-only group: each variable that has the dimension `concat` is joined from all files;
/// other variables are taken from the first file.
///
/// Files are of any format that `open` reads: a group (HDF5, NetCDF, Zarr, references), or one array, which is the
/// variable `data`. Their metadata are read once, in parallel on the context's threads. The only values that are read
/// are those of the coordinate, the one-dimensional variable named `concat`, which is kept in memory. Files may have
/// different lengths along `concat`. Times of the coordinate with another reference date are converted to the units of
/// the first file. Other variables with such units (its bounds) are refused. Dimensions have names in NetCDF, in Zarr,
/// and in HDF5 with dimension scales. Members are arrays of references if all files store them in the same way; these
/// can be saved. Others are joined as by `join`.
/// \param keys  Keys in `from`, each once.
/// \error invalid_argument  Variables that differ in dtype, dimensions, shape, fill value or attributes that change the
/// meaning of values; a variable that a file does not have; values of the coordinate that are not in order; no variable
/// has the dimension. The message names the variable and two files.
/// \error As `open`'s, for a file. \error conflict  In a read: a file changed since it was opened.
PENSTOCK_API result<group> open_virtual(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                        const virtual_options& options);
/// The same for paths and URIs in any stores.
PENSTOCK_API result<group> open_virtual(std::span<const std::string> files, const virtual_options& options);
/// The same for a pattern (`run/*.nc`, `s3://bucket/run/*.nc`), whose files are in the order of the numbers in their
/// names. \error not_found  No file matches.
PENSTOCK_API result<group> open_virtual(std::string_view pattern, const virtual_options& options);

}  // namespace penstock::inline v0
