#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <string_view>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

enum class text_encoding : std::uint8_t { latin1, utf8 };

/// Parses a Python literal of dictionaries, tuples, lists, strings, whole numbers, True, False and None, as JSON:
/// tuples become arrays, and strings become UTF-8. The `3L` and `u''` of Python 2 are accepted too.
/// \error corrupt_data  With the reason and the byte. Nesting beyond 32 levels is refused.
result<json> parse_python_literal(std::string_view text, text_encoding encoding);

}  // namespace penstock::inline v0
