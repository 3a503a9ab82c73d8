#pragma once

#include <cstddef>
#include <string>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// A C-order block of at most two dimensions as lines of CSV, one for each row; with one dimension, one for each
/// element.
std::string csv_rows(const dtype& type, const extents& shape, const std::byte* data);

}  // namespace penstock::inline v0::cli
