#pragma once

#include <cstdint>
#include <memory>

#include <penstock/extend/codec.h>

namespace penstock::inline v0 {

/// The compressions of TIFF. Unlike Zarr's, their streams may hold more than the strip or tile needs, which is ignored;
/// they are not in the registry, because no metadata names them. All of them only decode.
///
/// They stop when `out` is full. If the stream has fewer bytes, they return those, and the chain refuses the chunk.

/// LZW with the most significant bit first, and the old variant with the least significant bit first, which its first
/// two bytes identify. Source: TIFF 6.0, section 13.
std::shared_ptr<const byte_codec> make_tiff_lzw_codec();
/// Source: TIFF 6.0, section 9.
std::shared_ptr<const byte_codec> make_tiff_packbits_codec();
/// Reverses the bits of each byte (FillOrder 2).
std::shared_ptr<const byte_codec> make_bit_reversal_codec();
/// zlib streams. Source: TIFF Technical Note 2.
std::shared_ptr<const byte_codec> make_tiff_deflate_codec();
result<std::shared_ptr<const byte_codec>> make_tiff_zstd_codec();
/// xz streams, with liblzma's filters.
result<std::shared_ptr<const byte_codec>> make_tiff_lzma_codec();

/// Decodes tiles that may hold only their first rows, as GDAL and tifffile read them: fills the missing rows with
/// zeros.
///
/// Fewer than `least_bytes`, or a part of a row, are returned unchanged: the chain refuses the chunk.
///
/// \param inner  The compression; null: the tiles are not compressed.
/// \param least_bytes  Of the rows that the image needs.
/// \param row_bytes, tile_bytes  Of one row and of all rows.
std::shared_ptr<const byte_codec> make_short_tile_codec(std::shared_ptr<const byte_codec> inner,
                                                        std::uint64_t least_bytes, std::uint64_t row_bytes,
                                                        std::uint64_t tile_bytes);

}  // namespace penstock::inline v0
