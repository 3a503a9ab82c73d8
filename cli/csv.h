#pragma once

#include <cstddef>
#include <string>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0::cli {

/// A C-order block of at most two dimensions as lines of CSV, one for each row; with one dimension, one for each
/// element.
std::string csv_rows(const dtype& type, const extents& shape, const std::byte* data);

/// Lines of CSV as they are written to `descriptor`: on a terminal, which would execute them, control characters become
/// `\x1b`.
std::string csv_for(int descriptor, std::string lines);

}  // namespace penstock::inline v0::cli
