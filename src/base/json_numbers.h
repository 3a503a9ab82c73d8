#pragma once

#include <string>
#include <string_view>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

/// As `json::dump`, for a changed form of a document. A number with the same place and value as in `before` has the
/// same text (`1.50`, `1e3`).
///
/// \param before  The document before the change; if it is not JSON, the result is that of `json::dump`.
std::string dump_like(const json& value, std::string_view before, int indent);

}  // namespace penstock::inline v0
