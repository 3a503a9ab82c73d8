#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "driver/open_reference.h"

namespace penstock::inline v0 {

/// How chunks are encoded, as a `.zarray` says it.
struct chunk_codecs {
  json dtype;
  json::array_t filters;             ///< in the order of encoding, the compressor at the end
  std::vector<std::uint64_t> shape;  ///< of a chunk; empty: it is not known here

  /// Equal for equal codecs.
  std::string key() const;
  /// As a chain_variant holds them.
  json own() const;
};

/// The codecs that a `.zarray` has.
chunk_codecs codecs_of(const json& zarray);
/// Those of chunks without a variant. \error internal  The array is not of Zarr 2.
result<chunk_codecs> usual_codecs(const referenced_array& of);
/// Those of a variant. \param usual  Of the array.
chunk_codecs codecs_of(const chain_variant& variant, const chunk_codecs& usual);

}  // namespace penstock::inline v0
