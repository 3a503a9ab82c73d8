#pragma once

#include <penstock/extend/layout.h>
#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// Of text of variable length, which is read whole.
inline constexpr std::uint64_t kMostHdf5TextBytes = std::uint64_t{1} << 28;

/// The values of a dataset of text of variable length: one cell of the codecs vlen-utf8 and vlen-bytes.
///
/// HDF5 stores a reference to a heap for each element. The references are decoded here, and what they lead to is read;
/// elements that were never written are empty text.
/// \param pointers  The dataset; its elements are the references, as bytes. \param layout  Of that array.
/// \error unsupported   More than 2^26 bytes of references, or 2^28 of text. \error corrupt_data  A chunk or a heap.
result<std::vector<std::byte>> read_hdf5_text(hdf5_file& file, const hdf5_array& pointers, const chunk_layout& layout);

/// Such a cell of these texts. \pre Fewer than 2^32, each of fewer bytes.
std::vector<std::byte> pack_hdf5_text(std::span<const std::string> texts);
/// The texts of such a cell; empty of no bytes.
std::vector<std::string> unpack_hdf5_text(std::span<const std::byte> cell);

}  // namespace penstock::inline v0
