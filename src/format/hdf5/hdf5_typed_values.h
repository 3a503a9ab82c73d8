#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_attributes.h"

namespace penstock::inline v0 {

/// The type that the file gives an attribute's value, which JSON does not represent.
struct hdf5_typed_value {
  std::string name;  ///< UTF-8
  /// `shape`, and one of: `dtype`, as in a .zarray, whose elements are `items`; `numbers`, a dtype of integers, whose
  /// values are in the JSON value; `lists`, the dtype of the elements of lists of variable length; `texts`: true.
  json form;
  std::vector<std::byte> items;  ///< in C order, as stored
};

/// Returns nothing if the JSON value is complete: text, lists of text, references, and unreadable values.
std::optional<hdf5_typed_value> hdf5_typed(const hdf5_attribute& from);

}  // namespace penstock::inline v0
