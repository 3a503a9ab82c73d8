#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>

#include <string_view>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

/// Parses `data_type` of a zarr.json: a name, or an object with a name and a configuration.
///
/// In addition to the registered names it accepts those that zarr-python writes (`raw_bytes`, `structured`,
/// `null_terminated_bytes`, `variable_length_bytes`).
/// \error unsupported  A type, or a setting of one, by name. \error corrupt_data  Malformed.
/// Source: Zarr v3 core specification; zarr-extensions, data-types; zarr-python 3.4, zarr.core.dtype.
result<dtype> parse_data_type(const json& value, std::string_view path = "data_type");

/// Whether a type is long double, or a structure with such fields. Version 3 does not have this type; version 2 can
/// only be read.
bool has_long_doubles(const dtype& type) noexcept;

/// The member `data_type`.
/// \error unsupported  A type without a form in version 3 (`object`), or a structure with gaps.
result<json> write_data_type(const dtype& type);

/// `dtype` of a .zarray, and how its items are stored.
struct zarr_v2_type {
  dtype type;
  /// The `endian` of the codec `bytes`: null if byte order does not matter, `"little"` or `"big"`, or a list with one
  /// of these for each leaf of a structure.
  json endian;
};

/// Parses `dtype` of a .zarray: NumPy's type string, a list of fields, or a v3 name (`bfloat16`, `int4`), which
/// tensorstore writes. `|O` is `object`; its codec determines the elements.
/// \error unsupported, corrupt_data  As above.
/// Source: Zarr v2 specification, "Data type encoding".
result<zarr_v2_type> parse_v2_dtype(const json& value, std::string_view path = "dtype");

/// The member `dtype` of a .zarray.
/// \error unsupported  A type without a form in version 2.
result<json> write_v2_dtype(const dtype& type, const json& endian);

}  // namespace penstock::inline v0
