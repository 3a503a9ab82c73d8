#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>

namespace penstock::inline v0 {

/// Opens many arrays, several at a time. If opening waits for storage, more threads are used.
///
/// \param uris  As `open_array` takes them. \param options  For each array; if the context is null, all share one new
/// context.
/// \returns The arrays in the order of `uris`.
/// \error As `open_array`'s, of the first array in that order that cannot be opened.
PENSTOCK_API result<std::vector<array>> open_arrays(std::span<const std::string> uris,
                                                    const open_options& options = {});

/// Arrays along one dimension, as one read-only array.
///
/// A read fetches and decodes the chunks of the parts, each with its own codecs. Parts may have different lengths along
/// `axis`, chunks of different lengths along it, and different codecs. Parts without elements are ignored.
///
/// Parts whose chunks differ outside `axis`, or whose fill values differ, are read box by box, as `open_sources`
/// (<penstock/array_source.h>) reads a function: a box is about a MiB of whole chunks, read by one thread.
/// \param parts  Arrays with one dtype, and with one shape outside `axis`. The result shares their stores.
/// \param axis   Less than the parts' rank.
/// \param with   The context of the result; null: the first part's.
/// \error invalid_argument  `parts` is empty, or a part differs from the first in dtype, rank or shape.
/// \error unsupported       Elements of variable length, more elements along `axis` than can be counted.
PENSTOCK_API result<array> join(std::span<const array> parts, std::size_t axis,
                                std::shared_ptr<penstock::context> with = nullptr);

}  // namespace penstock::inline v0
