#include "api/chunk_writer.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "api/read_source.h"
#include "array/equals_fill.h"
#include "array/strided_copy.h"
#include "engine/cell_source.h"
#include "plan/placement.h"

namespace penstock::inline v0 {
namespace {

/// A worker's buffers above this size are not kept for the next batch.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{8} << 20;

bool covers(const chunk_item& item, const extents& cell) noexcept {
  for (std::size_t d = 0; d < cell.size(); ++d) {
    if (item.part[d].start != 0 || item.part[d].step != 1 || item.part[d].count != cell[d]) return false;
  }
  return true;
}

}  // namespace

void chunk_writer_memory::shrink() noexcept {
  for (buffer* each : {&old, &cell, &encoded, &values})
    if (each->capacity() > kMaxKeptBytes) each->free();
  for (std::size_t i = 0; i < 3; ++i)
    if (scratch.stage(i).capacity() > kMaxKeptBytes) scratch.stage(i).free();
  arrived.reset();
}

namespace {

// The chunk as it will be, in `mine.cell`.
result<> merge(const chunk_write_task& task, const chunk_item& item, chunk_writer_memory& mine) {
  const codec_chain& chain = task.chain;
  const std::uint32_t item_bytes = chain.type().item_bytes();
  const strides whole = c_order_strides(chain.cell(), item_bytes);
  PENSTOCK_ASSIGN(const std::span<std::byte> cell, mine.cell.reserve(chain.decoded_bytes()));

  bool found = false;
  if (!item.replaces) {
    byte_read wanted;
    wanted.key = item.key;
    wanted.buffer = &mine;
    wanted.max_bytes = chain.max_encoded_bytes();
    mine.arrived.reset();
    task.from.read({&wanted, 1}, mine, {});
    if (!mine.arrived) return error(errc::internal, "the store says that it completes inside read, and did not");
    result<read_done> done = std::move(*mine.arrived);
    mine.arrived.reset();
    if (done.ok()) {
      strided_box all(chain.cell().size());
      for (std::size_t d = 0; d < all.size(); ++d) all[d] = {0, 1, chain.cell()[d]};
      decode_target target;
      target.data = cell.data();
      target.strides = whole;
      target.in_cell = &all;
      target.covers_cell = true;
      auto decoded = chain.decode(done->bytes, target, mine.scratch);
      if (!decoded.ok()) return std::move(decoded).error().note("decoding what is to be changed");
      found = true;
    } else if (done.error().code() != errc::not_found) {
      return std::move(done).error().note("reading what is to be changed");
    }
  }
  if (!found) strided_fill(cell.data(), whole, chain.cell(), task.fill.data(), item_bytes);

  std::byte* to = cell.data();
  strides steps(chain.cell().size());
  extents counts(chain.cell().size());
  for (std::size_t d = 0; d < counts.size(); ++d) {
    const axis_range& range = item.part[d];
    counts[d] = range.count;
    if (range.count == 0) return {};
    steps[d] = range.step * whole[d];
    to += static_cast<std::int64_t>(range.start) * whole[d];
  }
  strided_copy(to, steps, item.at, item.strides, counts, item_bytes, 1);
  return {};
}

// Of an item in host memory.
result<> write_here(const chunk_write_task& task, const chunk_item& item, chunk_writer_memory& mine,
                    chunk_written& out) {
  const codec_chain& chain = task.chain;
  const auto note = [&](error what) { return std::move(what).note(fmt::format("key '{}'", item.key)); };

  tensor_view cell;
  cell.type = chain.type();
  cell.extents = chain.cell();
  if (covers(item, chain.cell())) {
    cell.data = item.at;
    cell.strides = item.strides;
  } else {
    if (auto merged = merge(task, item, mine); !merged.ok()) return note(std::move(merged).error());
    cell.data = mine.cell.data();
    cell.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  }
  if (!task.write_empty_chunks && equals_fill(cell.data, cell.strides, cell.extents, task.fill.data(), cell.type)) {
    out.erased = true;
    if (task.to == nullptr) return {};
    auto erased = task.to->erase(item.key, {});
    if (!erased.ok()) return note(std::move(erased).error());
    return {};
  }

  auto encoded = chain.encode(cell, mine.encoded, mine.scratch);
  if (!encoded.ok()) return note(std::move(encoded).error());
  const std::span<const std::byte> object = *encoded;
  if (task.to == nullptr) {
    out.object.assign(object.begin(), object.end());
    return {};
  }
  auto stored = task.to->put(item.key, {&object, 1}, {});
  if (!stored.ok()) return note(std::move(stored).error());
  return {};
}

}  // namespace

result<> write_chunk(const chunk_write_task& task, const chunk_item& item, chunk_writer_memory& mine,
                     chunk_written& out) {
  if (task.values == nullptr) return write_here(task, item, mine, out);
  placement where;
  for (const axis_range& each : item.part) where.counts.push_back(each.count);
  if (is_empty(where.counts)) return write_here(task, item, mine, out);
  where.target.data = item.at;
  where.target.strides = item.strides;
  PENSTOCK_ASSIGN(const lent_values lent, task.values->take(where, mine.values));
  chunk_item here = item;
  here.at = const_cast<std::byte*>(lent.bytes.data());  // only read from
  here.strides = c_order_strides(where.counts, task.chain.type().item_bytes());
  auto outcome = write_here(task, here, mine, out);
  task.values->give(lent);
  return outcome;
}

}  // namespace penstock::inline v0
