#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/json.h>
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

struct zarr_shard;

/// One `codecs` list. With `sharding_indexed` in it, the list is divided into the codecs before, the shard, and those
/// after it.
struct zarr_codecs {
  std::vector<codec_config> chain;          ///< every codec; with a shard only those before it
  std::shared_ptr<const zarr_shard> shard;  ///< null: not sharded
  std::vector<codec_config> behind;         ///< bytes-to-bytes codecs over the whole shard
};

/// The configuration of `sharding_indexed`. Nests: `codecs` may hold the next shard.
struct zarr_shard {
  json configuration;  ///< as in the document
  extents chunk;       ///< inner chunk, in the order of dimensions after the codecs before the shard
  zarr_codecs codecs;
  std::vector<codec_config> index_codecs;
  bool index_at_start = false;
};

/// Parses a `codecs` list; `path` is its place in the document.
///
/// The existence of codecs is not checked here: the layout compiles the chain.
/// \error corrupt_data  Malformed. \error unsupported  Unknown members. Source: Zarr v3 core specification, "codecs";
/// sharding codec specification, version 1.0.
result<zarr_codecs> parse_zarr_codecs(const json& list, std::string_view path);

/// Parses the configuration of `sharding_indexed`.
/// \error As parse_zarr_codecs.
result<std::shared_ptr<const zarr_shard>> parse_zarr_shard(const json& configuration, const std::string& path);

/// The `list` with each transpose's order as a list, which is the only form that the codecs accept.
result<std::vector<codec_config>> whole_chain(const zarr_codecs& list, std::size_t rank);

/// The permutation of a `transpose` codec: the i-th dimension that leaves it is dimension `order[i]` before it. Accepts
/// a list, and `"C"` and `"F"`, which writers of 2022 and 2023 used.
/// \error corrupt_data  Not a permutation of `rank` dimensions.
result<dim_vector<std::uint64_t>> parse_transpose_order(const codec_config& codec, std::size_t rank);

}  // namespace penstock::inline v0
