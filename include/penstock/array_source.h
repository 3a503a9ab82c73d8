#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// Elements that a function returns: a file in a format of the caller's, or computed values.
struct array_source {
  std::string name;  ///< for errors and plans
  dtype type;        ///< has a fixed length
  extents shape;
  /// A box that costs about as much to read as one of its elements. It has the rank of `shape`, and no length is 0.
  /// Several small ones are read together.
  extents chunks;
  /// Writes the elements of `which` to `out`: C order, native byte order, all of them.
  ///
  /// Called on the threads of a read, several at a time; it may block. Its error becomes the read's, with a note that
  /// names the source and the box. An exception that it throws is an `io_error`.
  std::function<result<>(const box& which, std::span<std::byte> out)> read;
};

/// Sources along one dimension, as one read-only array. Nothing is read.
///
/// A read requests the boxes that the selection touches, each once. Sources may have different lengths along `axis`,
/// and different chunks. Sources without elements are ignored.
/// \param axis  Less than the sources' rank.
/// \param with  The context of the result; null: one of its own.
/// \error invalid_argument  `parts` is empty, a source has no function, or it differs from the first in dtype, rank or
///                          shape. \error unsupported  Elements of variable length or of no bytes, too many boxes.
PENSTOCK_API result<array> open_sources(std::vector<array_source> parts, std::size_t axis,
                                        std::shared_ptr<context> with = nullptr);

}  // namespace penstock::inline v0
