#include "contract/layout_contract.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/extend/layout_base.h>
#include <penstock/open.h>

#include "engine/array_state.h"
#include "extend/extensions.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_chunk_layout.h"
#include "format/hdf5/hdf5_chunks.h"
#include "format/joined/joined_layout.h"
#include "format/netcdf/netcdf_layout.h"
#include "format/raw/raw_layout.h"
#include "format/reference/reference_layout.h"
#include "format/source/source_layout.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_parser.h"
#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::contract {
namespace {

/// A shard as bytes on disk: its content, and the form of its index.
struct shard_kind {
  std::uint64_t entries = 1;
  std::uint64_t chunk_bytes = 1;
  const shard_kind* inner = nullptr;  ///< its entries are shards themselves
  bool at_start = false;
  int index_checksums = 0;
  bool big_endian = false;
  int shard_checksums = 0;
};

/// One entry in five was never written; all others are in reverse order, with gaps between them.
bytes write_shard(const shard_kind& kind, std::uint64_t seed) {
  const std::uint64_t index_size = 16 * kind.entries + 4 * static_cast<std::uint64_t>(kind.index_checksums);
  bytes out(kind.at_start ? index_size : 0);
  index_pairs pairs(kind.entries, {kNoChunk, kNoChunk});
  for (std::uint64_t i = kind.entries; i-- > 0;) {
    if ((seed * 7 + i * 3) % 5 == 0) continue;
    const bytes entry = kind.inner != nullptr ? write_shard(*kind.inner, seed + i + 1)
                                              : bytes(kind.chunk_bytes, static_cast<std::byte>(i));
    out.resize(out.size() + i % 3);
    pairs[i] = {out.size(), entry.size()};
    out.insert(out.end(), entry.begin(), entry.end());
  }
  const bytes index = index_bytes(pairs, kind.index_checksums, kind.big_endian);
  if (kind.at_start) {
    std::copy(index.begin(), index.end(), out.begin());
  } else {
    out.insert(out.end(), index.begin(), index.end());
  }
  for (int i = 0; i < kind.shard_checksums; ++i) append_crc32c(out);
  return out;
}

layout_case zarr_case(std::string name, unsigned depth, const shard_kind* kind, std::string_view shape,
                      std::string_view chunk, std::string_view codecs, std::string_view keys = "\"default\"") {
  std::string text = R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 7, "shape": )";
  const bool regular = chunk.substr(0, 2) != "[[";
  text.append(shape).append(
      regular ? R"(, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": )"
              : R"(, "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": )");
  text.append(chunk);
  text.append(R"(}}, "chunk_key_encoding": )").append(keys).append(R"(, "codecs": )").append(codecs).append("}");
  layout_case out;
  out.name = std::move(name);
  out.depth = depth;
  out.make = [text]() -> std::shared_ptr<const chunk_layout> {
    auto metadata = parse_zarr_metadata(as_bytes(text));
    EXPECT_TRUE(metadata.ok()) << metadata.error().to_string();
    if (!metadata.ok()) return nullptr;
    auto made = zarr_layout::make(*metadata);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [kind](object_id object) -> std::optional<bytes> {
    if (kind == nullptr || object % 4 == 3) return std::nullopt;
    return write_shard(*kind, object);
  };
  return out;
}

const shard_kind kSix{6, 4, nullptr, false, 1};
const shard_kind kSixBig{6, 4, nullptr, true, 2, true};
const shard_kind kChecked{6, 4, nullptr, false, 0, false, 1};
const shard_kind kInnermost{2, 2, nullptr, true, 0};
const shard_kind kMiddle{4, 0, &kInnermost, false, 1};
const shard_kind kOuter{3, 0, &kMiddle, true, 0};
const shard_kind kOnlyChecked{2, 4, nullptr, false, 1, false, 2};
const shard_kind kAroundChecked{3, 0, &kOnlyChecked, false, 0};

