#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <penstock/extend/driver.h>

namespace penstock::inline v0 {

/// The drivers of the library's formats. A new format gets its line in registry.cc.
std::span<const format_driver* const> builtin_drivers() noexcept;

/// The driver that recognises an object, null if none does. Drivers that were added to the context are tried first.
std::shared_ptr<const format_driver> driver_of(const context& with, const object_head& head, std::string_view path);

/// Reads the first bytes of an object; nothing if there is none.
/// \param remote_bytes  How many, where requests cost time.
result<std::optional<object_head>> read_head(const store& from, const std::string& key,
                                             std::uint64_t remote_bytes = std::uint64_t{16} << 10);

/// Opens what is at a location: the object there, recognised by its first bytes, or the node of a folder's documents.
///
/// The name decides which of the two is looked for first. The first bytes are read at most once.
/// \error not_found  Neither is there.
result<node> open_location(location at, const open_options& how);

/// The driver that creates nodes of `format`; if that is empty, the driver of the context whose endings `path` has, or
/// else Zarr's. Not null.
/// \error unsupported  There is no driver of that name.
result<std::shared_ptr<const format_driver>> driver_for_new(const context& with, std::string_view format,
                                                            std::string_view path);

/// Resolves what a caller names: a path or URI to a store and a path in it.
///
/// A file of this machine that begins as a zip archive becomes a store of its entries. `head` is set for files of this
/// machine.
result<location> resolve(std::string_view uri, const open_options& how);

}  // namespace penstock::inline v0
