#pragma once

// The headers of HDF5's bitshuffle filter, which the host reads before the device decodes the blocks.

#include <cstdint>
#include <span>

#include <penstock/result.h>

#include "cuda/decode/blosc_scan.h"

namespace penstock::inline v0::device {

/// Reads the headers in bytes that the filter made, as an equivalent Blosc frame: a split for each compressed block,
/// and the blocks to unshuffle; the last elements, less than a group of eight, are a block that is copied.
/// If `compressed` is false, the frame has no splits: the encoded bytes contain the blocks at their final offsets.
///
/// \param item_bytes      Size of an element, at least 1.
/// \param block_elements  0: the filter's default. A header with another size overrides it.
/// \param compressor      lz4 or zstd; ignored if nothing is compressed.
/// \error corrupt_data  They contradict the format or `decoded_bytes`.
/// \error unsupported   Blocks so small that the host decodes them better.
/// Source: the registration of filter 32008 with the HDF Group, and the layout that bitshuffle documents.
result<blosc_frame> scan_bitshuffle(std::span<const std::byte> bytes, std::uint64_t decoded_bytes,
                                    std::uint32_t item_bytes, std::uint64_t block_elements, bool compressed,
                                    blosc_compressor compressor);

}  // namespace penstock::inline v0::device
