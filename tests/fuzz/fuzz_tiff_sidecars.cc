// Sidecar files of TIFFs from hostile bytes: the first byte selects the kind of the file.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/tiff/gdal_metadata.h"
#include "format/tiff/sidecar_metadata.h"

using namespace penstock;

extern "C" int run_tiff_sidecars(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'p': {
      const sidecar_metadata found = parse_sidecar_metadata(text);
      if (found.gcps.empty() && !found.gcps_crs.empty()) __builtin_trap();
      break;
    }
    case 'g':
      (void)parse_gdal_metadata(text);
      break;
    case 'w':
      if (const auto found = parse_world_file(text); found && found->a * found->e == found->b * found->d)
        __builtin_trap();
      break;
    case 'r':
      (void)parse_rpb(text);
      break;
    default:
      (void)parse_rpc_text(text);
  }
  return 0;
}
