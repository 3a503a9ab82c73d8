#pragma once

#include <cstdint>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// What a codec of a chain gets, or hands on: an array as long as only array codecs came before it, then bytes.
struct stage_type {
  /// Of the items, as the codec before produced them. Of bytes: of the last array's items, which shuffles and
  /// compressors take their item size from.
  dtype type;
  /// Of the array, in C order. Bytes have one dimension: their number at most, kUnbounded where nobody knows.
  extents shape;
  bool is_array = true;
  bool exact = true;        ///< the number of bytes is what `shape` says; else it is at most that
  bool big_endian = false;  ///< items are stored so here (filters of Zarr v2 see the stored byte order)

  static stage_type bytes_of(const dtype& type, std::uint64_t bytes, bool exact) {
    return {type, {bytes}, false, exact, false};
  }

  /// How many bytes these are, or at most; kUnbounded where nobody knows or 64 bits do not hold it.
  std::uint64_t bytes() const noexcept;
};

}  // namespace penstock::inline v0
