// Any bytes as zarr.json: refused with an error, or made into a layout that locates its first, middle and last cell.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"

extern "C" int run_zarr_json(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::span<const std::byte> document(reinterpret_cast<const std::byte*>(data), size);
  const auto metadata = parse_zarr_metadata(document);
  if (!metadata.ok()) {
    const errc code = metadata.error().code();
    if (code != errc::corrupt_data && code != errc::unsupported) __builtin_trap();
    return 0;
  }
  if (metadata->kind == zarr_node_kind::group) return 0;
  if (metadata->fill_value.size() != metadata->type.item_bytes()) __builtin_trap();

  const auto made = zarr_layout::make(*metadata);
  if (!made.ok()) {
    const errc code = made.error().code();
    if (code != errc::corrupt_data && code != errc::unsupported) __builtin_trap();
    return 0;
  }
  const zarr_layout& layout = **made;
  const std::uint64_t count = layout.grid().cells();
  if (count == 0) return 0;
  const std::vector<cell_id> cells{0, count / 2, count - 1};
  std::vector<chunk_extent> out(cells.size());
  std::vector<index_request> missing;
  index_map known;
  if (!layout.locate(cells, known, out, missing).ok()) __builtin_trap();  // without indexes, no contradiction
  if (missing.empty() != (layout.depth() == 0)) __builtin_trap();
  std::string key;
  for (const cell_id cell : cells) key = layout.describe(cell);
  layout.key(layout.write_grid().cells() - 1, key);
  for (const index_request& request : missing) {
    const auto block = layout.parse(request, document, document.size());
    if (!block.ok() && block.error().code() != errc::corrupt_data) __builtin_trap();
  }
  return 0;
}
