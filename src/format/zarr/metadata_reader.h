#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <penstock/extend/json.h>
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// Typed reads from a zarr.json, each with an error that names the member by its path:
/// `zarr.json: member 'shape' is a string, needs a list of integers`.

/// \error corrupt_data  States that `value`, at `path`, is not what it `needs` to be.
error wrong_member(const json& value, std::string_view path, std::string_view needs);

/// `value` as compact text for a message, truncated after about 60 bytes: a hostile document must not make hostile
/// messages.
std::string brief(const json& value);

/// A required member of `object`.
/// \error corrupt_data  `parent` does not have it.
result<const json*> required_member(const json& object, std::string_view parent, std::string_view name);

/// A list of integers, each from `least` to 2^63 - 1.
/// \error corrupt_data  Anything else. \error unsupported  More than kMaxRank of them.
result<extents> read_extents(const json& value, std::string_view path, std::uint64_t least);

/// An extension point: `"name"` or `{"name": ..., "configuration": {...}}`.
///
/// `must_understand` is allowed and ignored: unknown extensions are refused, because an array without one of its codecs
/// would read as other values.
/// \error corrupt_data  Not of that form. \error unsupported  A further member, by name.
result<codec_config> read_named(const json& value, std::string_view path);

/// \error unsupported  Names the first member of `configuration` that is not among `known`. Null has no members.
result<> only_members(const json& configuration, std::string_view path, std::initializer_list<std::string_view> known);

/// The same error about another document: `.zarray: member ...`.
error of_document(error from, std::string_view document);

}  // namespace penstock::inline v0