/// Objects with different numbers of entries.
const shard_kind kUnequal[] = {{6, 4, nullptr, false, 1}, {4, 4, nullptr, false, 1}, {3, 4, nullptr, false, 1}};
const shard_kind kUnequalOuter[] = {{2, 0, &kInnermost, true, 0}, {3, 0, &kInnermost, true, 0}};

template <std::size_t count>
layout_case unequal(const shard_kind (&kinds)[count], layout_case of) {
  of.object = [&kinds](object_id object) -> std::optional<bytes> {
    if (object >= count) return std::nullopt;
    return write_shard(kinds[object], object);
  };
  return of;
}

#define LITTLE R"({"name": "bytes", "configuration": {"endian": "little"}})"
#define BIG R"({"name": "bytes", "configuration": {"endian": "big"}})"
#define SHARD(chunk, codecs, index, location)                                                         \
  R"({"name": "sharding_indexed", "configuration": {"chunk_shape": )" chunk R"(, "codecs": [)" codecs \
  R"(], "index_codecs": [)" index R"(], "index_location": ")" location R"("}})"

const layout_case kCases[] = {
    zarr_case("zarr_chunks", 0, nullptr, "[7, 11]", "[2, 3]", "[\"bytes\"]"),
    zarr_case("zarr_chunks_v2_keys", 0, nullptr, "[111, 12]", "[10, 1]", "[\"bytes\"]", "\"v2\""),
    zarr_case("zarr_rectilinear", 0, nullptr, "[7, 11]", "[[1, 4, 2, 9], [[3, 3], 5]]", "[\"bytes\"]"),
    zarr_case("zarr_shards", 1, &kSix, "[7, 19]", "[4, 6]",
              "[" SHARD("[2, 2]", "\"bytes\"", LITTLE ", \"crc32c\"", "end") "]"),
    zarr_case("zarr_shards_index_at_start", 1, &kSixBig, "[7, 19]", "[4, 6]",
              "[" SHARD("[2, 2]", "\"bytes\"", BIG ", \"crc32c\", \"crc32c\"", "start") "]"),
    zarr_case("zarr_shards_turned", 1, &kSix, "[19, 7]", "[6, 4]",
              R"([{"name": "transpose", "configuration": {"order": [1, 0]}}, )" SHARD(
                  "[2, 2]", "\"bytes\"", LITTLE ", \"crc32c\"", "end") "]"),
    zarr_case("zarr_shards_checked", 1, &kChecked, "[7, 19]", "[4, 6]",
              "[" SHARD("[2, 2]", "\"bytes\"", LITTLE, "end") ", \"crc32c\"]"),
    unequal(kUnequal, zarr_case("zarr_shards_rectilinear", 1, nullptr, "[5, 10]", "[[4, 2], [6, 4]]",
                                "[" SHARD("[2, 2]", "\"bytes\"", LITTLE ", \"crc32c\"", "end") "]")),
    unequal(kUnequalOuter,
            zarr_case("zarr_shards_rectilinear_two_deep", 2, nullptr, "[19]", "[[8, 12]]",
                      "[" SHARD("[4]", SHARD("[2]", "\"bytes\"", LITTLE, "start"), LITTLE, "start") "]")),
    zarr_case("zarr_shards_three_deep", 3, &kOuter, "[71]", "[48]",
              "[" SHARD("[16]", SHARD("[4]", SHARD("[2]", "\"bytes\"", LITTLE, "start"), LITTLE ", \"crc32c\"", "end"),
                        LITTLE, "start") "]"),
    zarr_case("zarr_shards_checked_within", 2, &kAroundChecked, "[70]", "[24]",
              "[" SHARD("[8]", SHARD("[4]", "\"bytes\"", LITTLE ", \"crc32c\"", "end") ", \"crc32c\", \"crc32c\"",
                        LITTLE, "end") "]"),
};

/// 5 x 6 chunks in three objects; one in four was never written, one in five has codecs of its own.
layout_case reference_case(std::string name, bool listed, bool joined = false) {
  layout_case out = zarr_case(std::move(name), 0, nullptr, "[9, 11]", "[2, 2]", "[\"bytes\"]");
  out.make = [cells = out.make, listed, joined]() -> std::shared_ptr<const chunk_layout> {
    bytes table(8);
    std::memcpy(table.data(), "PSREFS01", 8);
    const auto add = [&table](std::uint64_t value, int width) {
      for (int i = 0; i < width; ++i) table.push_back(static_cast<std::byte>(value >> (8 * i)));
    };
    std::vector<cell_id> present;
    for (cell_id cell = 0; cell < 30; ++cell)
      if (!listed || cell % 4 != 1) present.push_back(cell);
    add(present.size(), 8);
    add(30, 8);
    for (const int width : {listed ? 1 : 0, 1, 2, 1, 1, 0, 0, 0}) add(static_cast<std::uint64_t>(width), 1);
    if (listed)
      for (const cell_id cell : present) add(cell, 1);
    for (const cell_id cell : present) add(cell % 3, 1);
    for (const cell_id cell : present) add(7 + 5 * (29 - cell), 2);
    for (std::size_t i = 0; i < present.size(); ++i) add(4, 1);
    for (const cell_id cell : present) add(cell % 5 == 0 ? 1 : 0, 1);
    auto parsed = reference_table::parse(table);
    EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
    if (!parsed.ok()) return nullptr;
    const std::shared_ptr<const chunk_layout> base = cells();
    reference_layout::settings with;
    with.more_chains = {base->chains()[0]};
    with.objects = {"a", "b/c", "d"};
    if (joined) {  // three rows after six: the second chunk of the first array extends beyond its end
      auto rows = grid_axis::edges(9, {0, 2, 3, 5, 7, 9}, {2, 2, 2, 2, 2});
      EXPECT_TRUE(rows.ok());
      with.grid = chunk_grid::make({*rows, grid_axis::uniform(11, 2)}).value();
    }
    auto made = reference_layout::make(base, *parsed, std::move(with));
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.fixed_places = true;
  out.listed_objects = 3;
  out.object = [](object_id object) -> std::optional<bytes> {
    if (object >= 3) return std::nullopt;
    return bytes(200, static_cast<std::byte>(object));
  };
  return out;
}

const layout_case kReferences[] = {reference_case("references", true), reference_case("references_to_all", false),
                                   reference_case("references_joined", true, true)};

TEST(ReferenceLayout, RefusesCodecsThatDecodeToAnotherShape) {
  const auto refusal = [](std::uint8_t cell, const extents& makes) {
    const std::shared_ptr<const chunk_layout> base =
        zarr_case("", 0, nullptr, "[9, 11]", "[2, 2]", "[\"bytes\"]").make();
    bytes table(8);
    std::memcpy(table.data(), "PSREFS01", 8);
    for (const int each : {1, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0})
      table.push_back(static_cast<std::byte>(each));
    for (const int each : {int{cell}, 2, 1}) table.push_back(static_cast<std::byte>(each));
    const std::vector<codec_config> codecs = {{"bytes", {}}};
    reference_layout::settings with;
    with.more_chains.push_back(codec_chain::compile(codecs, base->chains()[0].type(), makes).value());
    with.objects = {"a"};
    auto made = reference_layout::make(base, reference_table::parse(table).value(), std::move(with));
    return made.ok() ? std::string() : made.error().to_string();
  };
  EXPECT_EQ(refusal(0, {2, 2}), "");
  EXPECT_EQ(refusal(24, {1, 2}), "") << "the last row of chunks has one row of elements";
  EXPECT_NE(refusal(0, {1, 2}).find("make (1, 2), 1 element along dimension 0 of a chunk that has 2"),
            std::string::npos)
      << refusal(0, {1, 2});
  EXPECT_NE(refusal(0, {3, 2}), "");
  EXPECT_NE(refusal(5, {2, 1}), "") << "elements of two rows would be numbered in another way";
}

INSTANTIATE_TEST_SUITE_P(Reference, LayoutContract, testing::ValuesIn(kReferences),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });
INSTANTIATE_TEST_SUITE_P(Zarr, LayoutContract, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

// Files of unequal length, one of them empty; each begins with `header` bytes before its items.
layout_case raw_case(std::string name, extents shape, std::size_t axis, std::vector<std::uint64_t> lengths,
                     storage_order order, std::uint64_t block_bytes, std::uint64_t header) {
  layout_case out;
  out.name = std::move(name);
  out.fixed_places = true;
  out.make = [=]() -> std::shared_ptr<const chunk_layout> {
    std::vector<raw_part> parts;
    for (std::size_t i = 0; i < lengths.size(); ++i) parts.push_back({"f" + std::to_string(i), lengths[i], header, {}});
    auto made = raw_layout::make({*dtype::from_name("uint16"), json("little"), order, shape, axis}, parts, block_bytes);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  std::vector<std::uint64_t> held;
  for (const std::uint64_t length : lengths)
    if (length != 0) held.push_back(length);
  out.object = [=](object_id object) -> std::optional<bytes> {
    std::uint64_t items = held[static_cast<std::size_t>(object)];
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != axis) items *= shape[d];
    return bytes(static_cast<std::size_t>(header + 2 * items), std::byte{5});
  };
  return out;
}

const layout_case kRawCases[] = {
    raw_case("rows", {23, 7, 5}, 0, {5, 1, 0, 9, 8}, storage_order::c, 100, 128),
    raw_case("columns", {7, 23, 5}, 1, {5, 1, 0, 9, 8}, storage_order::c, 100, 0),
    raw_case("columns_within_rows", {7, 23, 5}, 1, {5, 1, 0, 9, 8}, storage_order::c, 20, 0),
    raw_case("turned", {23, 7, 5}, 0, {5, 1, 0, 9, 8}, storage_order::fortran, 100, 64),
    raw_case("turned_last", {7, 5, 23}, 2, {5, 1, 0, 9, 8}, storage_order::fortran, 100, 64),
};

INSTANTIATE_TEST_SUITE_P(Raw, LayoutContract, testing::ValuesIn(kRawCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

// The boxes of a function's values, padded at the array's edges.
layout_case source_case(std::string name, extents shape, extents cell) {
  layout_case out;
  out.name = std::move(name);
  out.fixed_places = true;
  out.make = [=]() -> std::shared_ptr<const chunk_layout> {
    auto made = source_layout::make(*dtype::from_name("uint16"), shape, cell);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [=](object_id) -> std::optional<bytes> {
    return bytes(static_cast<std::size_t>(2 * *element_count(cell)), std::byte{5});
  };
  return out;
}

const layout_case kSourceCases[] = {source_case("boxes", {23, 7, 5}, {4, 3, 5}), source_case("rows", {23}, {10})};

INSTANTIATE_TEST_SUITE_P(Source, LayoutContract, testing::ValuesIn(kSourceCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

class file_in_memory final : public hdf5_source {
 public:
  explicit file_in_memory(const bytes& content) : bytes_(content) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    return std::span(bytes_).subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
  }

 private:
  const bytes& bytes_;
};

/// The dataset "x" of a file that libhdf5 wrote.
layout_case hdf5_case(std::string name, unsigned depth) {
  layout_case out;
  out.name = name;
  out.depth = depth;
  out.listed_objects = 1;
  out.needs_object = depth != 0;
  out.fixed_places = depth == 0;
  const auto content = [name] {  // tests run in the project's folder
    std::ifstream in("tests/data/fuzz/hdf5_index/" + name, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    EXPECT_FALSE(text.empty()) << name;
    const auto all = std::as_bytes(std::span(text));
    return bytes(all.begin(), all.end());
  };
  out.make = [content]() -> std::shared_ptr<const chunk_layout> {
    const bytes all = content();
    file_in_memory source(all);
    auto made = [&]() -> result<std::shared_ptr<const hdf5_chunk_layout>> {
      PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source));
      hdf5_tree tree(file);
      PENSTOCK_ASSIGN(const hdf5_place at, tree.find("x"));
      PENSTOCK_ASSIGN(const hdf5_array found, read_hdf5_array(file, tree, at));
      PENSTOCK_ASSIGN(const zarr_metadata metadata, parse_zarr_v2_array(found.zarray, nullptr));
      PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> cells, zarr_layout::make(metadata, {}));
      PENSTOCK_ASSIGN(const auto* const header, tree.header(at.object));
      PENSTOCK_ASSIGN(const hdf5_shape shape, parse_hdf5_shape(file, *header));
      PENSTOCK_ASSIGN(const hdf5_layout layout, parse_hdf5_layout(file, *header));
      PENSTOCK_ASSIGN(const auto filters, parse_hdf5_filters(*header));
      PENSTOCK_ASSIGN(const auto index, hdf5_chunk_index::open(file, shape, layout, filters.size()));
      hdf5_chunk_layout::settings with;
      for (std::size_t mask = 1; mask >> filters.size() == 0; ++mask) with.masked_chains.push_back(cells->chains()[0]);
      with.object = "x.h5";
      return hdf5_chunk_layout::make(cells, index, std::move(with));
    }();
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [content](object_id object) -> std::optional<bytes> {
    if (object != 0) return std::nullopt;
    return content();
  };
  return out;
}

const layout_case kHdf5Cases[] = {
    hdf5_case("old", 1),
    hdf5_case("old_deep", 2),
    hdf5_case("tree", 1),
    hdf5_case("tree_deep", 2),
    hdf5_case("tree_filtered", 1),
    hdf5_case("fixed", 1),
    hdf5_case("fixed_filtered", 1),
    hdf5_case("fixed_paged", 2),
    hdf5_case("extensible", 2),
    hdf5_case("extensible_filtered", 2),
    hdf5_case("extensible_second", 2),
    hdf5_case("implicit", 0),
};

INSTANTIATE_TEST_SUITE_P(Hdf5, LayoutContract, testing::ValuesIn(kHdf5Cases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

// Layouts of other cases next to each other along the first axis.
layout_case joined_case(std::string name, std::vector<layout_case> parts) {
  layout_case out;
  out.name = std::move(name);
  out.depth = parts.front().depth;
  out.fixed_places = parts.front().fixed_places;
  out.make = [=]() -> std::shared_ptr<const chunk_layout> {
    std::vector<joined_part> joined;
    for (const layout_case& each : parts) joined.push_back({each.make(), std::to_string(joined.size()) + "/"});
    auto made = joined_layout::make(std::move(joined), 0);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [=](object_id object) -> std::optional<bytes> {
    for (const layout_case& each : parts) {
      const std::uint64_t own = each.make()->write_grid().cells();
      if (object < own) return each.object(object);
      object -= own;
    }
    return std::nullopt;
  };
  return out;
}

const layout_case kJoinedCases[] = {
    joined_case("raw", {raw_case("a", {23, 7, 5}, 0, {5, 1, 0, 9, 8}, storage_order::c, 100, 128),
                        raw_case("b", {3, 7, 5}, 0, {3}, storage_order::c, 100, 0)}),
    joined_case("sources", {kSourceCases[0], source_case("b", {3, 7, 5}, {8, 3, 5})}),
    joined_case("zarr", {kCases[0], kCases[0], kCases[0]}),
    joined_case(
        "zarr_sharded",
        {*std::find_if(std::begin(kCases), std::end(kCases), [](const layout_case& each) { return each.depth == 1; }),
         *std::find_if(std::begin(kCases), std::end(kCases), [](const layout_case& each) { return each.depth == 1; })}),
};

INSTANTIATE_TEST_SUITE_P(Joined, LayoutContract, testing::ValuesIn(kJoinedCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

struct tiff_kind {
  std::uint32_t width, height, samples;
  std::uint32_t cell_width, cell_height;  ///< 0 wide: strips
  bool planar = false, big_endian = false;
  bool sparse = false;  ///< one tile in four was never written
};

/// A TIFF of PackBits streams that ends with the arrays of their offsets.
bytes write_tiff(const tiff_kind& kind) {
  const auto many = [](std::uint32_t length, std::uint32_t part) { return (length + part - 1) / part; };
  const bool tiled = kind.cell_width != 0;
  const std::uint32_t cells = (tiled ? many(kind.width, kind.cell_width) : 1) * many(kind.height, kind.cell_height) *
                              (kind.planar ? kind.samples : 1);
  bytes out;
  const auto add = [&](std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) {
      const int place = kind.big_endian ? width - 1 - i : i;
      out.push_back(static_cast<std::byte>(value >> (8 * place)));
    }
  };
  std::uint32_t data_bytes = 0;
  for (std::uint32_t i = 0; i < cells; ++i) data_bytes += 10 + i % 7;
  std::map<std::uint16_t, std::pair<std::uint32_t, std::uint32_t>> tags;  // (count, value)
  tags = {{256, {1, kind.width}},   {257, {1, kind.height}},          {258, {1, 8}}, {259, {1, 32773}}, {262, {1, 1}},
          {277, {1, kind.samples}}, {284, {1, kind.planar ? 2U : 1U}}};
  if (tiled) tags[322] = {1, kind.cell_width};
  tags[tiled ? 323 : 278] = {1, kind.cell_height};
  const std::uint32_t begin = 8 + 2 + 12 * (static_cast<std::uint32_t>(tags.size()) + 2) + 4;
  tags[tiled ? 324 : 273] = {cells, begin + data_bytes};
  tags[tiled ? 325 : 279] = {cells, begin + data_bytes + 4 * cells};
  out.insert(out.end(), 2, static_cast<std::byte>(kind.big_endian ? 'M' : 'I'));
  add(42, 2);
  add(8, 4);
  add(tags.size(), 2);
  for (const auto& [tag, what] : tags) {
    add(tag, 2);
    add(4, 2);
    add(what.first, 4);
    add(what.second, 4);
  }
  add(0, 4);
  out.resize(begin + data_bytes, std::byte{1});
  const auto is_there = [&](std::uint32_t i) { return !kind.sparse || i % 4 != 1; };
  for (std::uint32_t i = 0, at = begin; i < cells; at += 10 + i % 7, ++i) add(is_there(i) ? at : 0, 4);
  for (std::uint32_t i = 0; i < cells; ++i) add(is_there(i) ? 10 + i % 7 : 0, 4);
  return out;
}

/// \param whole  The arrays were read with the header.
layout_case tiff_case(std::string name, tiff_kind kind, bool whole) {
  layout_case out;
  out.name = std::move(name);
  out.depth = whole ? 0 : 1;
  out.fixed_places = whole;
  out.make = [kind, whole]() -> std::shared_ptr<const chunk_layout> {
    const bytes file = write_tiff(kind);
    tiff_file_view view;
    view.set_size(file.size());
    if (whole) view.add(0, file);
    tiff_parser parser({});
    for (;;) {
      const auto missing = parser.advance(view);
      EXPECT_TRUE(missing.ok()) << missing.error().to_string();
      if (!missing.ok()) return nullptr;
      if (!*missing) break;
      const auto begin = file.begin() + static_cast<std::ptrdiff_t>((*missing)->offset);
      view.add((*missing)->offset, bytes(begin, begin + static_cast<std::ptrdiff_t>((*missing)->length)));
    }
    auto made = tiff_layout::make(std::make_shared<tiff_details>(parser.take_details()), parser.directory(), {},
                                  "x.tif", view, {});
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [kind](object_id object) -> std::optional<bytes> {
    if (object != 0) return std::nullopt;
    return write_tiff(kind);
  };
  return out;
}

const layout_case kTiffCases[] = {
    tiff_case("tiles", {70, 60, 3, 16, 16}, true),
    tiff_case("strips", {70, 60, 1, 0, 7}, true),
    tiff_case("planes", {70, 60, 3, 32, 16, true, true}, true),
    tiff_case("tiles_listed_elsewhere", {70, 60, 3, 16, 16, false, false, true}, false),
    tiff_case("strips_listed_elsewhere", {70, 60, 2, 0, 7, true, true, true}, false),
};

INSTANTIATE_TEST_SUITE_P(Tiff, LayoutContract, testing::ValuesIn(kTiffCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

// A format from outside: the layout of an image that its driver opened.
layout_case pgm_case(std::string name, std::uint64_t height, std::uint64_t width, unsigned bits) {
  const std::string header = "P5 # a comment\n" + std::to_string(width) + " " + std::to_string(height) + "\n" +
                             (bits == 8 ? "255" : "1000") + "\n";
  bytes file(header.size() + height * width * bits / 8, std::byte{1});
  std::memcpy(file.data(), header.data(), header.size());
  layout_case out;
  out.name = std::move(name);
  out.fixed_places = true;
  out.make = [file]() -> std::shared_ptr<const chunk_layout> {
    const std::shared_ptr<store> in = make_memory_store();
    const part whole(file);
    EXPECT_TRUE(in->put("image.pgm", {&whole, 1}, {}).ok());
    context_options with;
    with.drivers = {pgm_format()};
    open_options how;
    how.context = *context::make(with);
    how.path = "image.pgm";
    auto made = open_array(in, how);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? made->state().layout : nullptr;
  };
  out.object = [file](object_id) -> std::optional<bytes> { return file; };
  return out;
}

const layout_case kPgmCases[] = {pgm_case("bytes", 3001, 701, 8), pgm_case("words", 2311, 701, 16)};

INSTANTIATE_TEST_SUITE_P(Extension, LayoutContract, testing::ValuesIn(kPgmCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

/// A variable of a NetCDF classic file with `records` records: floats (y, x) without records, then one short and nine
/// floats in each record.
layout_case netcdf_case(std::string name, std::uint64_t records, std::size_t variable, std::uint64_t block_bytes) {
  netcdf_header header;
  header.records = records;
  header.dimensions = {{"time", records, true}, {"x", 9, false}, {"y", 13, false}};
  const auto add = [&](std::vector<std::size_t> dimensions, netcdf_type type, std::uint64_t offset,
                       std::uint64_t size) {
    netcdf_variable made;
    made.name = "v" + std::to_string(header.variables.size());
    made.type = type;
    made.has_records = dimensions.front() == 0;
    made.dimensions.assign(dimensions.begin(), dimensions.end());
    made.offset = offset;
    made.bytes = size;
    header.variables.push_back(std::move(made));
  };
  add({2, 1}, netcdf_type::float32, 200, 13 * 9 * 4);
  add({0}, netcdf_type::int16, 200 + 13 * 9 * 4, 2);
  add({0, 1}, netcdf_type::float32, 200 + 13 * 9 * 4 + 4, 9 * 4);
  header.record_bytes = 4 + 9 * 4;
  const bytes file(static_cast<std::size_t>(header.variables[1].offset + records * header.record_bytes), std::byte{6});
  layout_case out;
  out.name = std::move(name);
  out.fixed_places = true;
  out.make = [header, variable, block_bytes, size = file.size()]() -> std::shared_ptr<const chunk_layout> {
    auto made = netcdf_layout::make(netcdf_file::make(header, "x.nc", size, {}), variable, block_bytes);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return made.ok() ? *made : nullptr;
  };
  out.object = [file](object_id) -> std::optional<bytes> { return file; };
  return out;
}

const layout_case kNetcdfCases[] = {netcdf_case("fixed", 3, 0, 100), netcdf_case("short_records", 100, 1, 200),
                                    netcdf_case("records", 50, 2, 400), netcdf_case("parts_of_records", 50, 2, 16)};

INSTANTIATE_TEST_SUITE_P(Netcdf, LayoutContract, testing::ValuesIn(kNetcdfCases),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

/// A layout from outside with an index: a table of 64-bit offsets, then the rows of bytes that it lists.
class listed_rows final : public layout_base {
 public:
  static constexpr std::uint64_t kRows = 9, kRowBytes = 5, kTableBytes = 8 * kRows;

  static std::shared_ptr<const chunk_layout> make() {
    const cell_coding coding{{1, kRowBytes}, R"(["bytes"])"};
    auto parts = layout_parts::make(**context::make(), dtype(dtype_kind::unsigned_integer, 8),
                                    *chunk_grid::regular({kRows, kRowBytes}, {1, kRowBytes}),
                                    *chunk_grid::regular({kRows, kRowBytes}, {kRows, kRowBytes}), {&coding, 1});
    EXPECT_TRUE(parts.ok()) << parts.error().to_string();
    return std::shared_ptr<const chunk_layout>(new listed_rows(std::move(*parts)));
  }
  static bytes object() {
    bytes out(kTableBytes + kRows * kRowBytes, std::byte{7});
    for (std::uint64_t row = 0; row < kRows; ++row) {  // the last row first
      const std::uint64_t offset = kTableBytes + (kRows - 1 - row) * kRowBytes;
      std::memcpy(&out[8 * row], &offset, sizeof offset);
    }
    return out;
  }

  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override {
    const index_entry* const table = known.find({});
    if (table == nullptr) {
      const auto is_it = [](const index_request& each) { return each.key == index_key{}; };
      if (std::none_of(missing.begin(), missing.end(), is_it))
        missing.push_back({{}, {0, kTableBytes, false}, kTableBytes, 0, 0});
      return {};
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out[i].state = table->block ? presence::present : presence::absent;
      if (table->block) out[i].range = {static_cast<const offsets&>(*table->block).of_row[cells[i]], kRowBytes, false};
    }
    return {};
  }
  result<index_ptr> parse(const index_request&, std::span<const std::byte> content,
                          std::uint64_t object_size) const override {
    auto made = std::make_shared<offsets>();
    if (content.size() != kTableBytes) return error(errc::corrupt_data, "the table has another length");
    std::memcpy(made->of_row.data(), content.data(), kTableBytes);
    for (const std::uint64_t offset : made->of_row)
      if (object_size < kRowBytes || offset > object_size - kRowBytes)
        return error(errc::corrupt_data, "a row exceeds the object");
    return index_ptr(std::move(made));
  }
  void key(object_id, std::string& out) const override { out = "rows"; }
  std::string describe(cell_id cell) const override { return "row " + std::to_string(cell); }

 private:
  struct offsets final : index_block {
    std::uint64_t memory_bytes() const noexcept override { return sizeof *this; }
    std::array<std::uint64_t, kRows> of_row{};
  };
  explicit listed_rows(layout_parts parts) noexcept : layout_base(std::move(parts)) {}
};

layout_case listed_rows_case() {
  layout_case out;
  out.name = "listed_rows";
  out.make = listed_rows::make;
  out.object = [](object_id) -> std::optional<bytes> { return listed_rows::object(); };
  out.depth = 1;
  return out;
}

INSTANTIATE_TEST_SUITE_P(Base, LayoutContract, testing::Values(listed_rows_case()),
                         [](const testing::TestParamInfo<layout_case>& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::contract
