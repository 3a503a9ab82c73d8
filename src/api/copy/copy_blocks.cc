#include "api/copy/copy_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/copy/array_copy.h"
#include "api/copy/copy_pieces.h"
#include "api/copy/first_difference.h"
#include "array/equals_fill.h"
#include "array/strided_copy.h"
#include "base/lookup3.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

resolved_basic selection_of(const box& block) {
  resolved_basic out;
  out.shape = block.size;
  for (std::size_t d = 0; d < block.size.size(); ++d) {
    out.axis.push_back(static_cast<std::int8_t>(d));
    out.from.push_back({static_cast<std::int64_t>(block.origin[d]), 1, block.size[d]});
  }
  return out;
}

std::uint64_t elements(const box& of) noexcept {
  std::uint64_t out = 1;
  for (const std::uint64_t length : of.size) out *= length;
  return out;
}

// The offset of `piece` within `block`, whose elements are in C order with these strides.
std::int64_t offset_of(const box& piece, const box& block, const strides& steps) noexcept {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < piece.size.size(); ++d)
    out += static_cast<std::int64_t>(piece.origin[d] - block.origin[d]) * steps[d];
  return out;
}

// The name of the file and its identity are the same for the same work.
std::string scratch_name(const std::string& target) {
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(target.data()), target.size());
  return fmt::format(".penstock-rechunk-{:08x}{:08x}", lookup3(text, 1), lookup3(text, 2));
}

std::string identity_of(const array& from, const array& to, const rechunk_plan& plan) {
  std::string out = fmt::format("penstock rechunk 1\n{}\n{}\n{} {}\n{}\n", from.uri(), to.uri(), from.type().name(),
                                to_string(from.shape()), from.codecs_json());
  for (const chunk_grid* const grid : {&plan.reads, &plan.writes})
    for (std::size_t d = 0; d < grid->rank(); ++d)
      out += fmt::format("{}:{} ", grid->axis(d).cells(), grid->axis(d).valid_length(0));
  return out;
}

}  // namespace

result<> block_copier::run() {
  switch (plan_.way) {
    case rechunk_way::direct:
      return direct();
    case rechunk_way::gathered:
      return gathered();
    case rechunk_way::spilled:
      return spilled();
  }
  return {};
}

result<> block_copier::finish(const box& block, const std::byte* values, output_block& spare) {
  return with_.compares ? compare_block(block, values, spare) : write(block, values);
}

result<> block_copier::compare_block(const box& block, const std::byte* values, output_block& spare) const {
  const dtype& type = copied_type();
  if (spare.bytes() < bytes_of(block)) {
    spare = {};
    PENSTOCK_ASSIGN(spare, memory_for(block));
  }
  const auto arena = type.variable_length() ? std::make_shared<item_arena>() : nullptr;
  PENSTOCK_TRY(read(to_, block, spare.data(), arena));
  const auto at = first_difference(values, spare.data(), elements(block), type);
  if (!at) return {};
  return error(errc::corrupt_data,
               fmt::format("element ({}) of the copy differs from the source's", position_in(block, *at)))
      .note(fmt::format("array '{}'", to_.uri()));
}

std::uint64_t block_copier::bytes_of(const box& block) const noexcept { return elements(block) * item_bytes(); }

// Runs pieces 0..count-1 in order; of several processes, this one's. Progress counts all passes.
result<> block_copier::each(std::uint64_t count, unsigned pass, unsigned passes, unsigned workers,
                            const std::function<result<>(std::uint64_t, std::uint64_t&)>& piece) {
  PENSTOCK_ASSIGN(std::uint64_t total, element_count(from_.shape()));
  total *= item_bytes();
  const auto [first, last] = share_of(with_.options.part, count);
  if (first == last) return {};
  if (last - first != count)
    total = static_cast<std::uint64_t>(static_cast<double>(total) * static_cast<double>(last - first) /
                                       static_cast<double>(count));
  copy_options shown = with_.options;
  if (shown.progress && passes > 1) {
    shown.progress = [&, passes, pass](const copy_progress& now) {
      return with_.options.progress({now.path, (pass * now.total_bytes + now.done_bytes) / passes, now.total_bytes});
    };
  }
  const bool waits = workers > with_.threads;  // more workers than threads: some of them wait for the device
  copy_pieces work(shown, from_.context()->state(), with_.path, total);
  pieces_ = &work;
  auto done = work.run(static_cast<std::size_t>(last - first), workers, waits,
                       [&, begin = first](std::size_t i, std::uint64_t& bytes) { return piece(begin + i, bytes); });
  pieces_ = nullptr;
  return done;
}

