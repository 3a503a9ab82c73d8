// Parses text as a selection, resolves it against shapes made of the same bytes, and checks the result.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <penstock/selection.h>

#include "fuzz/require.h"

using namespace penstock;  // NOLINT

namespace {

void check(const resolved_basic& got, const extents& shape) {
  require(got.from.size() == shape.size() && got.axis.size() == shape.size());
  int last = -1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const axis_range& range = got.from[d];
    if (range.count != 0) {
      require(range.step != 0 && range.count <= shape[d]);
      for (const std::int64_t at : {range.at(0), range.at(range.count - 1)})
        require(at >= 0 && static_cast<std::uint64_t>(at) < shape[d]);
    }
    if (got.axis[d] < 0) {
      require(range.count == 1);
    } else {
      require(got.axis[d] > last && got.shape[static_cast<std::size_t>(got.axis[d])] == range.count);
      last = got.axis[d];
    }
  }
}

}  // namespace

extern "C" int run_selection(const std::uint8_t* data, std::size_t size) {
  // The first byte gives the rank, eight bytes each dimension, the rest is text.
  if (size == 0) return 0;
  extents shape(data[0] % 8);
  std::size_t at = 1;
  for (auto& each : shape) {
    if (size - at < 8) break;
    std::memcpy(&each, data + at, 8);
    at += 8;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + at, size - at);
  const auto parsed = parse_selection(text);
  if (!parsed.ok()) {
    require(parsed.error().code() == errc::invalid_argument);
    return 0;
  }
  const auto again = parse_selection(to_string(parsed.value()));
  require(again.ok() && again.value().items == parsed.value().items);

  const auto basic = resolve(parsed.value(), shape);
  if (basic.ok()) check(basic.value(), shape);

  // The same items as blocks, and as an orthogonal selection whose lists are its ints.
  block_selection blocks;
  orthogonal_selection orthogonal;
  for (const basic_item& item : parsed.value().items) {
    if (const auto* const index = std::get_if<std::int64_t>(&item)) {
      blocks.items.emplace_back(*index);
      orthogonal.items.emplace_back(index_list{*index, *index});
    } else if (const auto* const range = std::get_if<slice>(&item)) {
      blocks.items.emplace_back(*range);
      orthogonal.items.emplace_back(*range);
    }
  }
  extents chunks = shape;
  for (auto& each : chunks) each = each / 3 + 1;
  const auto by_block = resolve(blocks, shape, chunks);
  if (by_block.ok()) check(by_block.value(), shape);
  const auto by_axis = resolve(orthogonal, shape);
  if (by_axis.ok()) require(by_axis.value().from.size() == shape.size());
  return 0;
}
