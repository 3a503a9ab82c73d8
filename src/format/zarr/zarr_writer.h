#pragma once

#include <penstock/result.h>

#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/json.h>
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// A document of a node: its key within the node's folder, and its content.
struct zarr_document {
  std::string key;
  json content;
};

/// The documents for `metadata`; the one that makes the folder a node is last. Version 3: zarr.json. Version 2:
/// .zattrs, then .zarray or .zgroup. They contain `codecs_json` (3), `filters` and `compressor` (2); `codecs` is not
/// used.
/// \error unsupported  A data type or a chunk grid that the version of the format does not have.
result<std::vector<zarr_document>> write_zarr_documents(const zarr_metadata& metadata);

/// As zarr-python writes them: indented by two, without a final newline.
std::string document_text(const json& content);

/// `document` with `value` as its member `name`, at its old position or at the end.
json with_member(const json& document, std::string_view name, json value);

}  // namespace penstock::inline v0
