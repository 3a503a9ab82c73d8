#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "driver/chunk_codecs.h"
#include "driver/open_reference.h"

namespace penstock::inline v0 {

/// One of the arrays that are joined: the part of a referenced_array that differs between files of one kind.
struct reference_part {
  extents shape;
  extents chunks;                                ///< as its metadata has them
  std::shared_ptr<const reference_table> table;  ///< null: every element is the fill value
  std::vector<chain_variant> variants;
  std::vector<referenced_object> objects;
  std::shared_ptr<const chunk_codecs> codecs = nullptr;  ///< null: those of `like`
};

/// The references of arrays that follow each other along `axis`, as those of one array. Of regular references, time and
/// memory are in proportion to the runs and not to the references.
///
/// \param like  The properties that they share: dtype, codecs, item order, fill value, attributes, dimension names.
/// \param parts  Arrays with the rank of `like` and, outside of `axis`, one shape. They are moved from.
/// \returns Nothing if one table of references cannot describe them: the parts have different chunks in other
///          dimensions, or there are too many chunks of unequal lengths.
/// \error unsupported  More than 2^64 elements along the axis, or more chunks than 2^64.
result<std::optional<referenced_array>> merge_references(const referenced_array& like,
                                                         std::vector<reference_part> parts, std::size_t axis);

}  // namespace penstock::inline v0
