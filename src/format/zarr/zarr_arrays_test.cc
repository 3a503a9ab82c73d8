// Whole arrays of other programs, read with only the layout and the codecs.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>

#include "codec/worker_scratch.h"
#include "format/zarr/shard_fixture.h"
#include "format/zarr/zarr_layout.h"

namespace penstock {
namespace {

using layout_ptr = std::shared_ptr<const zarr_layout>;

/// Reads a whole array of tests/data/zarr/gdal slowly: cell by cell, with only the layout and the chain.
class GdalArrays : public testing::Test {
 protected:
  static std::vector<std::byte> bytes_at(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
  }

  template <class T>
  std::vector<T> read(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/data/zarr/gdal" / name;
    result<zarr_metadata> metadata = parse_zarr_metadata(bytes_at(folder / "zarr.json"));
    EXPECT_TRUE(metadata.ok()) << metadata.error().to_string();
    result<layout_ptr> made = zarr_layout::make(*metadata);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    const zarr_layout& layout = **made;
    EXPECT_EQ(metadata->type.item_bytes(), sizeof(T));

    std::vector<cell_id> cells(layout.grid().cells());
    std::iota(cells.begin(), cells.end(), cell_id{0});
    std::vector<chunk_extent> extents_found(cells.size());
    std::map<object_id, std::vector<std::byte>> objects;
    index_map known;
    for (;;) {
      std::vector<index_request> missing;
      result<> located = layout.locate(cells, known, extents_found, missing);
      EXPECT_TRUE(located.ok()) << located.error().to_string();
      if (missing.empty()) break;
      for (const index_request& request : missing) {
        std::string key;
        layout.key(request.key.object, key);
        const std::filesystem::path path = folder / key;
        if (!std::filesystem::exists(path)) {
          known.put(request.key, nullptr);
          continue;
        }
        std::vector<std::byte>& object = objects[request.key.object] = bytes_at(path);
        auto block = layout.parse(request, bytes_of(object, request.range), object.size());
        EXPECT_TRUE(block.ok()) << block.error().to_string();
        if (!block.ok()) return {};
        known.put(request.key, *block);
      }
    }

    T fill;
    std::memcpy(&fill, metadata->fill_value.data(), sizeof(T));
    const strides array_strides = c_order_strides(metadata->shape, sizeof(T));
    std::vector<T> out(*element_count(metadata->shape), fill);
    worker_scratch scratch;
    for (const cell_id cell : cells) {
      const chunk_extent& extent = extents_found[cell];
      if (extent.state == presence::absent) continue;
      dim_vector<std::uint64_t> at;
      layout.grid().coordinates(cell, at);
      strided_box wanted;
      decode_target target;
      target.data = reinterpret_cast<std::byte*>(out.data());
      for (std::size_t d = 0; d < at.size(); ++d) {
        const grid_axis& axis = layout.grid().axis(d);
        wanted.push_back({0, 1, axis.valid_length(at[d])});
        target.data += static_cast<std::int64_t>(axis.origin(at[d])) * array_strides[d];
      }
      target.strides = array_strides;
      target.in_cell = &wanted;
      result<> decoded = layout.chains()[0].decode(bytes_of(objects[extent.object], extent.range), target, scratch);
      EXPECT_TRUE(decoded.ok()) << decoded.error().to_string();
    }
    return out;
  }

  template <class T>
  static std::vector<T> ramp(std::size_t count, T first) {
    std::vector<T> out(count);
    std::iota(out.begin(), out.end(), first);
    return out;
  }
};

TEST_F(GdalArrays, ReadAsTheirWriterMeantThem) {
  EXPECT_EQ(read<std::uint16_t>("nested_sharding.zarr"), ramp<std::uint16_t>(50, 0));
  EXPECT_EQ(read<float>("sharded_3d.zarr"), ramp<float>(504, 0));
  EXPECT_EQ(read<std::int64_t>("sharding_big_endian.zarr"), ramp<std::int64_t>(4, 1));
  EXPECT_EQ(read<std::int64_t>("sharding_with_crc32_then_byte_byte_codec.zarr"), ramp<std::int64_t>(4, 1));
  EXPECT_EQ(read<std::int16_t>("sharding_fill_value.zarr"), std::vector<std::int16_t>(9, 1));
}

TEST_F(GdalArrays, AreRefusedWhereTheyAreMalformed) {
  const std::filesystem::path folder(PENSTOCK_SOURCE_DIR "/tests/data/zarr/gdal/sharing_too_small_data_file/ar");
  const std::vector<std::byte> text = bytes_at(folder / "zarr.json");
  result<zarr_metadata> metadata = parse_zarr_metadata(text);
  ASSERT_TRUE(metadata.ok()) << metadata.error().to_string();
  result<layout_ptr> made = zarr_layout::make(*metadata);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), errc::corrupt_data);  // index_codecs have bytes without an endian
}

}  // namespace
}  // namespace penstock
