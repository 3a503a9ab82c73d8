// Any bytes as a whole shard that is a codec's input (the first byte chooses among a few kinds): refused, or decoded to
// values that are equal after encoding and decoding.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "array/chunk_grid.h"
#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_metadata.h"

namespace {

using namespace penstock;

#define LITTLE R"({"name":"bytes","configuration":{"endian":"little"}})"
#define BIG R"({"name":"bytes","configuration":{"endian":"big"}})"
#define ZSTD R"({"name":"zstd","configuration":{"level":1,"checksum":false}})"
#define SHARD(chunk, codecs, index, location)                                                     \
  R"({"name":"sharding_indexed","configuration":{"chunk_shape":[)" chunk R"(],"codecs":[)" codecs \
  R"(],"index_codecs":[)" index R"(],"index_location":")" location R"("}})"
// A shuffle of single bytes changes nothing, so a compressor does not hide the fuzzer's changes.
#define ARRAY(type, shape, codecs)                                                  \
  R"({"zarr_format":3,"node_type":"array","data_type":)" type R"(,"shape":[)" shape \
  R"(],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" shape      \
  R"(]}},"chunk_key_encoding":"default",)"                                          \
  R"("codecs":[)" codecs R"(,{"name":"numcodecs.shuffle","configuration":{"elementsize":1}}]})"

constexpr const char* kDocuments[] = {
    ARRAY("\"uint8\",\"fill_value\":7", "4", SHARD("2", "\"bytes\"", LITTLE, "end")),
    ARRAY("\"int16\",\"fill_value\":7", "4,6", SHARD("2,3", LITTLE "," ZSTD, BIG, "start")),
    ARRAY("\"uint8\",\"fill_value\":7", "8", SHARD("4", SHARD("2", "\"bytes\"", LITTLE, "start"), LITTLE, "end")),
    ARRAY("\"string\",\"fill_value\":\"ab\"", "4", SHARD("2", "\"vlen-utf8\"", LITTLE, "end")),
    ARRAY("\"uint8\",\"fill_value\":7", "8",
          SHARD("4", SHARD("2", "\"bytes\"", LITTLE, "end") ",\"crc32c\"", LITTLE, "start")),
};
constexpr std::size_t kCount = sizeof(kDocuments) / sizeof(kDocuments[0]);

std::vector<std::shared_ptr<const zarr_layout>> make_layouts() {
  std::vector<std::shared_ptr<const zarr_layout>> out;
  for (const char* text : kDocuments) {
    const auto metadata = parse_zarr_metadata(as_bytes(text));
    if (!metadata.ok()) __builtin_trap();
    auto made = zarr_layout::make(*metadata);
    if (!made.ok() || (*made)->depth() != 0) __builtin_trap();
    out.push_back(*made);
  }
  return out;
}

result<> decode(const codec_chain& chain, std::span<const std::byte> bytes, std::vector<std::byte>& out,
                worker_scratch& scratch) {
  strided_box all;
  for (const std::uint64_t length : chain.cell()) all.push_back({0, 1, length});
  out.assign(static_cast<std::size_t>(chain.decoded_bytes()), std::byte{0});
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  target.in_cell = &all;
  target.covers_cell = true;
  return chain.decode(bytes, target, scratch);
}

}  // namespace

extern "C" int run_shard_codec(const std::uint8_t* data, std::size_t size) {
  static const auto layouts = make_layouts();
  if (size == 0) return 0;
  const codec_chain& chain = layouts[data[0] % kCount]->chains()[0];
  const std::span<const std::byte> shard(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  worker_scratch scratch, again;
  std::vector<std::byte> first, second;
  if (!decode(chain, shard, first, scratch).ok()) return 0;

  buffer room;
  auto encoded = chain.encode(tensor_view::contiguous(first.data(), chain.type(), chain.cell()), room, again);
  if (!encoded.ok()) __builtin_trap();
  if (!decode(chain, *encoded, second, again).ok()) __builtin_trap();
  if (!chain.type().variable_length()) {
    if (first != second) __builtin_trap();
    return 0;
  }
  for (std::size_t at = 0; at < first.size(); at += sizeof(variable_item)) {
    variable_item a, b;
    std::memcpy(&a, first.data() + at, sizeof a);
    std::memcpy(&b, second.data() + at, sizeof b);
    if (a.text() != b.text()) __builtin_trap();
  }
  return 0;
}
