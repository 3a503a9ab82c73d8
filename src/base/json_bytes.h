#pragma once

#include <string>
#include <string_view>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

/// JSON whose strings may contain bytes that are not UTF-8, as names of files do: each is an escape from `\udc80` to
/// `\udcff`, as Python's json module writes it.

/// As `json::parse`; these escapes become the bytes.
result<json> parse_json_with_bytes(std::string_view text);

/// As `json::dump`; bytes that are not UTF-8 become escapes instead of U+FFFD.
std::string dump_json_with_bytes(const json& value);

}  // namespace penstock::inline v0
