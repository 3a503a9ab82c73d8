#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include <penstock/find_shards.h>
#include <penstock/place.h>

namespace penstock::inline v0 {

/// The result of parsing a caller's names, before storage is queried: the folder above all files, and the names in it.
struct shard_names {
  std::string folder;              ///< a path or a URI; may be `.` or `/`
  std::vector<std::string> names;  ///< if a list was given: each name relative to the folder
  std::string pattern;             ///< otherwise: a pattern within the folder; empty: the folder's files of one ending
};

/// A pattern or a folder.
shard_names split_shard_names(std::string_view files);
/// A list of names.
/// \error As of `find_shards`.
result<shard_names> split_shard_names(std::span<const std::string> files);

/// Finds the files in their folder.
/// \param at  The folder. \param format  As `shard_files_options::format`.
/// \error As of `find_shards`.
result<found_shards> find_in_folder(shard_names what, place at, std::string_view format, shard_gaps gaps);

/// The driver that recognises the first file, on this machine. Null: none does, or the file does not exist.
std::shared_ptr<const format_driver> driver_of_first(const found_shards& of, const context& with);

/// The text of an array's dtype in the form of `raw_options`, from NumPy's names of types: `float32`, `f4`, `<f4`, or a
/// list of fields.
/// \error invalid_argument  Not such a name.
result<std::string> numpy_descr(const json& dtype);

}  // namespace penstock::inline v0
