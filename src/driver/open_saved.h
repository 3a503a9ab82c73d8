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

/// True where the bytes begin a manifest of references, as `save_references` writes it: a JSON document on one line,
/// and a compressed reference_table after it.
bool is_saved_references(std::span<const std::byte> begin) noexcept;

/// An object of a manifest that is not a file of this machine.
struct remote_object {
  std::string url;
  std::string stamp;         ///< by which the caller's store recognises its version; empty: any version will do
  bool has_version = false;  ///< the manifest also has its version as HTTP names it: a store over HTTP needs no stamp
};

/// Finds remote objects, all of a manifest at once: for each its store and key, or nullopt for the engine's own.
/// \error conflict  An object is another version than its stamp says.
using object_finder = std::function<result<std::vector<std::optional<place>>>(const std::vector<remote_object>&)>;

/// Where a manifest is, and what it may name.
struct manifest_place {
  std::string folder;  ///< that its files are relative to: an absolute path or a URL; empty: it has whole paths
  location_rule rule;
  object_finder find_objects = nullptr;  ///< null: the engine's own stores
  bool missing_is_fill = false;
};

/// Opens the array of such a manifest.
///
/// Local files must have the size and time of change that the manifest has, and stay pinned to that.
/// \error corrupt_data  It contradicts itself, by member. \error conflict  A file is another than its index was read
///                      from. \error unsupported  Tables, an older release's form; a location that it may not name;
///                      remote objects that it pins to a version as another store knows it, and `find_objects` does
///                      not find.
result<array> open_saved_references(std::span<const std::byte> manifest, const manifest_place& at,
                                    std::shared_ptr<context> with);

/// Opens a manifest of an array, or of a group: a JSON document on one line (`kind` is `group`; `uri`, `attributes`,
/// of each group below its path and attributes, of each member its path and bytes), and after it the manifests of its
/// arrays, which are opened when they are asked for.
/// \error As open_saved_references.
result<node> open_saved_node(std::vector<std::byte> manifest, manifest_place at, std::shared_ptr<context> with);

}  // namespace penstock::inline v0
