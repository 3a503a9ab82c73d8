#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/array_description.h>
#include <penstock/extend/layout.h>
#include "engine/context_state.h"

namespace penstock::inline v0 {

struct hdf5_facts;        // driver/open_hdf5.h
struct referenced_array;  // driver/open_reference.h
struct saved_arrays;      // driver/saved_arrays.h
class zarr_consolidated;
class closed_parts;  // engine/closed_parts.h
struct shard_table;  // driver/shard_table.h

/// The manifest of references that an array was opened with, and the folder for its file names.
struct saved_references {
  std::vector<std::byte> manifest;
  std::string folder;
};

/// The elements that a chunk has beyond the array's edge, after a write that replaces all others: the fill value, or,
/// as in zarr-python, those that it had. `kept_by_lists`: writes of lists, points and masks keep them, writes of boxes
/// do not.
enum class beyond_edge : std::uint8_t { filled, kept_by_lists, kept };

/// The location of an open array, and how it may be used.
struct array_site {
  std::shared_ptr<penstock::context> context;    ///< not null
  std::shared_ptr<const penstock::store> store;  ///< not null
  std::string prefix;                            ///< of the keys of the layout: empty, or ends with '/'
  std::string uri;                               ///< the array's name in errors
  bool caches_indexes = false;                   ///< the store has versions, or the caller stated that nothing changes
  bool opened_for_reading = false;               ///< open_mode::read: every write is refused
  beyond_edge after_writes = beyond_edge::filled;
};

/// The parts of a joined array whose chunks do not make one grid. Its layout has boxes, each filled by a read of its
/// own; a read of a box of elements uses the parts themselves. Immutable.
struct array_parts {
  /// \param arrays  Each has elements. \param store  Has the keys of all, each below its prefix.
  array_parts(std::size_t axis, std::vector<array> arrays, std::vector<std::string> prefixes,
              std::shared_ptr<const penstock::store> store, std::shared_ptr<penstock::context> with);
  ~array_parts();
  array_parts(const array_parts&) = delete;
  array_parts& operator=(const array_parts&) = delete;

  /// The part that has the element `at` of the array's axis, and the first element of a part.
  std::size_t part_at(std::uint64_t at) const noexcept;
  std::uint64_t begin(std::size_t which) const noexcept { return which == 0 ? 0 : ends[which - 1]; }
  /// Elements of a range along the axis that are in one part, as a range of the part's.
  struct piece {
    std::size_t part;
    axis_range inside;
  };
  /// Those from the range's element number `first` on; first < along.count.
  piece piece_at(const axis_range& along, std::uint64_t first) const noexcept;

  const std::size_t axis;
  const std::vector<array> arrays;
  const std::vector<std::string> prefixes;
  const std::shared_ptr<const penstock::store> store;
  std::vector<std::uint64_t> ends;  ///< of each along the axis
  std::vector<std::uint64_t> uids;  ///< their identities in the caches of the context that reads; 0: nothing is cached

 private:
  const std::shared_ptr<penstock::context> context_;
};

/// What the metadata of a format states about an array, and additional data of the library's drivers.
struct array_facts : array_description {
  std::shared_ptr<const std::string> fill_text;        ///< the memory that a variable_item in the fill value points to
  bool fill_is_nodata = false;                         ///< in a TIFF: the file declares it
  std::shared_ptr<const shard_table> files;            ///< for .npy and raw files; else null
  std::shared_ptr<const saved_arrays> joined_of;       ///< the shards of a manifest; null: not opened from one
  std::shared_ptr<const saved_references> saved;       ///< for other processes to open it; null: no manifest
  std::shared_ptr<const referenced_array> references;  ///< content of a manifest; null: not an array of references
  std::shared_ptr<const array_parts> parts;            ///< null: the chunks of the layout are those of the storage
  std::shared_ptr<const closed_parts> closed;          ///< what reads open; null: all parts are open
};

/// The identity of an array in the caches.
enum class cache_name : std::uint8_t {
  own,      ///< a new identity: cached data for it is dropped with it
  lasting,  ///< the same for every array of this storage, keys and layout, if the store's versions are lasting
};

/// The state of an open array. Immutable; mutable state is in the context. Created by drivers, with the one
/// constructor.
class array_state : public array_site, public array_facts {
 public:
  /// \param layout  Not null. Its grid has the rank of `what.shape`.
  /// \param image   With `cache_name::lasting`: distinguishes the arrays of one object (the images of a TIFF).
  array_state(array_site where, std::shared_ptr<const chunk_layout> layout, array_facts what,
              cache_name name = cache_name::own, std::string_view image = {});
  ~array_state();

  /// Copies of this state. Each has a cache name of its own, unless the name is lasting.
  std::shared_ptr<const array_state> with_attributes(std::string text) const;
  std::shared_ptr<const array_state> for_reading() const;
  std::shared_ptr<const array_state> with_saved(std::shared_ptr<const saved_references> manifest) const;
  std::shared_ptr<const array_state> with_shards(std::shared_ptr<const saved_arrays> parts) const;

  const std::shared_ptr<const chunk_layout> layout;
  const bool outlived_uid;  ///< other arrays have the same identity in the caches, now or later
  const std::uint64_t uid;  ///< the identity in the caches

 private:
  array_state(array_site where, array_facts what, const array_state& of);
  bool name_lasts() const;
  std::string lasting_name(std::string_view image) const;
};

/// The content of a group that the store does not list: the variables of one file, references. Immutable, thread-safe.
class member_source {
 public:
  virtual ~member_source() = default;
  /// Opens the array or group at `path`, relative to the root of the file or of the references.
  /// \error not_found  It does not exist.
  virtual result<node> open(std::string_view path) const = 0;
  /// Names of the direct children of the group at `path`, sorted; nullopt: the group's store lists them.
  virtual result<std::optional<std::vector<std::string>>> keys(std::string_view /*path*/) const {
    return std::optional<std::vector<std::string>>();
  }
};

/// The state of an open group. Immutable.
class group_state {
 public:
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const penstock::store> store;
  std::string prefix;
  bool cache_unversioned_indexes = false;
  bool opened_for_reading = false;  ///< and with it all nodes that are opened through the group
  std::string attributes_json, format, uri;
  /// The documents of a group above, or of this one; null: storage is read.
  std::shared_ptr<const zarr_consolidated> consolidated;
  std::string consolidated_path;  ///< of this group within it
  consolidation use_consolidated = consolidation::automatic;
  std::shared_ptr<const member_source> members;  ///< opens its members, by `prefix`; null: they are in the store
  std::shared_ptr<const hdf5_facts> hdf5;        ///< for a group of an HDF5 file; else null
  /// Equal for two paths to one group of a file; empty: groups are distinguished by paths only. A traversal that visits
  /// each group once ends soon, for any links in the file.
  std::string identity;

  std::shared_ptr<const group_state> with_attributes(std::string text) const;
};

}  // namespace penstock::inline v0
