#include "format/tiff/tiff_tags.h"

#include <algorithm>

namespace penstock::inline v0 {

std::uint32_t tiff_type_bytes(std::uint16_t type) noexcept {
  switch (type) {
    case 1:  // BYTE
    case 2:  // ASCII
    case 6:  // SBYTE
    case 7:  // UNDEFINED
      return 1;
    case 3:  // SHORT
    case 8:  // SSHORT
      return 2;
    case 4:   // LONG
    case 9:   // SLONG
    case 11:  // FLOAT
    case 13:  // IFD
      return 4;
    case 5:   // RATIONAL
    case 10:  // SRATIONAL
    case 12:  // DOUBLE
    case 16:  // LONG8
    case 17:  // SLONG8
    case 18:  // IFD8
      return 8;
    default:
      return 0;
  }
}

std::optional<std::uint64_t> tiff_integer(std::span<const std::byte> value, std::uint16_t type, std::uint64_t i,
                                          bool big_endian) noexcept {
  const std::uint32_t width = tiff_type_bytes(type);
  if (width == 0 || i >= value.size() / width) return std::nullopt;
  const std::byte* const at = value.data() + i * width;
  switch (type) {
    case 1:
    case 7:
      return static_cast<std::uint64_t>(*at);
    case 3:
      return tiff_number<std::uint16_t>(at, big_endian);
    case 4:
    case 13:
      return tiff_number<std::uint32_t>(at, big_endian);
    case 16:
    case 18:
      return tiff_number<std::uint64_t>(at, big_endian);
    case 6:
    case 8:
    case 9:
    case 17: {
      // Signed numbers that are not negative are read like unsigned ones.
      if (static_cast<std::uint8_t>(at[big_endian ? 0 : width - 1]) >= 0x80) return std::nullopt;
      std::uint64_t number = 0;
      for (std::uint32_t b = 0; b < width; ++b) {
        number = number << 8 | static_cast<std::uint64_t>(at[big_endian ? b : width - 1 - b]);
      }
      return number;
    }
    default:
      return std::nullopt;
  }
}

const tiff_entry* tiff_directory::find(tiff_id tag) const noexcept {
  const auto number = static_cast<std::uint16_t>(tag);
  const auto at = std::lower_bound(entries.begin(), entries.end(), number,
                                   [](const tiff_entry& each, std::uint16_t wanted) { return each.tag < wanted; });
  return at == entries.end() || at->tag != number ? nullptr : &*at;
}

}  // namespace penstock::inline v0
