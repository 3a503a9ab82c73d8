#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>
#include "format/reference/reference_table.h"

namespace penstock::inline v0 {

/// Metadata documents by key.
using reference_documents = std::map<std::string, std::string, std::less<>>;

/// The keys of one array's chunks below it.
struct reference_keys {
  extents grid;        ///< chunks along each dimension
  std::string prefix;  ///< `c` in Zarr 3's default encoding; else empty
  char separator = '.';

  /// Chunks of the grid.
  /// \error corrupt_data  There are more than 2^64.
  result<std::uint64_t> cells() const;
  /// The C-order number of the chunk that `key` names; nothing if the key does not name a chunk of the grid.
  std::optional<std::uint64_t> cell(std::string_view key) const noexcept;
};

/// The target of a reference: a location as in the document, or the bytes themselves.
struct reference_source {
  std::string text;
  bool is_data = false;
};

/// The references of one array, in the order in which they were found. Each distinct source is stored once.
class reference_rows {
 public:
  /// Adds a reference. `length` 0 is the whole object. \error unsupported  More than 2^32 sources.
  result<> add(std::uint64_t cell, std::string_view source, bool is_data, std::uint64_t offset, std::uint64_t length);

  std::vector<reference_source>& sources() noexcept { return sources_; }
  const std::vector<reference_source>& sources() const noexcept { return sources_; }
  std::uint64_t size() const noexcept { return columns_.offsets.size(); }

  /// The table of an array of `cells` chunks. Its objects are the sources, by number.
  /// \param objects  For each source its number in the table; empty: the same.
  /// \error corrupt_data  A chunk is named twice, or a range is longer than 64 bits.
  result<std::shared_ptr<const reference_table>> table(std::uint64_t cells,
                                                       const std::vector<std::uint32_t>& objects = {}) const;

 private:
  reference_table::columns columns_;
  std::vector<reference_source> sources_;
  std::unordered_map<std::string, std::uint32_t> known_[2];  // locations, data
};

}  // namespace penstock::inline v0
