#pragma once

#include <penstock/array.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// Reads two arrays in blocks and compares their elements. Every NaN equals every other one.
///
/// Dimensions of length 1 do not count: an image and its only band are equal. Numbers of different types are compared
/// in the larger type; if both have one size, in the type to which the other can be converted. All other types are
/// compared as bytes.
/// \param now  Bytes of `from` that are compared; false stops (`cancelled`).
/// \error corrupt_data      Elements differ; names the first one. The shapes differ.
/// \error invalid_argument  Elements of these types cannot be compared.
PENSTOCK_API result<> compare(const array& from, const array& made, const progress_fn& now = {});

}  // namespace penstock::inline v0
