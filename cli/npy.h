#pragma once

#include <string>

#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// The header of a C-order `.npy` file of version 1.0, padded so that the data begins at a multiple of 64 bytes.
///
/// \error unsupported  NumPy does not have the dtype. Source: NumPy's `numpy.lib.format`.
result<std::string> npy_header(dtype type, const extents& shape);

}  // namespace penstock::inline v0::cli
