#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
/// `axis`, chunks of different lengths along it, and different codecs. Parts without elements are ignored. The result
/// has the names of dimensions that all parts share.
///
/// If the parts' chunks differ outside `axis`, or their fill values differ, the grid of the result (`chunks`, blocks)
/// is made of boxes of about a MiB of whole chunks. Reads fetch the chunks of the parts all the same.
/// \param parts  Arrays with one dtype, and with one shape outside `axis`. The result shares their stores.
/// \param axis   Less than the parts' rank.
/// \param with   The context of the result; null: the first part's.
/// \error invalid_argument  `parts` is empty, or a part differs from the first in dtype, rank or shape.
/// \error unsupported       Elements of variable length, more elements along `axis` than can be counted.
PENSTOCK_API result<array> join(std::span<const array> parts, std::size_t axis,
                                std::shared_ptr<penstock::context> with = nullptr);

/// The manifest of joined arrays, as a file that `open` reads: the location of each, its shape and dtype, and its size
/// and modification time. Each array is opened once more by its path, as the manifest will open it.
///
/// Manifests of `.npy` and raw files that `open_shards` opened are in <penstock/shards.h>; those of arrays of
/// references (HDF5) in <penstock/references.h>.
/// \param parts   Arrays that `open` of a local path returns: Zarr, TIFF, `.npy`.
/// \param axis    As for `join`.
/// \param folder  The folder of the file that the caller writes: arrays in it or below are named relative to it.
/// \error invalid_argument  As `join`'s; an array that its path alone does not open. \error conflict  An array does not
/// exist any more, or has another shape or dtype. \error unsupported  As `join`'s; a dtype that manifests do not have.
PENSTOCK_API result<std::vector<std::byte>> save_manifest(std::span<const array> parts, std::size_t axis,
                                                          std::string_view folder);

}  // namespace penstock::inline v0
