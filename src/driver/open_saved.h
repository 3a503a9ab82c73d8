#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <penstock/array.h>
#include "format/reference/location_rule.h"

namespace penstock::inline v0 {

/// True where the bytes begin a manifest of references, as Python's `save_manifest` writes it: a JSON document on one
/// line, and a compressed reference_table behind it.
bool is_saved_references(std::span<const std::byte> begin) noexcept;

/// Where a manifest is, and what it may name.
struct manifest_place {
  std::string folder;  ///< that its files are relative to: an absolute path or a URL
  location_rule rule;
};

/// Opens the array of such a manifest.
///
/// Local files must have the size and time of change that the manifest has, and stay pinned to that. Remote objects are
/// read by the engine's own stores.
/// \error corrupt_data  It contradicts itself, by member. \error conflict  A file is another than its index was read
///                      from. \error unsupported  Tables, an older release's form; a location that it may not name;
///                      remote objects that it pins to a version as Python's stores know it.
result<array> open_saved_references(std::span<const std::byte> manifest, const manifest_place& at,
                                    std::shared_ptr<context> with);

}  // namespace penstock::inline v0
