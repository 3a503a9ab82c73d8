#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>

namespace penstock::inline v0 {

/// Opens many arrays, several at a time: files and folders that wait for storage are opened by more threads.
///
/// \param uris     As `open_array` takes them. \param options  Of each; a null context is one context for all.
/// \returns The arrays in the order of `uris`.
/// \error As `open_array`'s, of the first array in that order that cannot be opened.
PENSTOCK_API result<std::vector<array>> open_arrays(std::span<const std::string> uris,
                                                    const open_options& options = {});

/// Arrays along one dimension, as one read-only array.
///
/// A read fetches and decodes the chunks of the parts, each by its own codecs. Parts may have different lengths along
/// `axis`, chunks of different lengths along it, and different codecs. Parts without elements are left out.
///
/// Parts that are cut into other chunks outside `axis`, or have other fill values, are read box by box: a box is about
/// a MiB of whole chunks, a read of one thread, as `open_sources` (<penstock/array_source.h>) would make it of a
/// function.
/// \param parts  Of one dtype, and of one shape outside `axis`. The result shares their stores.
/// \param axis   Less than the parts' rank.
/// \param with   The context of the result; null: that of the first part.
/// \error invalid_argument  `parts` is empty, or a part differs from the first in dtype, rank or shape.
/// \error unsupported       Elements of variable length, more elements along `axis` than can be counted.
PENSTOCK_API result<array> join(std::span<const array> parts, std::size_t axis,
                                std::shared_ptr<penstock::context> with = nullptr);

}  // namespace penstock::inline v0
