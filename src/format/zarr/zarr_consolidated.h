#pragma once

#include <penstock/result.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/json.h>
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// The documents of a whole tree of nodes, parsed once, each node at first use.
class zarr_consolidated {
 public:
  /// From the `consolidated_metadata` of a group's zarr.json; null if it is absent or null.
  /// \error unsupported  Another kind than `inline`. \error corrupt_data  Malformed.
  static result<std::shared_ptr<const zarr_consolidated>> from_v3(std::shared_ptr<const json> group);
  /// From a .zmetadata. \error unsupported  Another format than 1. \error corrupt_data  Malformed.
  static result<std::shared_ptr<const zarr_consolidated>> from_v2(std::shared_ptr<const json> document);

  int zarr_format() const noexcept { return format_; }
  /// \param path  Without a final '/', relative to the group that holds the documents; empty: that group (version 2).
  bool contains(std::string_view path) const { return nodes_.find(path) != nodes_.end(); }
  /// The node at `path`, which must be contained.
  /// \error As the parsers of single documents.
  result<zarr_metadata> parse(std::string_view path) const;
  bool is_group(std::string_view path) const;
  /// The names of the direct children, sorted.
  std::vector<std::string> children(std::string_view path) const;
  /// All paths, sorted.
  std::vector<std::string> paths() const;

  /// Called when a node below the group was written: from then on, storage is read.
  bool stale() const noexcept { return stale_.load(std::memory_order_acquire); }
  void mark_stale() const noexcept { stale_.store(true, std::memory_order_release); }

 private:
  struct entry {
    const json* node = nullptr;        // zarr.json, .zarray or .zgroup
    const json* attributes = nullptr;  // .zattrs
    bool group = false;
  };

  std::shared_ptr<const json> document_;  // the entries point into this
  std::map<std::string, entry, std::less<>> nodes_;
  int format_ = 3;
  mutable std::atomic<bool> stale_{false};
};

}  // namespace penstock::inline v0
