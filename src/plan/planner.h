#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <penstock/plan.h>
#include <penstock/result.h>
#include "array/chunk_grid.h"

namespace penstock::inline v0 {

/// The indexes that one read has loaded. Unlike `index_lookup` it covers all sources of the read.
class plan_indexes {
 public:
  virtual ~plan_indexes() = default;
  /// Null if the index must be read first.
  virtual const index_entry* find(std::uint32_t source, const index_key& key) = 0;
};

/// Turns sources into plan batches, lazily: a read of 10^9 cells holds one batch at a time.
///
/// Not thread-safe; does no I/O. Memory is reused from one read to the next.
class planner {
 public:
  enum class outcome : std::uint8_t {
    piece,          ///< `plan` holds operations
    needs_indexes,  ///< read `missing` of `missing_source`, add them, call again
    finished,       ///< nothing remains (until `redo`)
  };

  /// Begins with the first cell of the first source. `sources` is borrowed until the next start. A store's own limits
  /// apply if they are narrower than `limits`.
  void start(std::span<const source> sources, const plan_limits& limits = {});

  /// Makes the next batch. The plan is overwritten; its memory is reused.
  result<outcome> next(plan_indexes& known, read_plan& plan, std::vector<index_request>& missing,
                       std::uint32_t& missing_source);

  /// Plans a cell once more, because the object that it was planned from has changed.
  void redo(std::uint32_t source, cell_id cell) { redo_.push_back({source, cell}); }

  /// Cells that the whole read touches, and the bytes that they decode to; saturating.
  std::uint64_t total_cells() const noexcept { return total_cells_; }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  struct redo_cell {
    std::uint32_t source;
    cell_id cell;
  };
  struct whole_object {
    object_id object;
    std::uint64_t cells, wanted;
    std::uint64_t max_bytes;
  };
  struct placed {
    object_id object;
    std::uint64_t offset;
    std::uint32_t index;  // into batch_
    bool absent;
  };

  bool gather();
  void start_walk();
  bool walk_is_done() const noexcept;
  void enter_source(std::uint32_t which);
  bool pick_objects(std::span<const index_request> missing);
  void build(plan_indexes& known, read_plan& plan);
  void add_object(read_plan& plan, std::uint32_t object, std::span<const placed> cells);
  void add_fetches(read_plan& plan, std::uint32_t object, std::span<const placed> cells, std::uint32_t first_fill,
                   std::uint32_t fill_count);

  std::span<const source> sources_;
  plan_limits limits_;        // as requested
  plan_limits store_limits_;  // limits of the current source's store
  std::uint32_t walk_source_ = 0;
  cell_walk walk_;
  std::uint64_t walked_ = 0;  // finished cells of an indexed source
  std::vector<redo_cell> redo_;

  std::uint32_t source_ = 0;  // source of the cells in cells_
  std::vector<cell_id> cells_;
  std::size_t begin_ = 0;  // first cell of cells_ that is not planned yet
  std::size_t batch_ = 0;  // cells of the next batch
  std::vector<chunk_extent> extents_;
  bool redoing_ = false;               // the batch consists of cells that are planned again
  std::vector<whole_object> objects_;  // objects that the batch requests as a whole, sorted; it then has no other cells
  std::vector<cell_id> later_;         // of the batch, if its cells are located individually
  std::vector<placed> order_;
  std::string key_;
  std::uint64_t total_cells_ = 0, total_bytes_ = 0;
};

}  // namespace penstock::inline v0
