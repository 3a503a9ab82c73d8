#pragma once

#include <string>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include <penstock/result.h>
#include "opened.h"

namespace penstock::inline v0::cli {

/// The facts about a TIFF's first image with the names of `rio cogeo info`, and whether the file is a valid COG.
/// \param target  As given by the user.
/// \param namer   Names its coordinate system; null: its code, or the file's own text, or its keys without a name.
/// \error corrupt_data  A tag, by number. \error As of `open_tiff`.
result<json> tiff_document(const array& first, const std::string& target, const system_namer* namer);

/// The document as text.
std::string tiff_text(const json& document);

}  // namespace penstock::inline v0::cli
