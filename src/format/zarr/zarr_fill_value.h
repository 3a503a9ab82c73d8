#pragma once

#include <penstock/dtype.h>
#include <penstock/result.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "array/small_float.h"

namespace penstock::inline v0 {

/// One item in memory: native byte order.
struct zarr_fill {
  std::vector<std::byte> item;              ///< `type.item_bytes()` bytes
  std::shared_ptr<const std::string> text;  ///< the target of a variable_item; null if it is empty
};

/// Parses a `fill_value` of a zarr.json.
///
/// Accepts true and false (and 0 and 1, which zarrita wrote); integers, exact to 64 bits; numbers, `"NaN"`,
/// `"Infinity"`, `"-Infinity"` and bit patterns such as `"0x7fc00001"` for floats; `[re, im]` of those for complex;
/// integers and `"NaT"` for times; base64 or a list of byte values for bytes of any kind; text for strings; an object
/// with the fields of a structure, or its bytes in base64. A number that is too large for its float type becomes
/// infinite, as in NumPy; rounding is to nearest, ties to even.
/// \error corrupt_data  Not a value of that type. \error unsupported  A type without fill values here. Source: Zarr v3
/// core specification, "Fill value"; zarr-extensions, data-types; zarr-python 3.4, zarr.core.dtype.
result<zarr_fill> parse_fill_value(const json& value, const dtype& type);

/// Parses a `fill_value` of a .zarray.
///
/// As above, and null: zeros, NaT for times, as in zarr-python. Structures are base64 of a stored item. 0 is the empty
/// value of bytes and structures.
/// \param endian  Of `zarr_v2_type`.
/// Source: Zarr v2 specification, "Fill value encoding".
result<zarr_fill> parse_v2_fill_value(const json& value, const dtype& type, const json& endian);

/// The member `fill_value` for an item of that type, exact: a NaN other than the usual one is a bit pattern.
/// \error unsupported  A type without fill values.
result<json> write_fill_value(std::span<const std::byte> item, const dtype& type);

/// The same for a .zarray, whose only NaN is `"NaN"`.
result<json> write_v2_fill_value(std::span<const std::byte> item, const dtype& type, const json& endian);

/// Returns which leaves of a structure must be byte-swapped between memory and storage; one entry for a plain item.
std::vector<bool> swapped_leaves(const dtype& type, const json& endian);

}  // namespace penstock::inline v0
