// Any bytes as .zarray (and as .zattrs, .zgroup): refused with an error, or made into a layout that names its first and
// last object; the metadata written from it is equal.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "format/zarr/zarr_writer.h"

extern "C" int run_zarr_v2(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto document = json::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  const auto check = [](const error& why) {
    if (why.code() != errc::corrupt_data && why.code() != errc::unsupported) __builtin_trap();
  };
  if (const auto group = parse_zarr_v2_group(*document, &*document); !group.ok()) check(group.error());
  const auto metadata = parse_zarr_v2_array(*document, nullptr);
  if (!metadata.ok()) {
    check(metadata.error());
    return 0;
  }
  if (metadata->fill_value.size() != metadata->type.item_bytes()) __builtin_trap();

  const auto written = write_zarr_documents(*metadata);
  if (!written.ok()) {
    check(written.error());
  } else {
    const auto again = parse_zarr_v2_array(written->back().content, nullptr);
    if (!again.ok() || !(again->type == metadata->type) || !(again->shape == metadata->shape)) __builtin_trap();
  }
  const auto made = zarr_layout::make(*metadata);
  if (!made.ok()) {
    check(made.error());
    return 0;
  }
  const zarr_layout& layout = **made;
  if (layout.grid().cells() == 0) return 0;
  std::string key;
  for (const cell_id cell : {cell_id{0}, layout.grid().cells() - 1}) {
    key = layout.describe(cell);
    layout.key(cell, key);
  }
  return 0;
}
