#include <penstock/save.h>
#include <penstock/stream.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/copy/blocks.h"
#include "api/read_source.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

/// Larger blocks are not read faster, and later blocks wait for their memory.
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{32} << 20;
/// Blocks that are read while one is written.
constexpr std::size_t kAhead = 2;

/// `array_writer::block`, for each dimension of `shape`.
extents unit_of(const extents& alone, const extents& shape) {
  extents out(shape.size(), 1);
  for (std::size_t d = 0; d < std::min(alone.size(), shape.size()); ++d) {
    const std::size_t at = shape.size() - 1 - d;
    out[at] = std::clamp<std::uint64_t>(alone[alone.size() - 1 - d], 1, std::max<std::uint64_t>(1, shape[at]));
  }
  return out;
}

result<> report(const save_options& options, std::uint64_t done, std::uint64_t total) {
  if (!options.progress || options.progress({done, total})) return {};
  return error(errc::cancelled, "the caller stopped it");
}

}  // namespace

result<> write_all(const array& from, array_writer& to, const save_options& options) {
  const extents& shape = from.shape();
  const bool is_raw = options.type && options.type->kind() == dtype_kind::raw && !(*options.type == from.type());
  if (from.type().variable_length() || (is_raw && options.type->item_bytes() != from.type().item_bytes()))
    return error(errc::unsupported, fmt::format("items of {} cannot be written as {}", from.type().name(),
                                                options.type ? options.type->name() : "items of a file"));
  stream_options how;
  how.threads = options.threads;
  if (!is_raw) how.type = options.type;
  const std::uint64_t item_bytes = (options.type ? *options.type : from.type()).item_bytes();
  const std::uint64_t memory =
      options.memory_bytes != 0 ? options.memory_bytes : from.context()->state().accounts().memory_limit() / 2;
  const std::uint64_t total = bytes_of(shape, item_bytes);
  const extents alone = to.block();
  if (alone.empty() && total <= memory) {
    how.tile = shape;
    for (std::uint64_t& each : how.tile) each = std::max<std::uint64_t>(1, each);
  } else {
    how.tile = block_of(shape, unit_of(alone, shape), from.chunks(), item_bytes,
                        std::min(kMaxBlockBytes, memory / (kAhead + 1)));
  }
  const std::uint64_t fit = memory / std::max<std::uint64_t>(1, bytes_of(how.tile, item_bytes));
  how.depth = static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, kAhead + 1) - 1);
  PENSTOCK_ASSIGN(array_stream blocks, array_stream::make(from, std::move(how)));
  for (std::uint64_t done = 0;;) {
    PENSTOCK_ASSIGN(const std::optional<stream_tile> block, blocks.next());
    if (!block) return {};
    tensor_view values = block->values.view;
    if (is_raw) values.type = *options.type;
    PENSTOCK_TRY(to.write(block->where.origin, values));
    PENSTOCK_TRY(report(options, done += bytes_of(values.extents, item_bytes), total));
  }
}

result<> write_all(const tensor_view& values, array_writer& to, const save_options& options) {
  if (options.type) return error(errc::invalid_argument, "elements in memory are not converted: type must be empty");
  const extents& shape = values.extents;
  if (is_empty(shape)) return {};
  const std::uint64_t item_bytes = values.type.item_bytes(), total = bytes_of(shape, item_bytes);
  const extents alone = to.block();
  const std::uint64_t most = options.memory_bytes != 0 ? options.memory_bytes : kMaxBlockBytes;
  const extents block =
      alone.empty() ? shape : block_of(shape, unit_of(alone, shape), {}, item_bytes, std::min(kMaxBlockBytes, most));
  extents origin(shape.size(), 0);
  for (std::uint64_t done = 0;;) {
    tensor_view some = values;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      some.extents[d] = std::min(block[d], shape[d] - origin[d]);
      some.data += static_cast<std::ptrdiff_t>(origin[d]) * values.strides[d];
    }
    PENSTOCK_TRY(to.write(origin, some));
    PENSTOCK_TRY(report(options, done += bytes_of(some.extents, item_bytes), total));
    std::size_t d = shape.size();
    while (d > 0 && (origin[d - 1] += block[d - 1]) >= shape[d - 1]) origin[--d] = 0;
    if (d == 0) return {};
  }
}

}  // namespace penstock::inline v0
