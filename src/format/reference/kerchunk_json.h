#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/result.h>
#include "format/reference/reference_rows.h"

namespace penstock::inline v0 {

/// A kerchunk document: metadata documents of a tree of Zarr nodes, and the references of their chunks by key.
///
/// Immutable. A chunk's reference is checked when the rows of its array are collected, so a damaged array does not
/// affect the others.
class kerchunk_json {
 public:
  /// Parses a JSON document of version 0 or 1, with templates and generated keys replaced.
  ///
  /// Each distinct location is stored once. See kerchunk_expander for the bounds.
  /// \error corrupt_data  It is not JSON, has no references, or a member is wrong, by name.
  /// \error unsupported  Another version, metadata in other files, or a bound is exceeded. Source: "References
  /// specification" of kerchunk, versions 0 and 1; fsspec's ReferenceFileSystem.
  static result<kerchunk_json> parse(std::string_view text);

  /// Metadata documents (`x/.zarray`, `x/zarr.json`) by key.
  const reference_documents& documents() const noexcept { return documents_; }
  std::uint64_t references() const noexcept { return references_.size(); }

  /// Collects the references of the array at `path` (empty: the root), in any order.
  ///
  /// Keys that do not name a chunk of `grid` are ignored.
  /// \error corrupt_data  A reference is not text, `[url]` or `[url, offset, length]`, or is not base64.
  result<reference_rows> rows(std::string_view path, const reference_keys& keys) const;

 private:
  enum class reference_kind : std::uint8_t { location, data, damaged };
  struct reference {
    std::uint32_t text = 0;  // in texts_
    reference_kind kind = reference_kind::location;
    std::uint64_t offset = 0, length = 0;
  };
  class builder;

  reference_documents documents_;
  std::vector<std::string> texts_;
  std::vector<std::pair<std::string, reference>> references_;  // sorted by key
};

}  // namespace penstock::inline v0
