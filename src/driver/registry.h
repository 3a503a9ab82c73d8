#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include <penstock/place.h>

namespace penstock::inline v0 {

/// The drivers of the library's formats. A new format gets its line in registry.cc.
std::span<const format_driver* const> builtin_drivers() noexcept;

/// The driver that recognises an object, null if none does. Drivers that were added to the context are tried first.
std::shared_ptr<const format_driver> driver_of(const context& with, const object_head& head, std::string_view path);

/// Reads the first bytes of an object; nothing if it does not exist.
/// \param remote_bytes  Their number, if requests are expensive.
result<std::optional<object_head>> read_head(const store& from, const std::string& key,
                                             std::uint64_t remote_bytes = std::uint64_t{16} << 10);

/// All bytes of an object whose first ones are known. If requests are expensive, only the others are requested.
/// \error corrupt_data  It has more than `max_bytes`.
result<std::vector<std::byte>> read_whole(const location& at, std::uint64_t max_bytes);

/// The location of a caller's target, and the rest of the path that the caller gave.
struct target_location {
  location at;        ///< `head` is set if the target is a local file
  std::string inner;  ///< '/'-separated, without '/' at either end; empty: the target itself
};

/// An object at a location that is not opened yet: one that a driver recognised, or a folder.
struct found_node {
  std::shared_ptr<const format_driver> driver;  ///< of the object; null: it is a folder's node
  location at;                                  ///< location of the object, with its first bytes; or of the folder
  std::string inner;           ///< path of the node within the object, or within the references of the folder
  std::optional<node> opened;  ///< of a folder: looking up its documents reads most of them
  std::shared_ptr<const json> references;  ///< instead: the `.zmetadata` of references saved as Parquet
};

/// The object at `at.path`, with its first bytes, whatever it is: without a driver if no format has these bytes.
/// Nothing if no object has that name. One request.
result<std::optional<found_node>> object_at(location at);

/// The kind of node that is looked up first.
enum class search_order { by_name, object_first };

/// Finds the node at a location: an object there, recognised by its first bytes, an object above it in the path, or the
/// documents of a folder.
///
/// The name decides which of them is looked up first. The first bytes of an object are read at most once.
/// \param order  `object_first`: the target is certainly an object, or inside one.
/// \error not_found  Nothing there has a known format. \error unsupported  A zip archive that is not a file of this
/// machine. \error corrupt_data, unsupported  The documents of a folder, by member.
result<found_node> find_node(target_location target, const open_options& how,
                             search_order order = search_order::by_name);

/// Opens what `find_node` found.
/// \error As the driver's; the location is noted.
result<node> open_found(found_node found, const open_options& how);

/// Finds and opens the node at a location.
/// \error As find_node and open_found.
result<node> open_location(location at, const open_options& how);

/// Returns the driver that has the ending of an object's name. The context's drivers have precedence. Null if the name
/// does not determine a driver.
std::shared_ptr<const format_driver> driver_by_name(const context& with, std::string_view path);

/// The same without a context: the library's drivers.
std::shared_ptr<const format_driver> driver_by_name(std::string_view path);

/// True if the name is that of an object rather than of a folder's node.
bool names_object(const context& with, std::string_view path);
/// True if folders of references saved as Parquet usually have such a name; Parquet files have it too.
bool names_references(std::string_view path) noexcept;

/// The number of first bytes of an object to read if requests are expensive, as determined by the driver of its ending.
std::uint64_t head_bytes(const context& with, std::string_view path);

/// A driver of the library, with static lifetime.
std::shared_ptr<const format_driver> unowned(const format_driver& driver) noexcept;

/// Returns the driver that creates nodes of `format`. If `format` is empty, it is the driver that has the ending of
/// `path`, provided that the driver is the context's or its arrays are written once; otherwise Zarr's. Not null.
/// \error unsupported  No driver has that name.
result<std::shared_ptr<const format_driver>> driver_for_new(const context& with, std::string_view format,
                                                            std::string_view path);

/// The place of a new object: its store, and its name there, which is not empty.
/// \error invalid_argument  It is a folder. \error As `find_place`.
result<place> find_object_place(std::string_view uri, const place_options& options);

/// Resolves a name that a caller gives: a path or URI to a store, the object there, and the path inside it.
/// A local file that begins as a zip archive becomes a store of its entries. The head is set for other local files.
result<target_location> resolve(std::string_view uri, const open_options& how);

/// The path of a local name: for a `file:` URI, the path that it names; otherwise the name itself.
///
/// The URI of an open array has the characters of its path, so a file with exactly that name has precedence over the
/// decoded name.
/// \error invalid_argument  A URI with a host other than localhost.
result<std::string> local_path_of(std::string_view name);

/// True if bytes begin a zip archive.
bool begins_as_archive(std::span<const std::byte> begin) noexcept;

}  // namespace penstock::inline v0
