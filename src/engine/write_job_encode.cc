// How the workers of a write_job share the cells of its objects, and the memory of encoded cells.

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "engine/context_state.h"
#include "engine/timed_stage.h"
#include "engine/write_job.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// Cells that a worker takes at once decode to about this size, so that the lock costs nothing.
constexpr std::uint64_t kTakeBytes = std::uint64_t{128} << 10;

/// Encoded cells of one object that a worker puts into one block of memory, at their maximum size. The excess memory of
/// a write is less than one such block for each worker in each open object.
constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;

}  // namespace

// Whether a cell of an object in the phase `encode` may be assigned to a worker.
bool write_job::may_encode(const open_object& of) noexcept {
  if (of.waits_for_memory || (of.starts_over && of.encoding > 0)) return false;
  return of.starts_over || of.next < of.cells.size();
}

void write_job::encode_some(guard& lock, open_object& of, unsigned worker) {
  if (of.starts_over) start_over(of);
  const std::uint64_t cell_bytes = std::max<std::uint64_t>(1, layout_->chains()[0].decoded_bytes());
  const auto most = static_cast<std::size_t>(std::max<std::uint64_t>(1, kTakeBytes / cell_bytes));
  const std::size_t begin = of.next;
  // Encoded cells of a repeated object are kept.
  std::size_t count = 0, end = begin;
  for (; end < of.cells.size() && count < most; ++end) count += of.cells[end].encoded ? 0 : 1;
  of.next = end;
  const std::uint64_t ended_before = flights_ended_;
  ++active_;
  ++of.encoding;
  lock.unlock();
  std::optional<error> bad;
  std::size_t encoded = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < end && !stopping(); ++i) {
    touched_cell& cell = of.cells[i];
    if (cell.encoded) continue;
    cell.by_source = false;
    result<> done;
    {
      timed_stage timing(profiler_.get(), write_number_, stage::encode, worker, cell.cell);
      done = encode_cell(of, cell, worker);
      timing.moved(layout_->chains()[cell.chain].decoded_bytes(), cell.bytes.size());
      // The source has recorded the encoding: this worker waited for it.
      if (!done.ok() || cell.by_source) timing.leave_out();
    }
    if (!done.ok()) {
      bad.emplace(std::move(done).error().note("encoding " + layout_->describe(cell.cell)));
      break;
    }
    ++encoded;
    if (!cell.counted) bytes += layout_->chains()[cell.chain].decoded_bytes();
    cell.counted = true;
  }
  done_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  lock.lock();
  --active_;
  --of.encoding;
  of.unfinished -= encoded;
  if (bad) {
    // Objects in flight return their memory, at the latest when they are closed.
    const bool comes_back = flights_ > 0 || flights_ended_ != ended_before;
    if (bad->code() != errc::resource_exhausted || !comes_back) return fail(of.key, std::move(*bad));
    of.waits_for_memory = flights_ > 0;
    of.starts_over = true;
  }
  if (of.starts_over) {
    if (of.encoding == 0) {  // those objects may need it: all of its cells are encoded again
      of.blocks.clear();
      free_blocks_.clear();
    }
    return;
  }
  if (of.unfinished == 0) of.what = open_object::phase::commit;
}

// Called with the lock held. Drops the object's encoded bytes, in blocks that were small because memory was short.
void write_job::start_over(open_object& of) {
  of.starts_over = false;
  of.blocks.clear();
  free_blocks_.clear();
  of.opening = ++openings_;  // no worker continues with an earlier block
  for (touched_cell& each : of.cells) each.encoded = false;
  of.unfinished = of.cells.size();
  of.next = 0;
}

// Memory for one encoded cell; the caller adds the used part to the worker's block.
result<std::span<std::byte>> write_job::room_for(open_object& of, std::uint64_t bytes, unsigned worker) {
  worker_state& mine = *workers_[worker];
  if (mine.current_opening != of.opening || mine.current->capacity() - mine.current->used < bytes) {
    std::uint64_t left = 0;
    {
      const guard lock(mutex_);
      left = of.cells.size() - of.next + 1;
    }
    PENSTOCK_ASSIGN(std::unique_ptr<block> made, take_block(bytes, left));
    mine.current = made.get();
    mine.current_opening = of.opening;
    const guard lock(mutex_);
    of.blocks.push_back(std::move(made));
  }
  return std::span(mine.current->data() + mine.current->used, static_cast<std::size_t>(bytes));
}

// A block with space for `bytes`, and for up to that many more cells.
result<std::unique_ptr<write_job::block>> write_job::take_block(std::uint64_t bytes, std::uint64_t cells) {
  std::unique_ptr<block> out;
  {
    const guard lock(mutex_);
    const auto fits = std::find_if(free_blocks_.rbegin(), free_blocks_.rend(),
                                   [&](const auto& each) { return each->capacity() >= bytes; });
    const auto at =
        fits == free_blocks_.rend() ? free_blocks_.end() - (free_blocks_.empty() ? 0 : 1) : std::next(fits).base();
    if (at != free_blocks_.end()) {
      out = std::move(*at);
      free_blocks_.erase(at);
    }
  }
  if (!out) out = std::make_unique<block>(*state_);
  if (out->capacity() < bytes) {
    std::uint64_t size = 0;
    if (!checked_mul(bytes, cells, size) || size > kBlockBytes) size = std::max(bytes, kBlockBytes);
    auto taken = out->reserve(size);
    if (!taken.ok()) {
      const guard lock(mutex_);
      free_blocks_.clear();  // too small for this, and still counted
      taken = out->reserve(bytes);
    }
    if (!taken.ok()) return std::move(taken).error();
  }
  out->used = 0;
  return out;
}

write_job::block::block(context_state& state) : state_(state), small_(&state.accounts(), memory_use::encoded) {}
write_job::block::~block() { free(); }

void write_job::block::free() noexcept {
  small_.free();
  if (large_.bytes() > 0) state_.accounts().give(memory_use::encoded, large_.bytes());
  large_ = output_block();
}

result<> write_job::block::reserve(std::uint64_t bytes) {
  used = 0;
  if (bytes <= capacity()) return {};
  free();
  if (bytes <= kOwnMemoryBytes) {
    PENSTOCK_TRY(small_.reserve(bytes));
    return {};
  }
  PENSTOCK_TRY(state_.accounts().take(memory_use::encoded, bytes));
  auto taken = state_.outputs().take(bytes);
  if (!taken.ok()) {
    state_.accounts().give(memory_use::encoded, bytes);
    return std::move(taken).error();
  }
  large_ = std::move(*taken);
  return {};
}

}  // namespace penstock::inline v0
