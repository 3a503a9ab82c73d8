#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <span>

#include "store/zip_directory.h"

namespace penstock::inline v0 {

/// Whether entries like this one can be read.
/// \error unsupported  It is encrypted, or of a compression method by name.
result<> check_method(const zip_entry& entry);

/// Fills `out`, which has the entry's decoded size, from its encoded bytes, and checks its checksum.
/// \error corrupt_data  They decode to something else, or not at all.
/// Source: APPNOTE.TXT 6.3, 4.4.5 (methods) and 5.8 (LZMA).
result<> decode_entry(const zip_entry& entry, std::span<const std::byte> encoded, std::span<std::byte> out);

/// Whether `out` has the checksum that the entry's directory says.
result<> check_crc(std::span<const std::byte> out, const zip_entry& entry);

/// The most bytes that so many encoded ones can make, as far as the method bounds it: sizes in storage drive no
/// allocation.
/// \error corrupt_data  The entry says more.
result<> check_growth(const zip_entry& entry);

}  // namespace penstock::inline v0
