#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/shards.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// The description of raw files, as far as the caller gives it. JSON files next to the raw files contain the rest.
struct raw_description {
  std::string dtype;             ///< as in `raw_options`; empty: the JSON files have it
  std::optional<extents> shape;  ///< as in `raw_options`
  std::optional<extents> row_shape;
  std::optional<std::uint64_t> offset;  ///< nullopt: the value of the JSON files, if they have the dtype; otherwise 0
  std::optional<bool> fortran_order;    ///< nullopt: likewise; otherwise false
};

/// How files are found, and opened as one array.
struct shard_files_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  remote_options remote;                       ///< how `http:`, `https:`, `s3:` and `gs:` URIs are reached
  /// `npy`, `raw`, `hdf5`, `zarr`, `tiff`; empty: that of the first file. A folder is searched for files of it alone.
  std::string format;
  shard_gaps gaps = shard_gaps::refuse;  ///< gaps in numbered names, as of `find_shards` of a store
  std::int64_t axis = 0;                 ///< axis along which the files are joined; negative: counted from the end
  raw_description raw;                   ///< for raw files
  /// The name of the array within each file: a dataset of HDF5 files, or a shell pattern that may match several; a
  /// member of `.npz` files and groups. Empty: the only one.
  std::string path;
  std::optional<bool> allow_local;  ///< for references and manifests: as in `open_options`
};

/// Files that were found, in their order.
struct found_shards {
  std::shared_ptr<store> from;
  std::vector<std::string> keys;  ///< keys in `from`; not empty
  std::string folder;             ///< the folder above all files, as the caller named it: `run`, `.`, `s3://bucket/run`
  std::string below;              ///< the path of `folder` in `from`

  /// The name of a file, in the form for `open`: `run/x_0.npy`.
  std::string name(std::size_t which) const;
};

/// True if a name is a pattern: it has one of `*`, `?` and `[`.
PENSTOCK_API bool is_shard_pattern(std::string_view name) noexcept;

/// Finds the files that a caller names: a shell pattern (`run/shard_*.npy`), a folder, or one file; on this machine or
/// at a URI.
///
/// Names from a pattern are ordered as by `find_shards` of a store. A folder is a pattern of its files' ending, in any
/// case of letters. The files must have one ending, that of a known format; other files are ignored.
/// \error not_found         No file matches, or a folder has no files of a known format.
/// \error invalid_argument  A folder has files of several formats. Numbers of names are missing, or given twice.
PENSTOCK_API result<found_shards> find_shards(std::string_view files, const shard_files_options& options = {});

/// The same for a list of names, which keeps its order. The files need not exist.
/// \error invalid_argument  The list is empty, or has a name twice; the first five are named.
/// \error unsupported  The names are in several places; all must be on this machine, or on one server or in one bucket.
PENSTOCK_API result<found_shards> find_shards(std::span<const std::string> files,
                                              const shard_files_options& options = {});

/// The format of found files: `npy`, `raw`, `hdf5` or `parquet` (also Arrow), which are joined in a special way;
/// `other` for files that `open` opens one by one.
///
/// Files that end with `.npy`, `.raw`, `.bin` and `.dat` have these formats. Other formats are determined by the first
/// bytes of the first file, if it is on this machine, and by the endings of all files at URIs.
/// \param with  For the drivers that were added to it.
PENSTOCK_API result<std::string> shard_format(const found_shards& of, const penstock::context& with);

/// The options for raw files: the caller's, completed from JSON files next to the raw files.
///
/// Without a dtype from the caller, a file `x.raw` is described by the object in `x.raw.json`, `x.json`, or
/// `_meta.json` in its folder, the first of them that exists. Members: `dtype` (NumPy's type string or name, or a list
/// of fields), `offset` (bytes, 0), `order` (`C` or `F`), `row_shape` or `trailing_shape`, and `rows`: a number, or in
/// an object the number of each file by its name. `shape` takes the place of the last three. All files must agree in
/// all but `rows`.
/// \param axis  As in `shard_options`.
/// \error invalid_argument  A file is not described; a document is not JSON, or a member has a wrong value; files that
/// do not agree: the first five are named.
/// \error unsupported       Items of no bytes.
PENSTOCK_API result<raw_options> describe_raw_shards(const found_shards& of, std::int64_t axis,
                                                     const raw_description& given,
                                                     std::shared_ptr<penstock::context> with = nullptr);

/// Finds files, and opens them as one array, one after the other along an axis.
///
/// `.npy` and raw files are opened as by `open_shards` of a store, datasets of HDF5 files as by `open_datasets`
/// (<penstock/datasets.h>), files of other formats as by `open_array` and `join` (<penstock/joined.h>). One file that
/// is a manifest is opened as its array.
/// \param files  As `find_shards` takes it.
/// \error unsupported       Parquet and Arrow files, which the Python package opens.
/// \error invalid_argument  Files that cannot be joined: the first five are named. \error As the functions above.
PENSTOCK_API result<array> open_shards(std::string_view files, const shard_files_options& options = {});
/// The same for a list of names.
PENSTOCK_API result<array> open_shards(std::span<const std::string> files, const shard_files_options& options = {});

}  // namespace penstock::inline v0
