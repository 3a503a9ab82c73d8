#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/create.h>
#include <penstock/result.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// The name of a manifest in the folder of its shards.
inline constexpr std::string_view kShardManifest = "penstock.shards";

/// File names that contain the number of a shard.
class PENSTOCK_API shard_pattern {
 public:
  /// \param text  A path with one `{}`, which may have a width: `run/part_{:05d}.npy`. `{{` is a brace. A URI of a
  ///              local file is a path.
  /// \error invalid_argument  It does not have exactly one `{}`. \error unsupported  It is the URI of a store that is
  /// not local.
  static result<shard_pattern> parse(std::string_view text);

  /// The name of the file with that number, padded to the width of the pattern.
  std::string path(std::uint64_t number) const;
  /// The folder that all names are in; empty: the current one.
  std::string folder() const;
  /// `.npy`: the ending of the names, in lower case.
  std::string suffix() const;
  const std::string& text() const noexcept { return text_; }
  /// The existing files with numbers from `count` on, sorted.
  /// \error  The system's, if a folder cannot be listed.
  result<std::vector<std::string>> left_over(std::uint64_t count) const;

 private:
  std::string text_;
  std::string before_, after_;  // the number, without escapes
  std::size_t width_ = 0;
  bool zeros_ = false;
};

/// The rows of one shard.
struct shard_values {
  tensor_view items;  ///< host memory, any strides; rows are the first dimension
  /// How the items are stored: NumPy's type string, or a JSON list of fields as in `dtype.descr`. Empty: as
  /// `items.type` in memory.
  std::string descr;
  std::optional<tensor_view> mask = std::nullopt;  ///< TIFF: valid pixels, as in `tiff_writer::write`
};

struct shard_writer_options {
  std::shared_ptr<penstock::context> context;                          ///< null: one of its own
  std::optional<std::string> manifest{std::in_place, kShardManifest};  ///< in the folder of the shards; nullopt: none
  /// The caller writes the files, of any format: `next` and `add` instead of `write`.
  bool own_format = false;
  std::string name = "x";  ///< name of the member of `.npz` archives, without its ending
  /// Options of the shards that are `.zarr` or TIFF: chunks, codecs, `tiff`. The writer sets path, shape and type, and
  /// replaces files.
  create_options arrays;
};

/// Writes an array as many files, one after the other: `.npy`, `.raw`, `.npz`, `.zarr`, TIFF.
///
/// Zarr arrays and TIFFs (of shape (band, y, x)) are created by the drivers of these formats. Their items have native
/// byte order.
///
/// A file appears under its name when it is complete, and replaces an earlier one. `close` writes the manifest, with
/// the checksum of each file, and removes the files of the same pattern and of higher numbers, which remain from an
/// earlier run. After a power cut each file is an old one or a new one, and a manifest names existing files. Next to
/// raw files `_meta.json` has their dtype and rows. One caller at a time; several ranks have patterns of their own.
class PENSTOCK_API shard_writer {
 public:
  /// \error unsupported  Another suffix, without `own_format`. \error invalid_argument  The manifest has no name, or
  /// that of a shard. \error As `shard_pattern::parse`.
  static result<shard_writer> make(std::string_view pattern, shard_writer_options options = {});

  /// Writes the next file.
  /// \returns Its path. \error invalid_argument  No dimensions; the type of the items or the shape of the rows differs
  /// from earlier files.
  /// \error unsupported  Items without bytes, without a type in NumPy, or without one in the format.
  /// \error conflict  A folder with the name of the `.zarr` exists, and is not an array. \error The system's, and as of
  /// `create_array` and `begin_array`.
  result<std::string> write(const shard_values& values);
  /// The same for a `.zarr` or a TIFF with its own options, which replace `shard_writer_options::arrays`.
  /// \error invalid_argument  The path exists, and `how` does not have `overwrite`.
  result<std::string> write(const shard_values& values, const create_options& how);
  /// Writes the manifest, and removes files of an earlier run. If no file was written, it does nothing.
  result<> close();

  /// For files that the caller writes: the path of the next one, whose folder exists.
  /// \error As `write`.
  result<std::string> next(const shard_values& values);
  /// Adds the file that `next` named, which is complete.
  /// \param crc32c  Checksum of its bytes: `file_crc32c`.
  void add(std::uint32_t crc32c);
  /// Returns when the names of the files so far are on the storage device.
  result<> sync() const;
  /// The path of the manifest; nullopt: none is written.
  std::optional<std::string> manifest_path() const;
  /// Removes files of an earlier run: those with higher numbers. Called after the manifest is written.
  result<> remove_left_over() const;

  const shard_pattern& pattern() const noexcept { return pattern_; }
  std::span<const std::string> paths() const noexcept { return paths_; }
  std::span<const std::uint32_t> checksums() const noexcept { return checksums_; }

 private:
  shard_writer(shard_pattern pattern, shard_writer_options options);
  result<> write_sidecars() const;
  result<> write_manifest() const;
  result<> write_array_manifest() const;
  bool syncs() const noexcept;

  shard_pattern pattern_;
  shard_writer_options options_;
  std::shared_ptr<store> files_;  // all local
  std::string next_;              // path of a file that is not added yet
  std::vector<std::string> paths_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::uint32_t> checksums_;
  std::optional<std::string> descr_;
  extents row_shape_;
};

struct save_shards_options : shard_writer_options {
  std::optional<std::uint64_t> rows;    ///< rows of each file except the last
  std::optional<std::uint64_t> shards;  ///< or the number of files, of lengths as equal as possible
  /// Replaces `arrays` for files with this many rows: colours and names of the bands of a TIFF depend on their number.
  std::map<std::uint64_t, create_options> arrays_of_rows;
  std::string descr;                ///< of an open array: as `shard_values::descr`
  std::optional<tensor_view> mask;  ///< of an open array: as `shard_values::mask`, of every file
  /// Called with the bytes that are written, and half of those that are read. False stops.
  progress_fn progress;
};

/// The positions at which an array of `length` rows is cut: from 0 to `length`. Without rows there is one file without
/// rows.
/// \error invalid_argument  Neither or both are given, one is 0, or there would be more than 2^24 files.
PENSTOCK_API result<std::vector<std::uint64_t>> shard_edges(std::uint64_t length, std::optional<std::uint64_t> rows,
                                                            std::optional<std::uint64_t> shards);

/// Writes values as many files, cut along their first axis; `values.mask` is that of every file.
/// \returns The paths. \error As `shard_edges`' and `shard_writer`'s. cancelled  `progress` returned false; there is no
/// manifest then.
PENSTOCK_API result<std::vector<std::string>> save_shards(const shard_values& values, std::string_view pattern,
                                                          const save_shards_options& options = {});

/// Writes an open array as many files, cut along its first axis. Needs memory for the rows of one file.
/// \returns The paths. \error invalid_argument  An array without dimensions; a file that would be replaced or removed
/// is one that `from` is read from (then nothing is written). \error As `shard_writer`'s and `array::read`'s.
PENSTOCK_API result<std::vector<std::string>> save_shards(const array& from, std::string_view pattern,
                                                          const save_shards_options& options = {});

}  // namespace penstock::inline v0
