#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/selection.h>
#include <penstock/shape.h>
#include <penstock/store.h>
#include "support/random_selection.h"

namespace penstock::test {

/// The properties of a generated array.
struct model_options {
  extents shape, chunks;
  std::optional<extents> shards;        ///< chunks of the chunk grid when present
  std::optional<extents> inner_shards;  ///< one more level between shards and chunks
  std::string dtype = "int32";
  std::string codecs = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
  bool index_at_start = false;
  double missing = 0;              ///< share of chunks (and shards) that are not written
  unsigned least = 0, values = 7;  ///< each byte is one of this many values, from `least` on
  std::uint64_t seed = 1;
};

/// A Zarr v3 array written in a simple way, chunk by chunk, and its values in memory, for comparison with reads.
///
/// Shares the codecs with the library and nothing else: grid, index and key are written out again here.
struct model_array {
  model_options options;
  std::uint32_t item_bytes = 0;
  std::vector<std::byte> values;  ///< C order, whole shape; missing chunks hold the fill value

  /// The selected values in C order, element by element.
  std::vector<std::byte> select(const resolved_basic& which) const;
  std::vector<std::byte> select(const selection& which) const;
  /// The inverse: `items` in C order become the selected values.
  void assign(const resolved_basic& which, const std::vector<std::byte>& items);
  void assign(const selection& which, const std::vector<std::byte>& items);
};

/// Writes zarr.json and all objects below `prefix` ("" or "a/") of `to`.
model_array write_model(penstock::store& to, const std::string& prefix, const model_options& options);

/// Writes one random array: rank 0 to 4, small primes, any of the layouts.
model_options random_model(std::mt19937_64& random);

}  // namespace penstock::test
