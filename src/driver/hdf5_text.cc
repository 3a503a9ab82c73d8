#include "driver/hdf5_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "array/chunk_grid.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "format/hdf5/hdf5_heaps.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMostPointerBytes = std::uint64_t{1} << 26;
/// Of elements that were never written: the file's size does not bound how many there are.
constexpr std::uint64_t kMostFillBytes = std::uint64_t{1} << 26;

/// The references of all elements, in C order; that of the fill value where nothing was written.
result<std::vector<std::byte>> read_pointers(hdf5_file& file, const hdf5_array& from, const chunk_layout& layout) {
  const chunk_grid& grid = layout.grid();
  const std::uint64_t item = from.text->pointer_bytes;
  std::uint64_t bytes = item;
  extents shape;
  strided_box whole;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    shape.push_back(grid.axis(d).extent());
    whole.push_back({0, 1, shape[d]});
    bytes = saturating_mul(bytes, shape[d]);
  }
  if (bytes > kMostPointerBytes) {
    return error(errc::unsupported,
                 fmt::format("{} items of variable length are more than this release reads", bytes / item));
  }
  strides steps(shape.size());
  auto step = static_cast<std::int64_t>(item);
  for (std::size_t d = shape.size(); d-- > 0; step *= static_cast<std::int64_t>(shape[d])) steps[d] = step;

  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  if (const std::vector<std::byte>& fill = from.text->fill; !fill.empty())
    for (std::size_t at = 0; at < out.size(); at += fill.size()) std::copy(fill.begin(), fill.end(), &out[at]);
  worker_scratch scratch;
  for (std::size_t i = 0; i < from.offsets.size(); ++i) {
    dim_vector<std::uint64_t> at;
    cell_region region;
    grid.coordinates(from.cells.empty() ? i : from.cells[i], at);
    if (!intersect(grid, at, whole, region)) continue;
    std::span<const std::byte> encoded;
    if (from.inline_bytes) {
      encoded = std::span(*from.inline_bytes)
                    .subspan(static_cast<std::size_t>(from.offsets[i]), static_cast<std::size_t>(from.lengths[i]));
    } else {
      const auto read = file.at(from.offsets[i] - file.base(), from.lengths[i]);
      if (!read.ok()) {
        if (file.waiting()) continue;
        return read.error().clone();
      }
      encoded = *read;
    }
    decode_target target;
    target.data = out.data();
    for (std::size_t d = 0; d < shape.size(); ++d)
      target.data += static_cast<std::int64_t>(region.in_result[d]) * steps[d];
    target.strides = steps;
    target.in_cell = &region.in_cell;
    target.covers_cell = region.covers_cell;
    const std::size_t chain = from.chains.empty() ? 0 : from.chains[i];
    auto decoded = layout.chains()[chain].decode(encoded, target, scratch);
    if (!decoded.ok()) return std::move(decoded).error().note(fmt::format("decoding {}", layout.describe(grid.id(at))));
  }
  return out;
}

void append_number(std::vector<std::byte>& to, std::uint64_t value) {
  for (unsigned i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

result<std::vector<std::byte>> read_hdf5_text(hdf5_file& file, const hdf5_array& from, const chunk_layout& layout) {
  PENSTOCK_ASSIGN(const std::vector<std::byte> pointers, read_pointers(file, from, layout));
  const std::size_t item = from.text->pointer_bytes;
  std::vector<std::byte> out;
  std::uint64_t filled = 0;
  append_number(out, pointers.size() / item);
  hdf5_global_heap heap(file);
  for (std::size_t at = 0; at < pointers.size(); at += item) {
    const std::span<const std::byte> reference(pointers.data() + at, item);
    hdf5_cursor cursor(reference);
    const std::uint64_t length = cursor.number(4), collection = cursor.number(file.offset_bytes()),
                        index = cursor.number(4);
    std::span<const std::byte> text;
    if (length != 0) {
      auto object = heap.object(collection, index);
      if (!object.ok()) {
        if (file.waiting()) continue;
        return std::move(object).error();
      }
      if (object->size() < length && !object->empty())
        return hdf5_damaged(fmt::format("text of {} bytes in an object of {}", length, object->size()));
      text = object->first(static_cast<std::size_t>(std::min<std::uint64_t>(length, object->size())));
      text = text.first(static_cast<std::size_t>(std::find(text.begin(), text.end(), std::byte{0}) - text.begin()));
    }
    if (out.size() + text.size() > kMostHdf5TextBytes) {
      return error(errc::unsupported,
                   fmt::format("more than {} bytes of text of variable length are not readable", kMostHdf5TextBytes));
    }
    const bool is_fill = std::equal(reference.begin(), reference.end(), from.text->fill.begin(), from.text->fill.end());
    if (!is_fill) {
      PENSTOCK_TRY(file.spend(text.size()));  // several elements may be one object
    } else if ((filled += text.size()) > kMostFillBytes) {
      return error(errc::unsupported,
                   fmt::format("more than {} bytes of text that is the fill value are not readable", kMostFillBytes));
    }
    append_number(out, text.size());
    out.insert(out.end(), text.begin(), text.end());
  }
  return out;
}

std::vector<std::byte> pack_hdf5_text(std::span<const std::string> texts) {
  std::vector<std::byte> out;
  append_number(out, texts.size());
  for (const std::string& each : texts) {
    append_number(out, each.size());
    const auto bytes = std::as_bytes(std::span(each));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

std::vector<std::string> unpack_hdf5_text(std::span<const std::byte> cell) {
  constexpr std::size_t kNumber = 4;
  const auto number = [&] {
    std::size_t out = 0;
    for (std::size_t i = std::min(kNumber, cell.size()); i-- > 0;) out = out << 8 | static_cast<std::size_t>(cell[i]);
    cell = cell.subspan(std::min(kNumber, cell.size()));
    return out;
  };
  std::vector<std::string> out(std::min(number(), cell.size() / kNumber));
  for (std::string& each : out) {
    const auto text = cell.first(std::min(number(), cell.size()));
    each.assign(reinterpret_cast<const char*>(text.data()), text.size());
    cell = cell.subspan(text.size());
  }
  return out;
}

}  // namespace penstock::inline v0
