#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <penstock/store.h>
#include "format/zarr/zarr_writer.h"

namespace penstock::inline v0 {

/// The object that `copy` puts next to a document for a moment, to see whether it is in another store, too.
inline constexpr std::string_view kCopyMark = ".penstock-copy";

/// Whether a key's last part is the name of one of Zarr's documents: `zarr.json`, `.zarray`, ...
bool is_zarr_document(std::string_view name) noexcept;

result<version> put_document(store& in, const std::string& prefix, const zarr_document& document,
                             const write_condition& condition);

/// The documents at `prefix` that exist and define a node.
result<std::vector<std::string_view>> documents_at(const store& in, const std::string& prefix);

/// Creates the groups above `prefix` that do not exist, including the root.
/// \error invalid_argument  One of them is an array.
result<> make_parents(store& in, const std::string& prefix, int zarr_format, bool durable = false);

/// The objects below a prefix that belong to the Zarr nodes there: documents and chunks. The user's files in the same
/// folders do not belong to them.
class node_objects {
 public:
  /// Lists `prefix`. Reads the document of each array in it.
  static result<node_objects> find(const store& in, const std::string& prefix);

  /// Whether the object of this key, relative to the prefix, is a document or a chunk. `key` need not exist.
  bool belongs(std::string_view key) const;
  /// Relative keys of the objects that belong to the nodes. Documents first.
  const std::vector<std::string>& keys() const noexcept { return keys_; }
  /// Relative keys of all other objects.
  const std::vector<std::string>& others() const noexcept { return others_; }

 private:
  struct owner {
    bool is_array = false;
    bool any_suffix = false;  ///< the document cannot be read: every key that may be that of a chunk counts as a chunk
    std::string suffix;       ///< of its keys
  };

  const owner* owner_of(std::string_view key, std::string_view& rest) const;

  std::unordered_map<std::string, owner> owners_;  ///< by relative prefix
  std::vector<std::string> keys_, others_;
};

/// The error for an object that is not part of an overwritten node, but would belong to the new node.
error stands_in_the_way(std::string_view key);

/// Erases a node: the documents first, then its chunks and the nodes below it. Other objects remain.
/// \param for_array  Refuses, before anything is erased, if another object's key is that of a chunk.
result<> erase_node(store& in, const std::string& prefix, bool for_array = false);
/// The same with the objects that `find` returned.
result<> erase_node(store& in, const std::string& prefix, const node_objects& objects, bool for_array);

}  // namespace penstock::inline v0
