#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// A storage object that consists of a header and then all elements of one array, uncompressed, in C order.
struct contiguous_object {
  std::string key;                ///< key of the object, relative to the store's root
  std::vector<std::byte> header;  ///< all bytes before the first element
  extents shape;
  dtype type;
  bool big_endian = false;                 ///< the byte order of the elements
  std::uint64_t bytes = byte_range::kAll;  ///< size of the object; kAll: the store does not report it, or it is new
};

/// Makes the layout of such an object. Its cells are blocks of about a MiB.
///
/// It has an assembler, so the array can be written: the whole object is rewritten, with the same header, and elements
/// that were never written are 0. Without an old object it makes a new one.
/// \error corrupt_data  The object is too short for the elements. \error unsupported  The array has more than 2^63
/// bytes, or the type has items of variable length.
PENSTOCK_API result<std::shared_ptr<const chunk_layout>> make_contiguous_layout(contiguous_object what);

}  // namespace penstock::inline v0
