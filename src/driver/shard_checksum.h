#pragma once

#include <cstdint>
#include <string>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The CRC-32C of all bytes of a file, continued from `so_far`.
/// \param sync  Also flushes the file to its device.
/// \error As of files that cannot be read or synced.
result<std::uint32_t> checksum_of_file(const std::string& path, std::uint32_t so_far, bool sync);

/// The CRC-32C of the names and bytes of all files in a folder and below, in the order of the names.
result<std::uint32_t> checksum_of_folder(const std::string& path);

/// The checksum of a shard in a manifest: of a file or of a folder.
result<std::uint32_t> checksum_of_shard(const std::string& path);

}  // namespace penstock::inline v0
