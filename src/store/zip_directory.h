#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::inline v0 {

/// The compression of an entry's bytes (APPNOTE 4.4.5). Other numbers are refused when such an entry is read.
enum class zip_method : std::uint16_t { stored = 0, deflated = 8, bzip2 = 12, lzma = 14, zstd = 93, xz = 95 };

/// One entry of an archive, as its central directory describes it. Offsets are those of the file, prefix included.
struct zip_entry {
  std::uint64_t header_offset = 0;  ///< of its local header
  std::uint64_t data_offset = 0;    ///< of its bytes; 0: its local header was not read yet
  std::uint64_t limit = 0;  ///< the latest end of its bytes: the beginning of the next entry or of the directory
  std::uint64_t encoded_bytes = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint32_t crc = 0;         ///< CRC-32 of the decoded bytes
  std::uint32_t dos_time = 0;    ///< date in the upper half
  std::uint32_t attributes = 0;  ///< external ones
  std::uint16_t made_by = 0;
  std::uint16_t flags = 0;
  zip_method method = zip_method::stored;

  bool encrypted() const noexcept { return (flags & 1U) != 0; }
};

/// The location of an archive's directory, from its end record.
struct zip_end {
  std::uint64_t directory_offset = 0;
  std::uint64_t directory_bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t prefix_bytes = 0;  ///< data before the archive (such as a self-extracting program)
  std::uint64_t end = 0;           ///< of the archive: its file's size
  std::string comment;
};

/// The content of an archive. Folders are omitted; of two entries with one name the later one counts.
struct zip_directory {
  struct key_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const noexcept { return std::hash<std::string_view>()(key); }
  };
  std::unordered_map<std::string, zip_entry, key_hash, std::equal_to<>> entries;
  std::uint64_t data_end = 0;         ///< no entry, current or replaced, extends further
  bool names_are_their_bytes = true;  ///< false if a name was decoded: such an archive's directory is not rewritten
};

/// Reads bytes of the file that holds the archive: all of `room`, from `offset`.
using zip_reader = std::function<result<>(std::uint64_t offset, std::span<std::byte> room)>;

/// Finds the directory of an archive whose file ends at `size_bytes`. The end record's comment reaches exactly there.
/// \error corrupt_data  The end record is absent, or contradicts itself or the file.
/// \error unsupported  An archive of several volumes.
result<zip_end> find_zip_end(const zip_reader& file, std::uint64_t size_bytes);

/// Parses the directory that `end` describes; `bytes` are all of its bytes. Time and memory are proportional to its
/// size.
///
/// Names are UTF-8 if flag 11 is set or they are ASCII, else those of a Unicode path field that matches them, else code
/// page 437.
/// \error corrupt_data  A record leaves the directory, entries overlap or exceed the file, sizes contradict each other,
/// or a name is not valid in a store (`..`, an absolute path, NUL). \error unsupported  As `find_zip_end`.
result<zip_directory> parse_zip_directory(std::span<const std::byte> bytes, const zip_end& end);

/// The offset of the entry's bytes, from the `kZipLocalBytes` at its header's offset.
/// \error corrupt_data  The local header is absent, or the entry's bytes would leave their range.
result<std::uint64_t> find_zip_data(std::span<const std::byte> local_header, const zip_entry& entry);
inline constexpr std::size_t kZipLocalBytes = 30;
/// An end record without a comment; no archive is shorter.
inline constexpr std::size_t kZipEndBytes = 22;

/// The local header of an entry with that name, its sizes and checksum included.
std::vector<std::byte> make_zip_local_header(std::string_view name, const zip_entry& entry);
/// The directory and end records of an archive, to be written at `offset`.
std::vector<std::byte> make_zip_directory(const zip_directory& directory, std::uint64_t offset,
                                          std::string_view comment);

}  // namespace penstock::inline v0
