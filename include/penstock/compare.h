#pragma once

#include <penstock/array.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// Reads two arrays in blocks and compares their elements. All NaNs are equal.
///
/// Dimensions of length 1 are ignored: an image and its only band are equal. Numbers of different types are compared in
/// the larger type; if both have the same size, in the type to which the other can be converted. All other types are
/// compared as bytes.
/// \param now  Bytes of `from` that are compared; false stops (`cancelled`).
/// \error corrupt_data      The shapes differ, or elements do; the message names the first one.
/// \error invalid_argument  Elements of these types cannot be compared.
PENSTOCK_API result<> compare(const array& from, const array& made, const progress_fn& now = {});

}  // namespace penstock::inline v0
