#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <penstock/array.h>

namespace penstock::inline v0 {

/// True where the bytes begin a manifest of references, as Python's `save_manifest` writes it: a JSON document on one
/// line, and a compressed reference_table behind it.
bool is_saved_references(std::span<const std::byte> begin) noexcept;

/// Opens the array of such a manifest.
///
/// Files are relative to `folder`, where it lies. Each must have the size and time of change that it says, and stays
/// pinned to that.
/// \error corrupt_data  It contradicts itself, by member. \error conflict  A file is another than its index was read
///                      from. \error unsupported  Tables, objects of remote stores, an older release's form.
result<array> open_saved_references(std::span<const std::byte> manifest, const std::string& folder,
                                    std::shared_ptr<context> with);

}  // namespace penstock::inline v0
