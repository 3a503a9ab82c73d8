#include <penstock/array_source.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "array/contiguous_blocks.h"
#include "base/checked.h"
#include "base/counted.h"
#include "codec/codec_chain.h"
#include "driver/source_store.h"
#include "engine/array_state.h"
#include "format/joined/joined_layout.h"
#include "format/source/source_layout.h"

namespace penstock::inline v0 {
namespace {

/// About the largest number of boxes of a plan: larger arrays get larger boxes.
constexpr std::uint64_t kMostBoxes = std::uint64_t{1} << 20;

bool is_empty(const extents& shape) { return std::find(shape.begin(), shape.end(), 0U) != shape.end(); }

// `joined:/run/a ... c`
std::string uri_of(const std::vector<array_source>& parts) {
  std::string out = "joined:" + parts.front().name;
  if (parts.size() == 1) return out;
  std::string last = parts.back().name;
  while (last.ends_with('/')) last.pop_back();
  return out + " ... " + last.substr(last.rfind('/') + 1);
}

result<> check(const array_source& each, const array_source& first, std::size_t axis) {
  const auto refuse = [&](errc code, std::string why) {
    return error(code, std::move(why)).note("source '" + each.name + "'");
  };
  if (!each.read) return refuse(errc::invalid_argument, "it has no read function");
  if (each.type.variable_length()) return refuse(errc::unsupported, "elements of variable length are not joined");
  if (each.type.item_bytes() == 0) return refuse(errc::unsupported, "elements of 0 bytes are not joined");
  if (each.chunks.size() != each.shape.size() || is_empty(each.chunks)) {
    return refuse(errc::invalid_argument, fmt::format("chunks of shape {} do not fit an array of shape {}",
                                                      to_string(each.chunks), to_string(each.shape)));
  }
  bool alike = each.type == first.type && each.shape.size() == first.shape.size();
  for (std::size_t d = 0; alike && d < first.shape.size(); ++d) alike = d == axis || each.shape[d] == first.shape[d];
  if (alike) return {};
  return refuse(errc::invalid_argument, fmt::format("{} {} does not match {} {}", each.type.name(),
                                                    to_string(each.shape), first.type.name(), to_string(first.shape)));
}

// The shapes of the cells: as many chunks as fill a block. They differ along `axis` only, where each cell consists of
// whole chunks of its own source.
std::vector<extents> cells_of(const std::vector<array_source>& parts, std::size_t axis, std::uint64_t rows) {
  const std::uint64_t item = parts.front().type.item_bytes();
  extents cell = parts.front().chunks, limits = parts.front().shape;
  std::vector<std::uint64_t> chunks;
  for (const array_source& each : parts) {
    chunks.push_back(std::min(each.chunks[axis], each.shape[axis]));
    limits[axis] = std::max(limits[axis], each.shape[axis]);
  }
  std::uint64_t all = item, bytes = item;
  for (std::size_t d = 0; d < cell.size(); ++d) {
    cell[d] = d == axis ? *std::max_element(chunks.begin(), chunks.end()) : std::min(cell[d], limits[d]);
    all = saturating_mul(all, d == axis ? rows : limits[d]);
    bytes = saturating_mul(bytes, cell[d]);
  }
  const std::uint64_t most = std::max(kBlockBytes, all / kMostBoxes);
  for (std::size_t d = 0; d < cell.size(); ++d) {
    const std::uint64_t many = std::max<std::uint64_t>(1, most / bytes);
    const std::uint64_t longer = std::min(limits[d], saturating_mul(cell[d], many));
    bytes = bytes / cell[d] * longer;
    cell[d] = longer;
    if (longer < limits[d]) break;
  }
  std::vector<extents> out(parts.size(), cell);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // One length for all shorter cells: each length needs its own chain.
    if (parts[i].shape[axis] > cell[axis])
      out[i][axis] = std::max<std::uint64_t>(1, cell[axis] / chunks[i]) * chunks[i];
  }
  return out;
}

}  // namespace

result<array> open_sources(std::vector<array_source> parts, std::size_t axis, std::shared_ptr<context> with) {
  if (parts.empty()) return error(errc::invalid_argument, "there are no arrays to join");
  if (axis >= parts.front().shape.size())
    return error(errc::invalid_argument, fmt::format("arrays of {} have no axis {} to join along",
                                                     counted(parts.front().shape.size(), "dimension"), axis));
  array_facts facts;
  facts.format = "joined";
  facts.type = parts.front().type;
  facts.shape = parts.front().shape;
  facts.shape[axis] = 0;
  for (const array_source& each : parts) {
    PENSTOCK_TRY(check(each, parts.front(), axis));
    if (!checked_add(facts.shape[axis], each.shape[axis], facts.shape[axis]))
      return error(errc::unsupported, "the joined arrays have more than 2^64 elements along their axis");
  }
  facts.fill_value.assign(facts.type.item_bytes(), std::byte{0});

  array_site where;
  where.context = std::move(with);
  if (!where.context) {
    PENSTOCK_ASSIGN(where.context, context::make());
  }
  where.uri = uri_of(parts);
  where.opened_for_reading = true;
  const auto named = [&](error why) { return std::move(why).note("joining '" + where.uri + "'"); };

  std::erase_if(parts, [](const array_source& each) { return is_empty(each.shape); });
  std::shared_ptr<const chunk_layout> layout;
  if (parts.empty()) {
    facts.chunks = facts.shape;
    for (std::uint64_t& each : facts.chunks) each = std::max<std::uint64_t>(1, each);
    auto made = source_layout::make(facts.type, facts.shape, facts.chunks);
    if (!made.ok()) return named(std::move(made).error());
    where.store = std::make_shared<const source_store>(std::move(parts), std::vector<extents>(), where.uri);
    layout = std::move(*made);
  } else {
    std::vector<extents> cells = cells_of(parts, axis, facts.shape[axis]);
    facts.chunks = cells.front();
    std::vector<joined_part> layouts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto made = source_layout::make(facts.type, parts[i].shape, cells[i]);
      if (!made.ok()) return named(std::move(made).error());
      layouts.push_back({std::move(*made), {}});
      facts.chunks[axis] = std::max(facts.chunks[axis], cells[i][axis]);
    }
    const auto store = std::make_shared<const source_store>(std::move(parts), std::move(cells), where.uri);
    for (std::size_t i = 0; i < layouts.size(); ++i) layouts[i].prefix = store->prefix(i);
    where.store = store;
    auto made = joined_layout::make(std::move(layouts), axis);
    if (!made.ok()) return named(std::move(made).error());
    layout = std::move(*made);
  }
  facts.codecs_text = layout->chains()[0].describe();
  facts.codecs_json = std::endian::native == std::endian::big
                          ? R"([{"name":"bytes","configuration":{"endian":"big"}}])"
                          : R"([{"name":"bytes","configuration":{"endian":"little"}}])";
  return array(std::make_shared<const array_state>(std::move(where), std::move(layout), std::move(facts)));
}

}  // namespace penstock::inline v0
