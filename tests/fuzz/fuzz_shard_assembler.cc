// Any bytes as an old shard, in one of a few layouts, and any changes of its chunks: the old shard is refused, or the
// changed chunks of the new shard are the new ones and all others are unchanged, byte for byte.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"

namespace {

using namespace penstock;

#define LITTLE R"({"name":"bytes","configuration":{"endian":"little"}})"
#define BIG R"({"name":"bytes","configuration":{"endian":"big"}})"
#define ZSTD R"("bytes",{"name":"zstd","configuration":{"level":1,"checksum":false}})"
#define SHARD(chunk, codecs, index, location)                                                     \
  R"({"name":"sharding_indexed","configuration":{"chunk_shape":[)" chunk R"(],"codecs":[)" codecs \
  R"(],"index_codecs":[)" index R"(],"index_location":")" location R"("}})"
#define ARRAY(shape, chunk, codecs)                                                            \
  R"({"zarr_format":3,"node_type":"array","data_type":"uint8","fill_value":0,"shape":[)" shape \
  R"(],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" chunk                 \
  R"(]}},"chunk_key_encoding":"default",)"                                                     \
  R"("codecs":[)" codecs "]}"

constexpr const char* kDocuments[] = {
    ARRAY("4", "4", SHARD("1", ZSTD, LITTLE, "end")),
    ARRAY("4,6", "4,6", SHARD("2,2", ZSTD, BIG, "start")),
    ARRAY("4", "4", SHARD("1", ZSTD, LITTLE ",\"crc32c\"", "end")),
    ARRAY("8", "8", SHARD("4", SHARD("1", ZSTD, LITTLE, "start"), LITTLE, "end")),
    ARRAY("8", "8", SHARD("4", SHARD("2", SHARD("1", ZSTD, BIG, "end"), LITTLE, "end"), LITTLE, "start")),
    ARRAY("6,4", "6,4", R"({"name":"transpose","configuration":{"order":[1,0]}},)" SHARD("2,1", ZSTD, LITTLE, "end")),
    ARRAY("4", "4", SHARD("1", ZSTD, LITTLE, "end") ",\"crc32c\""),
    ARRAY("3", "4", SHARD("1", ZSTD, LITTLE, "end")),  // a chunk beyond the array's edge
};
constexpr std::size_t kCount = sizeof(kDocuments) / sizeof(kDocuments[0]);

std::vector<std::shared_ptr<const zarr_layout>> make_layouts() {
  std::vector<std::shared_ptr<const zarr_layout>> out;
  for (const char* text : kDocuments) {
    const auto metadata = parse_zarr_metadata(as_bytes(text));
    if (!metadata.ok()) __builtin_trap();
    auto made = zarr_layout::make(*metadata);
    if (!made.ok()) __builtin_trap();
    out.push_back(*made);
  }
  return out;
}

/// The bytes of each cell that a reader of the whole object finds; false if the object is refused.
bool read(const zarr_layout& layout, std::span<const std::byte> object, std::vector<part>& out) {
  std::vector<cell_id> cells(layout.grid().cells());
  std::iota(cells.begin(), cells.end(), cell_id{0});
  std::vector<chunk_extent> extents(cells.size());
  index_map known;
  for (;;) {
    std::vector<index_request> missing;
    if (!layout.locate(cells, known, extents, missing).ok()) return false;
    if (missing.empty()) break;
    for (const index_request& request : missing) {
      auto block = layout.parse(request, bytes_of(object, request.range), object.size());
      if (!block.ok()) return false;
      known.put(request.key, *block);
    }
  }
  out.clear();
  for (const chunk_extent& each : extents)
    out.push_back(each.state == presence::absent ? part() : bytes_of(object, each.range));
  return true;
}

}  // namespace

extern "C" int run_shard_assembler(const std::uint8_t* data, std::size_t size) {
  static const auto layouts = make_layouts();
  if (size < 8) return 0;
  const zarr_layout& layout = *layouts[data[0] % kCount];
  const bool absent = data[0] >= 248;
  const part old(reinterpret_cast<const std::byte*>(data) + 8, size - 8);

  // Two bits for each cell: it is kept, removed, or replaced.
  std::vector<new_cell> changes;
  std::vector<std::vector<std::byte>> fresh(layout.grid().cells());
  for (cell_id cell = 0; cell < layout.grid().cells(); ++cell) {
    const unsigned what = data[1 + cell / 4 % 7] >> (2 * (cell % 4)) & 3;
    if (what == 0) continue;
    fresh[cell].assign(what == 1 ? 0 : 1 + cell % 5, static_cast<std::byte>(100 + cell));
    changes.push_back({cell, fresh[cell], what == 1});
  }
  if ((data[0] & 8) != 0) std::reverse(changes.begin(), changes.end());
  if (changes.empty()) return 0;

  std::vector<part> before(layout.grid().cells());
  const bool readable = absent || read(layout, old, before);
  assembled_object made;
  const auto done = layout.assembler()->assemble(0, absent ? nullptr : &old, changes, made);
  if (!done.ok()) {
    if (done.error().code() != errc::corrupt_data || absent) __builtin_trap();
    return 0;
  }
  std::vector<std::byte> object;
  for (const part& each : made.parts) object.insert(object.end(), each.begin(), each.end());
  if (object.size() != made.bytes) __builtin_trap();
  // The size is bounded: at most all old bytes, all new bytes, and new indexes of every level.
  if (object.size() > old.size() + 5 * changes.size() + 64 * (8 + layout.grid().cells()) * (1 + layout.depth()))
    __builtin_trap();
  if (!readable) return 0;  // damage in unchanged parts remains

  std::vector<part> after(layout.grid().cells());
  if (!made.empty() && !read(layout, object, after)) __builtin_trap();
  std::vector<part> expected = before;
  for (const new_cell& each : changes) expected[each.cell] = each.bytes;
  for (cell_id cell = 0; cell < layout.grid().cells(); ++cell)
    if (!std::equal(after[cell].begin(), after[cell].end(), expected[cell].begin(), expected[cell].end()))
      __builtin_trap();
  return 0;
}
