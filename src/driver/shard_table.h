#pragma once

#include <penstock/extend/driver.h>
#include <penstock/shards.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "format/raw/raw_layout.h"

namespace penstock::inline v0 {

/// Facts about the files of one array: all that is needed to open it without reading one of them.
struct shard_table {
  std::string format;  ///< `npy`, `raw`
  json descr;          ///< the dtype as NumPy's `descr`
  storage_order order = storage_order::c;
  extents shape;
  std::size_t axis = 0;
  std::vector<raw_part> parts;                          ///< also the empty ones
  std::vector<std::optional<std::uint32_t>> checksums;  ///< crc32c of each file; empty: none is known
};

/// Reads the headers of all files, in parallel, and compares them.
/// \param head  The first bytes of the one file, read before; null: they are read.
result<shard_table> scan_shards(const store& from, std::vector<std::string> keys, const shard_options& options,
                                context& with, const object_head* head = nullptr);

/// Queries each file, in parallel, and marks those that do not exist.
/// \error As the store's, except not_found.
result<> mark_missing(const store& from, shard_table& table, context& with);

/// \param uri  The name of the array in errors.
result<array> open_table(std::shared_ptr<const store> from, std::shared_ptr<const shard_table> table,
                         std::shared_ptr<context> with, std::string uri);

/// Needs at most a few times as much memory as `bytes`.
/// \error corrupt_data  A member is missing, has another type or an impossible value.
result<shard_table> parse_manifest(std::span<const std::byte> bytes, std::string& root);
std::vector<std::byte> write_manifest(const shard_table& table, std::string_view root, manifest_form form);

/// Prefixes the keys, which are relative to `folder`, with it (empty: they are relative to the store).
void move_below(std::string_view folder, shard_table& table);

/// The length along `axis` must be the sum of the lengths of the parts; the number of all elements must fit in 64 bits.
result<> add_lengths(shard_table& table);

}  // namespace penstock::inline v0
