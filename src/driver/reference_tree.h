#pragma once

#include <map>
#include <memory>
#include <optional>
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

struct referenced_object;  // api/open_reference.h

/// Where a tree of references is, and what its caller allows.
struct reference_tree_place {
  std::shared_ptr<penstock::context> context;
  std::string uri;   ///< of the references, as errors show it
  std::string base;  ///< the folder that relative names are below: an absolute path or a URL
  location_rule rule;
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
  /// \error not_found    No metadata is there.
  /// \error unsupported  A reference names a location that the document may not name, or whose scheme has no store.
  result<node> open(std::string_view path) const override;

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
  std::shared_ptr<const store> documents_;  // of metadata alone, by key
  std::variant<kerchunk_json, parquet_folder> references_;
};

/// Reads the files of Parquet references of one array: `refs.N.parq` below `prefix`, at most `record_size` rows each.
/// \error corrupt_data, unsupported  A file, with its key.
result<reference_rows> read_parquet_references(const store& from, const std::string& prefix, const std::string& path,
                                               std::uint64_t cells, std::uint64_t record_size);

/// Adds the references of one such file, whose first row is chunk `first` of `cells`, of the array at `path`.
result<> add_parquet_references(std::span<const std::byte> file, const std::string& path, std::uint64_t first,
                                std::uint64_t cells, std::uint64_t record_size, reference_rows& out);

/// The resolved location that a document in `base` means by `name`: a URL, or an absolute path.
std::string resolved_location(std::string_view base, std::string_view name);

/// Stores of locations, one for each folder.
class reference_stores {
 public:
  explicit reference_stores(std::shared_ptr<penstock::context> with) : context_(std::move(with)) {}
  /// The store that a resolved location is in, and its key. \error unsupported  No store for its scheme.
  result<referenced_object> object(const std::string& location);

 private:
  std::shared_ptr<penstock::context> context_;
  std::map<std::string, place> stores_;
};

}  // namespace penstock::inline v0
