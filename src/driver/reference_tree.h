#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <penstock/array.h>
#include <penstock/place.h>
#include "driver/zarr_nodes.h"
#include "format/reference/kerchunk_folder.h"
#include "format/reference/kerchunk_json.h"
#include "format/reference/location_rule.h"

namespace penstock::inline v0 {

struct referenced_object;  // driver/open_reference.h

/// Finds the store of a folder, by its URL without a '/' at its end: for stores that the caller creates.
/// Returns nullopt if the engine's own stores are to be used. Called by the opening thread, once for each folder.
using folder_finder = std::function<result<std::optional<place>>(const std::string& url)>;

/// The location of a tree of references, and the locations that the caller allows.
struct reference_tree_place {
  std::shared_ptr<penstock::context> context;
  std::string uri;   ///< URI of the references, in errors
  std::string base;  ///< the folder that relative names are below: an absolute path or a URL
  /// The scheme of names without one (`s3`). Names of the scheme `file` are relative to the working directory and are
  /// not checked, because the caller chose the file system. If empty, names are relative to `base`.
  std::string default_scheme;
  location_rule rule;
  folder_finder find_folder;  ///< null: the engine's own stores
  bool missing_is_fill = false;
  bool opened_for_reading = false;
};

/// A tree of Zarr nodes whose chunks are byte ranges of other files: kerchunk's references. Immutable.
///
/// Metadata is in memory. An array's references are collected when it is opened: those in Parquet are read then.
class reference_tree final : public member_source, public std::enable_shared_from_this<reference_tree> {
 public:
  /// \error corrupt_data, unsupported  As kerchunk_json::parse.
  static result<std::shared_ptr<const reference_tree>> of_json(std::string_view text, reference_tree_place at);
  /// References in Parquet below `prefix` of a store. \error corrupt_data  As kerchunk_folder::parse.
  static result<std::shared_ptr<const reference_tree>> of_folder(std::shared_ptr<const store> from, std::string prefix,
                                                                 std::string_view zmetadata, reference_tree_place at);

  /// Opens the array or group at `path`.
  /// \error not_found    `path` has no metadata.
  /// \error unsupported  A reference names a location that the document may not name, or whose scheme has no store.
  result<node> open(std::string_view path) const override;
  result<std::optional<std::vector<std::string>>> keys(std::string_view path) const override;

 private:
  struct parquet_folder {
    std::shared_ptr<const store> from;
    std::string prefix;
    std::uint64_t record_size = 0;
  };

  reference_tree() = default;
  result<> add_documents(const reference_documents& documents);
  result<node> open_array(std::string path, std::string uri, zarr_metadata metadata) const;

  reference_tree_place at_;
  std::shared_ptr<const store> documents_;    // of metadata alone, by key
  std::set<std::string, std::less<>> nodes_;  // paths of arrays and groups
  std::variant<kerchunk_json, parquet_folder> references_;
};

/// Reads the files of Parquet references of one array: `refs.N.parq` below `prefix`, at most `record_size` rows each.
/// \param base  The folder of relative names: the path of the array, or nothing.
/// \error corrupt_data, unsupported  A file, with its key.
result<reference_rows> read_parquet_references(const store& from, const std::string& prefix, const std::string& path,
                                               const std::string& base, std::uint64_t cells, std::uint64_t record_size);

/// Adds the references of one such file, whose first row is chunk `first` of `cells`.
result<> add_parquet_references(std::span<const std::byte> file, const std::string& base, std::uint64_t first,
                                std::uint64_t cells, std::uint64_t record_size, reference_rows& out);

/// The resolved location of `name` in a document in `base`: a URL, or an absolute path.
std::string resolved_location(std::string_view base, std::string_view name);

/// The same as a manifest names its files and their folder: paths and relative names have no `.` and `..`, and no '/'
/// at the end.
/// \param folder  The folder of the manifest: a URL or an absolute path.
std::string named_location(std::string_view folder, std::string_view name);

/// The resolved location, if `at.rule` allows the document to name it.
/// \error unsupported  It does not.
result<std::string> allowed_location(const reference_tree_place& at, std::string_view name);

/// Stores of locations, one for each folder.
class reference_stores {
 public:
  explicit reference_stores(std::shared_ptr<penstock::context> with, folder_finder find = nullptr)
      : context_(std::move(with)), find_(std::move(find)) {}
  /// The store that a resolved location is in, and its key there.
  /// \error unsupported  No store for its scheme.
  result<referenced_object> object(const std::string& location);

 private:
  result<place> folder(const std::string& url, const std::string& location) const;

  std::shared_ptr<penstock::context> context_;
  folder_finder find_;
  std::map<std::string, place> stores_;
};

}  // namespace penstock::inline v0
