// Any bytes as a shard, in one of a few layouts (the first byte chooses): indexes are refused, or contain only ranges
// within the object.

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
#define SHARD(chunk, codecs, index, location)                                                     \
  R"({"name":"sharding_indexed","configuration":{"chunk_shape":[)" chunk R"(],"codecs":[)" codecs \
  R"(],"index_codecs":[)" index R"(],"index_location":")" location R"("}})"
#define ARRAY(shape, chunk, codecs)                                                            \
  R"({"zarr_format":3,"node_type":"array","data_type":"uint8","fill_value":0,"shape":[)" shape \
  R"(],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" chunk                 \
  R"(]}},"chunk_key_encoding":"default",)"                                                     \
  R"("codecs":[)" codecs "]}"

constexpr const char* kDocuments[] = {
    ARRAY("4", "4", SHARD("2", "\"bytes\"", LITTLE, "end")),
    ARRAY("4,6", "4,6", SHARD("2,2", "\"bytes\"", BIG, "start")),
    ARRAY("4", "4", SHARD("2", "\"bytes\"", LITTLE ",\"crc32c\"", "end")),
    ARRAY("8", "8", SHARD("4", SHARD("2", "\"bytes\"", LITTLE, "start"), LITTLE, "end")),
    ARRAY("8", "8", SHARD("4", SHARD("2", SHARD("1", "\"bytes\"", BIG, "end"), LITTLE, "end"), LITTLE, "start")),
    ARRAY("6,4", "6,4",
          R"({"name":"transpose","configuration":{"order":[1,0]}},)" SHARD("2,2", "\"bytes\"", LITTLE, "end")),
    ARRAY("4", "4", SHARD("2", "\"bytes\"", LITTLE, "end") ",\"crc32c\""),
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

}  // namespace

extern "C" int run_shard_index(const std::uint8_t* data, std::size_t size) {
  static const auto layouts = make_layouts();
  if (size == 0) return 0;
  const zarr_layout& layout = *layouts[data[0] % kCount];
  const bool size_known = data[0] < 128;
  const std::span<const std::byte> object(reinterpret_cast<const std::byte*>(data) + 1, size - 1);

  std::vector<cell_id> cells(layout.grid().cells());
  std::iota(cells.begin(), cells.end(), cell_id{0});
  std::vector<chunk_extent> out(cells.size());
  index_map known;
  for (std::size_t round = 0;; ++round) {
    std::vector<index_request> missing;
    const auto located = layout.locate(cells, known, out, missing);
    if (!located.ok()) {
      if (located.error().code() != errc::corrupt_data) __builtin_trap();
      return 0;
    }
    if (missing.empty()) break;
    if (round == layout.depth()) __builtin_trap();
    for (const index_request& request : missing) {
      auto block =
          layout.parse(request, bytes_of(object, request.range), size_known ? object.size() : byte_range::kAll);
      if (!block.ok()) {
        if (block.error().code() != errc::corrupt_data) __builtin_trap();
        return 0;
      }
      known.put(request.key, *block);
    }
  }
  for (const chunk_extent& extent : out) {
    if (extent.state != presence::present) continue;
    const byte_range& range = extent.range;
    if (range.length == 0 || range.offset + range.length < range.offset) __builtin_trap();
    if (range.length > layout.chains()[0].max_encoded_bytes()) __builtin_trap();
    if (size_known && range.offset + range.length > object.size()) __builtin_trap();
  }
  return 0;
}
