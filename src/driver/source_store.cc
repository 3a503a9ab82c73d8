#include "driver/source_store.h"

#include <fmt/format.h>
#include <penstock/extend/store.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "array/strided_copy.h"
#include "base/checked.h"
#include "format/source/source_layout.h"

namespace penstock::inline v0 {
namespace {

std::uint64_t count_of(const extents& shape) noexcept {
  std::uint64_t out = 1;
  for (const std::uint64_t each : shape) out *= each;
  return out;
}

// The smallest contiguous box with the items [first, last) of a C-order block, and the number of its first item.
box smallest_box(const extents& block, std::uint64_t first, std::uint64_t last, std::uint64_t& begin) {
  box out{extents(block.size()), block};
  begin = 0;
  std::uint64_t inner = count_of(block);
  for (std::size_t d = 0; d < block.size(); ++d) {
    inner /= block[d];
    const std::uint64_t low = (first - begin) / inner, high = ceil_div(last - begin, inner);
    out.origin[d] = low;
    out.size[d] = high - low;
    begin += low * inner;
    if (high - low > 1) break;
  }
  return out;
}

}  // namespace

source_store::source_store(std::vector<array_source> parts, std::vector<extents> cells, std::string uri)
    : parts_(std::move(parts)), cells_(std::move(cells)), uri_(std::move(uri)) {
  names_.reserve(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::string name = parts_[i].name;
    while (by_name_.contains(name)) name = fmt::format("{} (part {})", name, i);
    names_.push_back(std::move(name));
    by_name_.emplace(names_.back(), i);
  }
}

store_traits source_store::traits() const {
  store_traits traits;
  traits.max_length_bytes = std::uint64_t{8} << 20;
  return traits;
}

void source_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  for (const byte_read& one : reads) {
    auto done = stop.stop_requested() ? error(errc::cancelled, "the read was stopped") : read_one(one);
    sink.complete(one.tag, std::move(done));
  }
}

result<read_done> source_store::read_one(const byte_read& wanted) const {
  const std::size_t slash = wanted.key.rfind('/');
  const auto found = slash == std::string_view::npos ? by_name_.end() : by_name_.find(wanted.key.substr(0, slash));
  if (found == by_name_.end()) return error(errc::not_found, "no such source");
  const std::size_t which = found->second;
  const extents& cell = cells_[which];
  box exists{extents(cell.size()), extents(cell.size())};
  if (!parse_box_key(wanted.key.substr(slash + 1), exists.origin, exists.size))
    return error(errc::not_found, "no such box");
  const std::uint64_t item = parts_[which].type.item_bytes();
  PENSTOCK_ASSIGN(const byte_extent range, find_extent(wanted, count_of(cell) * item));
  PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, range.length));
  read_done done;
  done.bytes = room;
  if (range.length == 0) return done;

  std::uint64_t first = 0;  // the item of the cell at which `in_cell` begins
  const box in_cell = smallest_box(cell, range.offset / item, ceil_div(range.offset + range.length, item), first);
  const std::uint64_t skipped = range.offset - first * item;
  box inside = in_cell;
  bool any = true, whole = true;
  for (std::size_t d = 0; d < cell.size(); ++d) {
    const std::uint64_t end = std::min(in_cell.origin[d] + in_cell.size[d], exists.size[d]);
    any = any && in_cell.origin[d] < end;
    inside.size[d] = any ? end - in_cell.origin[d] : 0;
    whole = whole && inside.size[d] == in_cell.size[d];
    inside.origin[d] = exists.origin[d] + in_cell.origin[d];
  }
  if (!any) {
    std::memset(room.data(), 0, room.size());
    return done;
  }
  const std::uint64_t bytes = count_of(in_cell.size) * item;
  if (whole && skipped == 0 && bytes == room.size()) {
    PENSTOCK_TRY(read_box(which, inside, room));
    return done;
  }
  std::vector<std::byte> values(static_cast<std::size_t>(count_of(inside.size) * item));
  PENSTOCK_TRY(read_box(which, inside, values));
  if (!whole) {
    std::vector<std::byte> padded(static_cast<std::size_t>(bytes));
    const auto width = static_cast<std::uint32_t>(item);
    strided_copy(padded.data(), c_order_strides(in_cell.size, width), values.data(),
                 c_order_strides(inside.size, width), inside.size, width, 1);
    values = std::move(padded);
  }
  std::memcpy(room.data(), values.data() + skipped, room.size());
  return done;
}

result<> source_store::read_box(std::size_t which, const box& at, std::span<std::byte> out) const {
  try {
    return parts_[which].read(at, out);
  } catch (const std::exception& failed) {
    return error(errc::io_error, failed.what());
  }
}

}  // namespace penstock::inline v0
