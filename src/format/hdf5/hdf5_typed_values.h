#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_attributes.h"

namespace penstock::inline v0 {

/// What JSON does not say of an attribute's value: the type that the file gives it.
struct hdf5_typed_value {
  std::string name;  ///< UTF-8
  /// `shape`, and one of: `dtype`, as a .zarray has it, whose elements are `items`; `numbers`, a dtype of integers
  /// whose values the JSON value has; `lists`, the dtype of the elements of lists of variable length; `texts`: true.
  json form;
  std::vector<std::byte> items;  ///< in C order, as stored
};

/// Nothing where the JSON value is all there is to say: text, lists of text, references, and what is not readable.
std::optional<hdf5_typed_value> hdf5_typed(const hdf5_attribute& from);

}  // namespace penstock::inline v0
