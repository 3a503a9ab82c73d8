#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/create.h>
#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include <penstock/open.h>
#include "engine/array_state.h"
#include "format/zarr/zarr_consolidated.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// The longest accepted metadata document. Attributes of real arrays are much shorter.
inline constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{256} << 20;

/// `a//b/` and `/a/b` as `a/b/`; empty stays empty.
std::string prefix_of(std::string_view path);

/// The URI of the node at `prefix` of a store.
std::string child_uri(const std::string& store_uri, std::string_view prefix);

/// A parsed document of a store, its version, and its bytes.
struct stored_document {
  std::shared_ptr<const json> content;
  version seen;
  std::vector<std::byte> bytes;

  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

/// Reads and parses a document; nothing if it does not exist.
/// \error As the store's, and corrupt_data; with a note.
result<std::optional<stored_document>> read_document(const store& from, const std::string& key);
/// The same for a document that must exist.
/// \error not_found  It was removed.
result<stored_document> required_document(const store& from, const std::string& key);
/// The same for a document that must be an object of JSON.
/// \error corrupt_data  It is not.
result<stored_document> required_object(const store& from, const std::string& key);

/// The node at a location: its documents and, for a group with consolidated metadata, the documents of the tree below
/// it.
struct zarr_node {
  zarr_metadata metadata;
  std::shared_ptr<const zarr_consolidated> consolidated;
  std::shared_ptr<const json> references;  ///< instead of both: the `.zmetadata` of references saved as Parquet
};

/// Finds the node at `prefix` (empty, or ends with '/'): zarr.json first, then version 2's documents; nothing if none
/// exists. With `prefer` 2 the order is reversed.
result<std::optional<zarr_node>> find_zarr_node(const store& from, const std::string& prefix, consolidation use,
                                                int prefer = 3);
/// The `.zmetadata` of references saved as Parquet at `prefix`; null if it does not exist or cannot be read.
std::shared_ptr<const json> find_parquet_references(const store& from, const std::string& prefix);
/// The same as find_zarr_node for many prefixes: an asynchronous store receives all requests at once.
std::vector<result<std::optional<zarr_node>>> find_zarr_nodes(const store& from, std::span<const std::string> prefixes,
                                                              consolidation use, int prefer);

/// The data of an open node in addition to its metadata.
struct node_place {
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const store> from;
  std::string prefix;
  std::string uri;
  bool cache_unversioned_indexes = false;
  bool opened_for_reading = false;
  beyond_edge after_writes = beyond_edge::filled;
  bool missing_is_fill = false;  ///< for references saved as Parquet, together with the next one
  std::optional<bool> allow_local;
  consolidation use_consolidated = consolidation::automatic;
  std::shared_ptr<const zarr_consolidated> consolidated;
  std::string consolidated_path;
};

/// The node at `path` below a group whose consolidated metadata are not used.
node_place child_place(const group& parent, std::string_view path);

/// The facts about an array from a node's place and metadata, without those that its layout adds: chunks, shards,
/// codecs as text.
array_site site_of(node_place at);
array_facts facts_of(zarr_metadata metadata);

/// The error if no driver finds anything: `not_found`.
error no_zarr_node(std::string_view uri);

/// Parses the metadata of an array from its documents, given by name (`zarr.json`, or `.zarray` and `.zattrs`).
/// \error corrupt_data  A member, or the document of an array is missing.
result<zarr_metadata> parse_array_documents(const std::vector<std::pair<std::string, std::string>>& documents);

/// Writes the metadata of a new Zarr array or group and opens it, without reading what was written.
result<array> create_zarr_array(const new_location& at, const create_options& options);
result<group> create_zarr_group(const new_location& at, const create_group_options& options);

/// An open array or group.
result<node> make_node(node_place at, zarr_metadata metadata);
/// The same for a found node, if there is one.
result<std::optional<node>> make_found(node_place at, result<std::optional<zarr_node>> found);

}  // namespace penstock::inline v0
