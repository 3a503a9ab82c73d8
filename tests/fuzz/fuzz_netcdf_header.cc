// Any bytes as the header of a NetCDF classic file: refused, or the same header from prefixes as from the whole file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "format/netcdf/netcdf_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  std::uint64_t needed = 0;
  const auto whole = parse_netcdf_header(bytes, size, needed);
  if (whole.ok() && !*whole) __builtin_trap();  // nothing is left to fetch
  if (!whole.ok() && whole.error().code() != errc::corrupt_data && whole.error().code() != errc::unsupported)
    __builtin_trap();
  std::size_t length = std::min<std::size_t>(size, 4);
  for (;;) {
    const auto part = parse_netcdf_header(bytes.first(length), size, needed);
    if (!part.ok() || *part) {
      if (part.ok() != whole.ok()) __builtin_trap();
      if (part.ok() && netcdf_header_json(**part).dump() != netcdf_header_json(**whole).dump()) __builtin_trap();
      return 0;
    }
    if (needed <= length || needed > size) __builtin_trap();
    length = std::min(size, std::max<std::size_t>(2 * length, needed));
  }
}
