#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <penstock/dtype.h>
#include <penstock/extend/json.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// The name of a type, with the unit of times and the fields of structures: `numpy.datetime64[10ms]`,
/// `struct (a: int32, b: float64 (2,))`.
std::string type_text(const dtype& type);
/// As `type_text`, without the fields of a structure.
std::string short_type_text(const dtype& type);

/// One element as Python would write it: `True`, `-3`, `0.1`, `nan`, `(1+2j)`, `'text'`, `0x0aff`, `(1, 0.5)`. A date
/// is written as NumPy writes it, without quotes: `2020-01-01T06:30`.
///
/// Floating values have the fewest digits that give the same value back in their own type.
std::string item_text(dtype type, const std::byte* item);

/// The characters of a text element; nullopt for other types.
std::optional<std::string> plain_text(const dtype& type, const std::byte* item);

/// One element as a field of a CSV file, in quotes if necessary. Source: RFC 4180.
std::string csv_text(const dtype& type, const std::byte* item);

/// One element as JSON. Not-a-number and infinities are the strings that Zarr uses for them; a complex value is a pair,
/// a date the text of `item_text`, a structure an object.
json item_json(dtype type, const std::byte* item);

/// A C-order block as NumPy prints it: nested brackets, aligned columns, lines of at most 75 columns if possible.
std::string block_text(dtype type, const extents& shape, const std::byte* data);

/// A C-order block as nested JSON arrays; a single element if the rank is 0.
json block_json(dtype type, const extents& shape, const std::byte* data);

}  // namespace penstock::inline v0::cli
