#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/layout.h>
#include "engine/context_state.h"

namespace penstock::inline v0 {

class zarr_consolidated;
struct shard_table;  // api/shard_table.h

/// The manifest of references that an array was opened by, and the folder that its files are relative to.
struct saved_references {
  std::vector<std::byte> manifest;
  std::string folder;
};

/// What an open array is made of. Immutable; what changes lives in the context.
class array_state {
 public:
  array_state() = default;
  array_state(const array_state&) = default;
  ~array_state();
  /// A copy with other attributes.
  std::shared_ptr<const array_state> with_attributes(std::string text) const;
  /// Takes a name in the caches, once all else is known: where versions last, that of every array of this storage, keys
  /// and layout.
  /// \param image  Which of those that one object holds it is.
  void name_for_caches(std::string_view image);

  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const penstock::store> store;
  std::shared_ptr<const chunk_layout> layout;
  std::string prefix;         // of the array's keys: empty, or ends with '/'
  std::uint64_t uid = 0;      // in the caches
  bool outlived_uid = false;  // others of this array have the same, now or later
  bool caches_indexes = false;
  bool opened_for_reading = false;  // open_mode::read: every write is refused

  extents shape, chunks;
  std::optional<extents> shards;
  dtype type;
  std::vector<std::byte> fill_value;
  std::shared_ptr<const std::string> fill_text;  // what a variable_item in it points to
  std::string fill_value_json;                   // as the metadata has it; "null": not defined
  bool fill_is_nodata = false;                   // of a TIFF: the file says so
  std::string attributes_json, codecs_json, codecs_text, format, uri;
  std::vector<std::optional<std::string>> dimension_names;
  std::shared_ptr<const shard_table> files;       // of .npy and raw files; else null
  std::shared_ptr<const saved_references> saved;  // what other processes open it by; null: there is no such manifest
};

class group_state {
 public:
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const penstock::store> store;
  std::string prefix;
  bool cache_unversioned_indexes = false;
  bool opened_for_reading = false;  // and with it all that is opened through the group
  std::string attributes_json, format, uri;
  // The documents of a group above, or of this one; null: storage is asked.
  std::shared_ptr<const zarr_consolidated> consolidated;
  std::string consolidated_path;  // of this group within it
  consolidation use_consolidated = consolidation::automatic;
};

}  // namespace penstock::inline v0