progress_fn block_copier::stopper() const {
  if (!with_.options.progress || pieces_ == nullptr) return {};
  return [work = pieces_](const read_progress&) { return work->goes_on(); };
}

result<output_block> block_copier::memory_for(const box& block) const {
  return from_.context()->state().outputs().take(bytes_of(block));
}

result<> block_copier::read(const array& of, const box& block, std::byte* to, std::shared_ptr<item_arena> arena) const {
  read_options options;
  options.arena = std::move(arena);
  options.threads = left_for_each_;
  options.progress = stopper();
  if (has_gaps(of.type())) {
    const std::uint64_t count = elements(block);
    PENSTOCK_ASSIGN(const output_block stored, from_.context()->state().outputs().take(count * of.type().item_bytes()));
    PENSTOCK_TRY(of.read(selection_of(block), tensor_view::contiguous(stored.data(), of.type(), block.size), options));
    pack_items(of.type(), stored.data(), to, count);
    return {};
  }
  return of.read(selection_of(block), tensor_view::contiguous(to, of.type(), block.size), options);
}

result<> block_copier::write(const box& block, const std::byte* values) {
  write_options options;
  options.threads = left_for_each_;
  options.progress = stopper();
  options.durable = with_.options.durable;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a write only reads from it
  auto* const at = const_cast<std::byte*>(values);
  PENSTOCK_TRY(to_.write(selection_of(block), tensor_view::contiguous(at, to_.type(), block.size), options));
  written_ += bytes_of(block);
  for_each_part(to_.state().layout->write_grid(), block, [&](chunk_id, const box&) { ++objects_; });
  return {};
}

bool block_copier::skips(const box& block) {
  if (!with_.is_there || !with_.is_there(block)) return false;
  for_each_part(to_.state().layout->write_grid(), block, [&](chunk_id, const box&) { ++skipped_; });
  return true;
}

void block_copier::move(const box& piece, const box& from, const std::byte* values, const box& to,
                        std::byte* into) const noexcept {
  const std::uint32_t item = item_bytes();
  const strides steps = c_order_strides(from.size, item), to_steps = c_order_strides(to.size, item);
  strided_copy(into + offset_of(piece, to, to_steps), to_steps, values + offset_of(piece, from, steps), steps,
               piece.size, item, 1);
}

result<> block_copier::direct() {
  return each(plan_.reads.cells(), 0, 1, plan_.workers, [&](std::uint64_t n, std::uint64_t& bytes) -> result<> {
    const box block = box_of(plan_.reads, n);
    bytes = bytes_of(block);
    if (skips(block)) return {};
    PENSTOCK_ASSIGN(const output_block memory, memory_for(block));
    const auto arena = from_.type().variable_length() ? std::make_shared<item_arena>() : nullptr;
    PENSTOCK_TRY(read(from_, block, memory.data(), arena));
    output_block spare;
    return finish(block, memory.data(), spare);
  });
}

result<> block_copier::gathered() {
  return each(plan_.reads.cells(), 0, 1, plan_.workers,
              [&](std::uint64_t n, std::uint64_t& bytes) { return gather(n, bytes); });
}

