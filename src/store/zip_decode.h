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
/// \error corrupt_data  They decode to other data, or not at all. Source: APPNOTE.TXT 6.3, 4.4.5 (methods) and 5.8
/// (LZMA).
result<> decode_entry(const zip_entry& entry, std::span<const std::byte> encoded, std::span<std::byte> out);

/// Whether `out` has the checksum of the entry in the directory.
result<> check_crc(std::span<const std::byte> out, const zip_entry& entry);

/// The most bytes that the encoded ones can decode to, as far as the method bounds it: sizes in storage must not cause
/// allocations.
/// \error corrupt_data  The entry states more.
result<> check_growth(const zip_entry& entry);

}  // namespace penstock::inline v0
