#include "driver/chunk_codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::inline v0 {

std::string chunk_codecs::key() const {
  return dtype.dump() + json(filters).dump() + json(json::array_t(shape.begin(), shape.end())).dump();
}

json chunk_codecs::own() const { return json(json::object_t{{"dtype", dtype}, {"filters", json(filters)}}); }

chunk_codecs codecs_of(const json& zarray) {
  chunk_codecs out;
  if (const json* const type = zarray.find("dtype")) out.dtype = *type;
  if (const json* const filters = zarray.find("filters"); filters != nullptr && filters->as_array() != nullptr)
    out.filters = *filters->as_array();
  if (const json* const compressor = zarray.find("compressor"); compressor != nullptr && !compressor->is_null())
    out.filters.push_back(*compressor);
  return out;
}

result<chunk_codecs> usual_codecs(const referenced_array& of) {
  for (const auto& [name, text] : of.documents) {
    if (name != ".zarray") continue;
    PENSTOCK_ASSIGN(const json document, json::parse(text));
    chunk_codecs out = codecs_of(document);
    out.shape.assign(of.metadata.grid.chunk.begin(), of.metadata.grid.chunk.end());
    return out;
  }
  return error(errc::internal, fmt::format("'{}' has no .zarray", of.uri));
}

chunk_codecs codecs_of(const chain_variant& variant, const chunk_codecs& usual) {
  chunk_codecs out = usual;
  if (variant.shape) out.shape.assign(variant.shape->begin(), variant.shape->end());
  if (!variant.own.is_null()) {
    if (const json* const type = variant.own.find("dtype")) out.dtype = *type;
    const json* const filters = variant.own.find("filters");
    out.filters = filters != nullptr && filters->as_array() != nullptr ? *filters->as_array() : json::array_t();
    return out;
  }
  json::array_t left;
  for (std::size_t i = 0; i < out.filters.size(); ++i)
    if (std::find(variant.skipped.begin(), variant.skipped.end(), i) == variant.skipped.end())
      left.push_back(out.filters[i]);
  out.filters = std::move(left);
  return out;
}

}  // namespace penstock::inline v0