result<> block_copier::gather(std::uint64_t n, std::uint64_t& bytes) {
  const box block = box_of(plan_.reads, nth_block(plan_.reads, plan_.slowest, n));
  bytes = bytes_of(block);
  bool wanted = !with_.is_there;
  if (!wanted)
    for_each_part(plan_.writes, block,
                  [&](chunk_id id, const box&) { wanted = wanted || !with_.is_there(box_of(plan_.writes, id)); });
  output_block memory;
  if (wanted) {
    PENSTOCK_ASSIGN(memory, memory_for(block));
    PENSTOCK_TRY(read(from_, block, memory.data()));
  }
  result<> failed;
  std::vector<std::pair<box, std::shared_ptr<open_block>>> complete;
  for_each_part(plan_.writes, block, [&](chunk_id id, const box& piece) {
    if (!failed.ok()) return;
    const box whole = box_of(plan_.writes, id);
    std::shared_ptr<open_block> of;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<open_block>& found = open_[id];
      if (!found) {
        found = std::make_shared<open_block>();
        found->left = elements(whole);
        if (!with_.is_there || !with_.is_there(whole)) {
          auto taken = memory_for(whole);
          if (!taken.ok()) {
            failed = std::move(taken).error();
            return;
          }
          found->memory = std::move(*taken);
        }
      }
      of = found;
    }
    if (of->memory.data() != nullptr) move(piece, block, memory.data(), whole, of->memory.data());
    {
      const std::lock_guard lock(mutex_);  // the thread that sees 0 also sees all copies of the others
      of->left -= elements(piece);
      if (of->left > 0) return;
      open_.erase(id);
    }
    complete.emplace_back(whole, std::move(of));
  });
  PENSTOCK_TRY(std::move(failed));
  for (auto& [whole, of] : complete) {
    if (of->memory.data() != nullptr) {
      PENSTOCK_TRY(finish(whole, of->memory.data(), memory));
    } else {
      skips(whole);
    }
    of.reset();
  }
  return {};
}

bool block_copier::leaves_objects_out(const box& block, const std::byte* values) const {
  bool out = false;
  const strides steps = c_order_strides(block.size, to_.type().item_bytes());
  for_each_part(to_.state().layout->write_grid(), block, [&](chunk_id, const box& object) {
    out = out || equals_fill(values + offset_of(object, block, steps), steps, object.size, to_.fill_value().data(),
                             to_.type());
  });
  return out;
}

std::uint64_t block_copier::place_of(const box& piece, const box& block) const noexcept {
  // Parts are in C order of the grid that divides the block: a part follows all parts that begin before it along the
  // first axis, then those with the same first position that begin before it along the next axis, and so on.
  std::uint64_t out = 0;
  for (std::size_t d = 0; d < piece.size.size(); ++d) {
    std::uint64_t volume = piece.origin[d] - block.origin[d];
    for (std::size_t k = 0; k < piece.size.size(); ++k) {
      if (k < d) volume *= piece.size[k];
      if (k > d) volume *= block.size[k];
    }
    out += volume;
  }
  return out * item_bytes();
}

// Where the parts of each block of the destination begin in the file; the last one is the end.
std::vector<std::uint64_t> block_copier::ranges() const {
  std::vector<std::uint64_t> out{0};
  for (std::uint64_t id = 0; id < plan_.writes.cells(); ++id)
    out.push_back(out.back() + bytes_of(box_of(plan_.writes, id)));
  return out;
}

result<> block_copier::spilled() {
  const std::vector<std::uint64_t> begins = ranges();
  const copy_options& options = with_.options;
  const copy_stage stage = options.part.stage;
  const std::string name = scratch_name(to_.uri());
  const std::string identity = (with_.compares ? "compare " : "") + identity_of(from_, to_, plan_);
  const std::uint64_t bytes = begins.back(), marks = plan_.reads.cells() + plan_.writes.cells();
  const bool alone = stage == copy_stage::whole || stage == copy_stage::prepare;
  const bool goes_on = options.resume && !with_.compares;
  auto opened = alone ? scratch_file::open(options.scratch, name, identity, bytes, marks, goes_on)
                      : scratch_file::join(options.scratch, name, identity, bytes, marks);
  if (!opened.ok()) return std::move(opened).error();
  scratch_file& file = **opened;
  result<> done;
  if (stage == copy_stage::whole || stage == copy_stage::first) done = spill(file, begins);
  if (done.ok() && (stage == copy_stage::whole || stage == copy_stage::second)) done = collect(file, begins);
  // A copy that replaces a node starts from the beginning, as a comparison does; others can be continued.
  const bool ends = done.ok() || options.overwrite || with_.compares;
  if ((stage == copy_stage::whole && ends) || stage == copy_stage::finish) file.remove();
  return done;
}

