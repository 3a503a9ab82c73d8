#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "driver/open_reference.h"

namespace penstock::inline v0 {

/// How chunks are encoded, in the form of a `.zarray`.
struct chunk_codecs {
  json dtype;
  json::array_t filters;             ///< in the order of encoding, the compressor at the end
  std::vector<std::uint64_t> shape;  ///< of a chunk; empty: not known here

  /// A text that is equal for equal codecs.
  std::string key() const;
  /// The codecs in the form of a chain_variant.
  json own() const;
};

/// The codecs of a `.zarray`.
chunk_codecs codecs_of(const json& zarray);
/// The codecs of chunks without a variant.
/// \error internal  The array is not of Zarr 2.
result<chunk_codecs> usual_codecs(const referenced_array& of);
/// The codecs of a variant.
/// \param usual  The codecs of the array.
chunk_codecs codecs_of(const chain_variant& variant, const chunk_codecs& usual);

}  // namespace penstock::inline v0
