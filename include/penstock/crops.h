#pragma once

#include <optional>
#include <span>

#include <penstock/array.h>
#include <penstock/device.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// A box of an array: one of several that are read together. `which` has no lists.
struct array_crop {
  array from;
  resolved_selection which;
};

/// Reads crops of any arrays into one tensor, as one read: a chunk that several of them need is fetched and decoded
/// once. (Two arrays are the same if they are copies of one `array`.)
///
/// \param out      Shape (crops, *shape of each crop); borrowed until the ticket is done.
/// \param options  As for `array::read_async`, with the context of the first array.
/// \error invalid_argument  Crops of several shapes, or none; an `out` of another shape; a dtype that differs.
/// \error unsupported       Lists, points or masks; items of variable length.
PENSTOCK_API result<ticket> read_crops_async(std::span<const array_crop> crops, const tensor_view& out,
                                             const read_options& options = {});

/// The same into device memory; without `out`, memory from the pool. `options.type` is the type of all elements.
/// \error invalid_argument  Arrays of several dtypes, and no `options.type`.
PENSTOCK_API result<device_tensor> read_crops_to_device(std::span<const array_crop> crops,
                                                        const std::optional<tensor_view>& out = std::nullopt,
                                                        const device_read_options& options = {});

}  // namespace penstock::inline v0