// The first pass: the parts of each block of the source are written to their positions in the file.
result<> block_copier::spill(scratch_file& file, std::span<const std::uint64_t> begins) {
  return each(plan_.reads.cells(), 0, 2, plan_.workers, [&](std::uint64_t n, std::uint64_t& bytes) -> result<> {
    const box block = box_of(plan_.reads, n);
    bytes = bytes_of(block);
    if (file.is_marked(n)) return {};
    PENSTOCK_ASSIGN(const output_block memory, memory_for(block));
    PENSTOCK_TRY(read(from_, block, memory.data()));
    output_block spare;
    result<> failed;
    for_each_part(plan_.writes, block, [&](chunk_id id, const box& piece) {
      if (!failed.ok()) return;
      const std::uint64_t size = bytes_of(piece);
      if (spare.bytes() < size) {
        auto taken = memory_for(piece);
        if (!taken.ok()) {
          failed = std::move(taken).error();
          return;
        }
        spare = std::move(*taken);
      }
      move(piece, block, memory.data(), piece, spare.data());
      failed = file.write(begins[static_cast<std::size_t>(id)] + place_of(piece, box_of(plan_.writes, id)),
                          {spare.data(), static_cast<std::size_t>(size)});
    });
    PENSTOCK_TRY(std::move(failed));
    return file.mark(n, with_.options.durable);
  });
}

bool block_copier::parts_are_in_order() const noexcept {
  for (std::size_t d = 1; d < plan_.writes.rank(); ++d) {
    const grid_axis &of = plan_.writes.axis(d), &parts = plan_.reads.axis(d);
    for (std::uint64_t i = 0; i < of.cells(); ++i) {
      const std::uint64_t begin = of.origin(i), last = begin + of.valid_length(i) - 1;
      if (parts.cell_of(begin) != parts.cell_of(last)) return false;
    }
  }
  return true;
}

// The second pass: the parts of each block of the destination are read and written as its objects.
result<> block_copier::collect(scratch_file& file, std::span<const std::uint64_t> begins) {
  const std::uint64_t reads = plan_.reads.cells();
  const bool in_order = parts_are_in_order();
  // Each worker has memory for two blocks. Where one suffices, there are twice as many workers: while some of them wait
  // until the device has their objects, others encode. One thread stays one.
  const bool doubles = in_order && !with_.compares && with_.threads > 1;
  return each(plan_.writes.cells(), 1, 2, (doubles ? 2 : 1) * plan_.workers,
              [&, in_order](std::uint64_t id, std::uint64_t& bytes) -> result<> {
                const box block = box_of(plan_.writes, id);
                bytes = bytes_of(block);
                const bool had_written = file.is_marked(reads + id);
                if (skips(block)) return {};
                if (had_written)  // a power cut removed them, and the file no longer has their parts
                  return error(errc::conflict,
                               "objects that this copy had written were removed: begin again, without resuming");
                const std::uint64_t begin = begins[static_cast<std::size_t>(id)];
                PENSTOCK_ASSIGN(output_block parts, memory_for(block));
                PENSTOCK_TRY(file.read(begin, {parts.data(), static_cast<std::size_t>(bytes)}));
                output_block moved;
                if (!in_order) {
                  PENSTOCK_ASSIGN(moved, memory_for(block));
                  for_each_part(plan_.reads, block, [&](chunk_id, const box& piece) {
                    move(piece, piece, parts.data() + place_of(piece, block), block, moved.data());
                  });
                }
                const std::byte* const values = in_order ? parts.data() : moved.data();
                PENSTOCK_TRY(finish(block, values, in_order ? moved : parts));
                // A continued copy finds the objects, unless some are not stored: then the parts are kept.
                if (!with_.compares && leaves_objects_out(block, values)) return {};
                if (!with_.compares) PENSTOCK_TRY(file.mark(reads + id, with_.options.durable));
                file.discard(begin, bytes);
                return {};
              });
}

}  // namespace penstock::inline v0
