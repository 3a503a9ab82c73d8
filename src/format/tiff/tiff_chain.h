#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "codec/codec_chain.h"
#include "format/tiff/tiff_image.h"

namespace penstock::inline v0 {

/// The chain that decodes one tile or strip, and its properties.
struct tiff_chain {
  codec_chain chain;
  tiff_samples samples;  ///< of the decompressed bytes
  bool compressed = false;
  std::uint64_t max_ratio = 1;  ///< the largest ratio of a stream's output to its length
};

/// Returns true if streams of the compression decode row by row, so that a tile's can end after the image's rows.
bool may_hold_fewer_rows(tiff_compression compression) noexcept;

/// \param rows       Of the tile or strip.
/// \param band_axis  Of the cell: 0, 2, or -1.
/// \param picked     The samples of a pixel that are the cell's bands.
/// \param least_rows  Fewer than `rows`: streams that hold only this many first rows, or more, are accepted too. Only
///              for compressions with `may_hold_fewer_rows`.
/// \error unsupported  The compression, by name. \error corrupt_data  Sizes beyond 62 bits.
result<tiff_chain> make_tiff_chain(const tiff_image& image, std::uint64_t rows, int band_axis,
                                   const std::vector<std::uint32_t>& picked,
                                   std::uint64_t least_rows = std::numeric_limits<std::uint64_t>::max());

}  // namespace penstock::inline v0
