#pragma once

// What the host reads of HDF5's bitshuffle filter before the device decodes its blocks.

#include <cstdint>
#include <span>

#include <penstock/result.h>

#include "cuda/decode/blosc_scan.h"

namespace penstock::inline v0::device {

/// Reads the headers of bytes that the filter made, as a Blosc frame that says the same: a split for each compressed
/// block, and the blocks that are shuffled back; the last elements, no group of eight, are a block that is copied.
/// Where `compressed` is false there are no splits: blocks lie where they will, in the encoded bytes.
///
/// \param item_bytes      Of an element, at least 1.
/// \param block_elements  0: what the filter takes by itself. A header that names another size has the last word.
/// \param compressor      lz4 or zstd; of no meaning where nothing is compressed.
/// \error corrupt_data  They contradict the format or `decoded_bytes`.
/// \error unsupported   Blocks so small that the host decodes them better.
/// Source: the registration of filter 32008 with the HDF Group, and the layout that bitshuffle documents.
result<blosc_frame> scan_bitshuffle(std::span<const std::byte> bytes, std::uint64_t decoded_bytes,
                                    std::uint32_t item_bytes, std::uint64_t block_elements, bool compressed,
                                    blosc_compressor compressor);

}  // namespace penstock::inline v0::device
