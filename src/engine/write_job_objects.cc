// Which objects a write_job opens, and which of their cells it writes.

#include <algorithm>
#include <utility>

#include "base/thrown.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/write_job.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

// For the content of the object before it was read: every index reports its object as absent.
class nothing_known final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return &absent_; }

 private:
  index_entry absent_;
};

class table_lookup final : public index_lookup {
 public:
  explicit table_lookup(const index_table& table) noexcept : table_(table) {}
  const index_entry* find(const index_key& key) const override { return table_.find(0, key); }

 private:
  const index_table& table_;
};

// Whether cell `id` extends beyond the grid's array.
bool reaches_beyond(const chunk_grid& grid, chunk_id id) noexcept {
  dim_vector<std::uint64_t> at;
  grid.coordinates(id, at);
  for (std::size_t d = 0; d < grid.rank(); ++d)
    if (grid.axis(d).valid_length(at[d]) < grid.axis(d).codec_length(at[d])) return true;
  return false;
}

part slice_of(part object, const byte_range& range) noexcept {
  if (range.whole()) return object;
  if (range.length > object.size()) return {};
  const auto length = static_cast<std::size_t>(range.length);
  if (range.from_end) return object.last(length);
  if (range.offset > object.size() - length) return {};
  return object.subspan(static_cast<std::size_t>(range.offset), length);
}

}  // namespace

write_job::open_object::open_object(write_job& owner) : job(owner), reader(*this) {}

// Called and returns with the lock held, as all functions that take it.
void write_job::open_next(guard& lock) {
  open_object& of = take_closed();
  opening_ = true;
  ++active_;
  lock.unlock();
  const bool any = find_next(of);
  result<> listed = any ? caught("the layout", [&] { return list_cells(of); }) : result<>();
  lock.lock();
  opening_ = false;
  --active_;
  if (!any) {
    exhausted_ = true;
    close(of);
  } else if (!listed.ok()) {
    fail(of.key, std::move(listed).error());
  } else {
    const bool at_once = of.covered || (careful_ && of.replaced);
    of.what = at_once ? open_object::phase::encode : open_object::phase::load;
  }
}

// False: all objects of all sources have been opened. One worker at a time.
bool write_job::find_next(open_object& of) {
  while (!walk_.next(of.touched)) {
    if (source_at_ + 1 == sources_.size()) return false;
    walk_.start(sources_[++source_at_]);
  }
  of.from = &sources_[source_at_];
  return true;
}

// Begins an object again that was staged and that another writer changed before it was published. Its encoded bytes
// were released.
void write_job::reopen(guard& lock) {
  staged which = std::move(again_.back());
  again_.pop_back();
  open_object& of = take_closed();
  of.from = which.from;
  of.touched = std::move(which.touched);
  ++active_;
  lock.unlock();
  result<> listed = caught("the layout", [&] { return list_cells(of); });
  lock.lock();
  --active_;
  of.tries = which.tries;
  for (touched_cell& each : of.cells) each.counted = true;  // counted in the progress the first time
  if (!listed.ok()) {
    fail(of.key, std::move(listed).error());
  } else {
    of.what = open_object::phase::load;
  }
}

// An open object without content yet.
write_job::open_object& write_job::take_closed() {
  auto free = std::find_if(objects_.begin(), objects_.end(),
                           [](const auto& each) { return each->what == open_object::phase::closed; });
  if (free == objects_.end()) free = objects_.insert(objects_.end(), std::make_unique<open_object>(*this));
  (*free)->what = open_object::phase::busy;
  (*free)->opening = ++openings_;
  ++open_count_;
  return **free;
}

void write_job::close(open_object& of) {
  of.what = open_object::phase::closed;
  of.cells.clear();
  of.next = of.unfinished = 0;
  of.waits_for_memory = of.starts_over = false;
  of.tries = 0;
  of.old = read_done();
  of.answer.reset();
  hold_old_bytes(of, 0);
  of.existed = of.blind = false;
  of.reader.forget();
  of.indexes.clear();
  for (auto& each : of.blocks) {
    each->used = 0;
    free_blocks_.push_back(std::move(each));
  }
  of.blocks.clear();
  --open_count_;
  // Its memory is free. It may have been the last of the objects that others wait for.
  for (const auto& each : objects_) each->waits_for_memory = false;
}

// Fills in the cells of the iteration, and whether the old object is needed.
result<> write_job::list_cells(open_object& of) {
  const chunk_layout& layout = *layout_;
  of.object = of.touched.object;
  of.tries = 0;
  layout.key(of.object, of.key);
  of.key.insert(0, of.from->prefix);
  of.cells.resize(of.touched.cells.size());
  placement where;
  const bool replaced = !with_.replaced.empty() && with_.replaced[static_cast<std::size_t>(of.from - sources_.data())];
  bool whole = replaced || of.touched.valid_cells == of.cells.size();
  for (std::size_t i = 0; i < of.cells.size(); ++i) {
    touched_cell& each = of.cells[i];
    each = touched_cell();
    each.cell = of.touched.cells[i];
    if (!place_cell(*of.from, each.cell, where))
      return error(errc::internal, "a cell that the selection does not touch");
    each.whole = replaced || is_whole_cell(*of.from, each.cell, where);
    each.edge = with_.edges != nullptr && reaches_beyond(layout.grid(), each.cell);
    whole = whole && each.whole;
  }
  of.replaced = whole;
  of.covered = whole && !careful_ && (with_.edges == nullptr || !reaches_beyond(layout.write_grid(), of.object));
  of.next = 0;
  of.unfinished = of.cells.size();
  of.existed = of.blind = false;
  return locate(of, nullptr);
}

// Finds the touched cells in the old object, or only the chain of each.
result<> write_job::locate(open_object& of, const part* old) {
  const chunk_layout& layout = *layout_;
  of.located.assign(of.cells.size(), chunk_extent());
  std::vector<index_request> missing;
  const nothing_known nothing;
  const table_lookup known(of.indexes);
  of.indexes.clear();
  for (unsigned round = 0;; ++round) {
    missing.clear();
    const index_lookup& lookup = old == nullptr ? static_cast<const index_lookup&>(nothing) : known;
    PENSTOCK_TRY(caught("the layout", [&] { return layout.locate(of.touched.cells, lookup, of.located, missing); }));
    if (missing.empty()) break;
    if (old == nullptr || round == kMaxIndexRounds)
      return error(errc::internal, "the layout requests an index repeatedly");
    for (const index_request& each : missing) {
      const auto parse = [&] { return layout.parse(each, slice_of(*old, each.range), old->size()); };
      PENSTOCK_ASSIGN(index_ptr parsed, caught("the layout", parse));
      of.indexes.insert(0, each.key).block = std::move(parsed);
    }
  }
  for (std::size_t i = 0; i < of.cells.size(); ++i) {
    touched_cell& cell = of.cells[i];
    const chunk_extent& found = of.located[i];
    cell.chain = found.chain;
    cell.present = old != nullptr && found.state != presence::absent;
    cell.old = found.range;
    of.is_cell = found.state == presence::unknown;
  }
  return {};
}

// Cells that were encoded from an older object are repeated; cells that were covered as a whole keep their bytes.
void write_job::begin_again(open_object& of) const {
  of.unfinished = 0;
  for (touched_cell& each : of.cells) {
    each.encoded = each.encoded && each.whole && !each.edge && !each.unchanged;
    of.unfinished += each.encoded ? 0 : 1;
  }
  of.next = 0;
}

}  // namespace penstock::inline v0
