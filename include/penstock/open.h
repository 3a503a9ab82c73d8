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

/// The requirements of `open` on the node, and whether the node may be written to.
enum class open_mode : std::uint8_t {
  existing,    ///< the node must exist; it can be written to if format and store allow it
  read,        ///< "r": the node must exist; every write through it, or through what is opened from it, is refused
  read_write,  ///< "r+": the node must exist and be writable
  append,      ///< "a": as read_write; `open_group` creates the group if it does not exist
  create,      ///< "w-": the node must not exist; `open_group` only
  replace,     ///< "w": a node that exists is erased first; `open_group` only
};

struct open_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::string path;                            ///< within the store, '/'-separated; empty: the root
  bool cache_unversioned_indexes = false;      ///< keep shard indexes of stores that have no versions
  consolidation use_consolidated = consolidation::automatic;
  open_mode mode = open_mode::existing;
  /// For references: an object that does not exist reads as the fill value instead of failing.
  bool missing_is_fill = false;
  /// For references and manifests: whether they may name files of this machine. Empty: only if they are local files
  /// themselves.
  std::optional<bool> allow_local;
  remote_options remote;  ///< how `http:`, `https:`, `s3:` and `gs:` URIs are reached
};

/// Opens an array or a group at a path or a URI (see `find_place`), or the files that a pattern names as one array.
/// \error not_found  Nothing of a known format exists there. \error corrupt_data, unsupported  The metadata, by member.
/// \error read_only, permission_denied  `mode` requires a writable node. \error invalid_argument  `mode` creates nodes.
PENSTOCK_API result<node> open(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<node> open(std::shared_ptr<const store> from, const open_options& options = {});  ///< in a store
/// As `open`, and fails with `invalid_argument` if the node is a group.
PENSTOCK_API result<array> open_array(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<array> open_array(std::shared_ptr<const store> from, const open_options& options = {});
/// Opens a file whose bytes are in memory, in any format that is one file and not an archive. The bytes are not copied,
/// and must not change while the node is used. Arrays of such files are read-only.
/// \param owner  Owns the bytes; released with the last array and read. Null: the bytes exist longer than them.
/// \error unsupported  The bytes do not have such a format. \error not_found  The file does not have the node
/// `options.path`.
PENSTOCK_API result<node> open(std::span<const std::byte> bytes, const open_options& options = {},
                               std::shared_ptr<const void> owner = nullptr);
/// As `open`, and fails with `invalid_argument` if the node is a group.
PENSTOCK_API result<array> open_array(std::span<const std::byte> bytes, const open_options& options = {},
                                      std::shared_ptr<const void> owner = nullptr);
/// Opens a group, or creates it according to `options.mode`: `append` if it does not exist, `create`, or `replace`. New
/// groups are of Zarr version 3; `create_group` has more options.
/// \error invalid_argument  The node is an array or, with `create`, exists.
PENSTOCK_API result<group> open_group(std::string_view uri, const open_options& options = {});
PENSTOCK_API result<group> open_group(std::shared_ptr<store> from, const open_options& options = {});
/// A child of a group, by path. It is read-only if the group was opened for reading.
PENSTOCK_API result<node> open(const group& parent, std::string_view path);
/// The direct children of a group by name, sorted. Those of a remote store are requested in parallel.
/// \error As `open`'s, for a child.
PENSTOCK_API result<std::vector<std::pair<std::string, node>>> open_members(const group& parent);

/// A store rooted at a local folder.
PENSTOCK_API std::shared_ptr<store> open_file_store(std::string root, write_sync sync = write_sync::objects);
/// A store that reads from `from` and refuses every write.
PENSTOCK_API std::shared_ptr<store> make_read_only(std::shared_ptr<const store> from);
/// An empty store in this process's memory.
PENSTOCK_API std::shared_ptr<store> make_memory_store();

}  // namespace penstock::inline v0
