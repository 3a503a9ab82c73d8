#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/extend/codec.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

enum class sample_kind : std::uint8_t { unsigned_integer, signed_integer, floating, complex_integer, complex_floating };

/// The layout of a strip's or tile's samples in its decompressed bytes.
struct tiff_samples {
  std::uint64_t rows = 0, width = 0;
  std::uint32_t samples = 1;  ///< in one pixel of these bytes
  std::uint32_t bits = 8;     ///< of each sample; of a complex one both halves
  sample_kind kind = sample_kind::unsigned_integer;
  bool big_endian = false;
  std::uint32_t predictor = 1;
  bool mask = false;  ///< integers of 8 bits or fewer become 0 or 255

  /// Bytes of all rows.
  std::uint64_t bytes() const noexcept { return rows * row_bytes(); }
  /// Bytes of one row, which begins on a byte.
  std::uint64_t row_bytes() const noexcept { return (width * samples * bits + 7) / 8; }
};

/// The element type of the samples: the next wider one that NumPy has. Complex integers of 16 bits become complex64, of
/// 32 bits complex128; floats of 24 bits become float32: all without loss.
/// \error unsupported  Floats of another width, complex numbers of odd width.
result<dtype> type_of_samples(std::uint32_t bits, sample_kind kind);

/// Undoes predictor and byte order and unpacks, a row at a time: from a strip's or tile's bytes to native items, in the
/// order (row, column, sample).
///
/// \param picked  The selected samples of a pixel, in their order.
/// \error unsupported, corrupt_data  A predictor that the samples do not allow.
result<std::shared_ptr<const byte_codec>> make_tiff_samples(const tiff_samples& from,
                                                            std::vector<std::uint32_t> picked);

}  // namespace penstock::inline v0
