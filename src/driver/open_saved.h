#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/place.h>
#include "format/reference/location_rule.h"

namespace penstock::inline v0 {

/// True if the bytes begin a manifest of references in the form of `save_references`: a JSON document on one line, and
/// a compressed reference_table after it.
bool is_saved_references(std::span<const std::byte> begin) noexcept;

/// An object of a manifest that is not a local file.
struct remote_object {
  std::string url;
  std::string stamp;         ///< the version in the form of the caller's store; empty: any version is accepted
  bool has_version = false;  ///< the manifest also has its HTTP version: a store over HTTP needs no stamp
};

/// Finds remote objects, all of a manifest at once: for each its store and key, or nullopt for the engine's own stores.
/// \error conflict  The version of an object differs from its stamp.
using object_finder = std::function<result<std::vector<std::optional<place>>>(const std::vector<remote_object>&)>;

/// The location of a manifest, and the locations that it may name.
struct manifest_place {
  std::string folder;  ///< the folder of relative names: an absolute path or a URL; empty: all names are full paths
  location_rule rule;
  object_finder find_objects = nullptr;  ///< null: the engine's own stores
  bool missing_is_fill = false;
};

/// Opens the array of such a manifest.
///
/// Local files must have the size and modification time in the manifest, and stay pinned to these.
/// \error corrupt_data  It contradicts itself, by member. \error conflict  A file has changed since its index was read.
/// \error unsupported  A manifest of tables, or of an older release; a location that it may not name; remote objects
/// that are pinned to a version of another store and that `find_objects` does not find.
result<array> open_saved_references(std::span<const std::byte> manifest, const manifest_place& at,
                                    std::shared_ptr<context> with);

/// Opens a manifest of an array, or of a group. A group's manifest is a JSON document on one line, followed by the
/// manifests of its arrays, which are opened when they are requested. The document has `kind` (`group`), `uri`,
/// `attributes`, the path and attributes of each group below it, and the path and number of bytes of each array's
/// manifest.
/// \error As open_saved_references.
result<node> open_saved_node(std::vector<std::byte> manifest, manifest_place at, std::shared_ptr<context> with);

}  // namespace penstock::inline v0
