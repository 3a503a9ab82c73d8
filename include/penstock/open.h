#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// What `open` requires of the storage, and whether the node may be written to.
enum class open_mode : std::uint8_t {
  existing,    ///< the node must exist; it can be written to if format and store allow it
  read,        ///< "r": the node must exist; every write through it, or through what is opened from it, is refused
  read_write,  ///< "r+": the node must exist and be writable
  append,      ///< "a": as read_write; `open_group` creates a group that does not exist
  create,      ///< "w-": the node must not exist; `open_group` only
  replace,     ///< "w": a node that exists is erased first; `open_group` only
};

struct open_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::string path;                            ///< within the store, '/'-separated; empty: the root
  bool cache_unversioned_indexes = false;      ///< keep shard indexes of stores that have no versions
  consolidation use_consolidated = consolidation::automatic;
  open_mode mode = open_mode::existing;
  bool opens_references = true;  ///< kerchunk's, and files that the caller could open itself: .npy, manifests
  /// Of references: an object that is not there reads as the fill value instead of failing.
  bool missing_is_fill = false;
  /// Of references and manifests: whether they may name files of this machine. Empty: if they are files of this machine
  /// themselves.
  std::optional<bool> allow_local;
  remote_options remote;  ///< how `http:`, `https:`, `s3:` and `gs:` URIs are reached
};

/// Opens an array or a group at a path or a `file:` URI.
/// \error not_found  Nothing of a known format is there. \error corrupt_data, unsupported  The metadata, by member.
/// \error read_only, permission_denied  `mode` requires a writable node. \error invalid_argument  `mode` creates nodes.
PENSTOCK_API result<node> open(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<node> open(std::shared_ptr<const store> from, const open_options& options = {});
/// As `open`, and fails with `invalid_argument` where a group is found.
PENSTOCK_API result<array> open_array(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<array> open_array(std::shared_ptr<const store> from, const open_options& options = {});
/// Opens bytes in memory that are a file: a `.npy` file, a TIFF, whose first image it is, or a variable of a NetCDF
/// classic file, which `options.path` names. They are not copied, and must not change while the array is used.
/// \param owner  Keeps the bytes; let go with the last array and read. Null: they stay anyway.
/// \error unsupported  They begin as none of these. \error invalid_argument  `options` has a path within a file of one
/// array, or none for NetCDF.
PENSTOCK_API result<array> open_array(std::span<const std::byte> bytes, const open_options& options = {},
                                      std::shared_ptr<const void> owner = nullptr);
/// Opens a group, or creates it if `options.mode` says so: `append` if there is none, `create`, and `replace` in place
/// of what is there. New groups are of Zarr version 3; `create_group` has more options.
/// \error invalid_argument  An array is there, or with `create` any node.
PENSTOCK_API result<group> open_group(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<group> open_group(std::shared_ptr<store> from, const open_options& options = {});
/// A child of a group, by path. It is read-only if the group was opened for reading.
PENSTOCK_API result<node> open(const group& parent, std::string_view path);
/// The direct children of a group by name, sorted; those of a remote store are asked for together.
/// \error As `open`'s, of a child.
PENSTOCK_API result<std::vector<std::pair<std::string, node>>> open_members(const group& parent);

/// A store rooted at a folder of this machine.
PENSTOCK_API std::shared_ptr<store> open_file_store(std::string root, write_sync sync = write_sync::objects);
/// A store that reads from `from` and refuses every write.
PENSTOCK_API std::shared_ptr<store> make_read_only(std::shared_ptr<const store> from);
/// An empty store in this process's memory.
PENSTOCK_API std::shared_ptr<store> make_memory_store();

}  // namespace penstock::inline v0
