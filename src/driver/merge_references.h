#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "driver/chunk_codecs.h"
#include "driver/open_reference.h"

namespace penstock::inline v0 {

/// Lengths by dimension. `extents` has room for 32 of them, which is too much for each of thousands of files.
using short_extents = std::vector<std::uint64_t>;
inline extents extents_of(const short_extents& lengths) { return extents(std::span<const std::uint64_t>(lengths)); }

/// One of the joined arrays: the members of a referenced_array that differ between files of one kind.
struct reference_part {
  short_extents shape;
  short_extents chunks;                          ///< as in its metadata
  std::shared_ptr<const reference_table> table;  ///< null: every element is the fill value
  std::vector<chain_variant> variants;
  std::vector<referenced_object> objects;
  std::shared_ptr<const chunk_codecs> codecs = nullptr;  ///< null: those of `like`
  std::shared_ptr<const joined_axis> edges = nullptr;    ///< null: all cells have the length of `chunks`
};

/// The references of arrays that follow each other along `axis`, as those of one array. For regular references, time
/// and memory are in proportion to the runs and not to the references.
///
/// \param like  The properties that they share: dtype, codecs, item order, fill value, attributes, dimension names.
/// \param parts  Arrays with the rank of `like` and, outside of `axis`, one shape. Their objects are moved to the
/// result.
/// \returns Nothing, with the parts as they were, if one table of references cannot describe them: the parts have
/// different chunks in other dimensions, or chunks of unequal lengths there, or too many of them along `axis`.
/// \error unsupported  More than 2^64 elements along the axis, or more chunks than 2^64.
result<std::optional<referenced_array>> merge_references(const referenced_array& like,
                                                         std::span<reference_part* const> parts, std::size_t axis);

}  // namespace penstock::inline v0
