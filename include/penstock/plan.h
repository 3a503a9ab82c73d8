#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/extend/layout.h>
#include <penstock/shape.h>
#include <penstock/store.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

class indexed_selection;    // src/plan/indexed_selection.h
struct element_conversion;  // src/array/conversion.h

/// One array that a plan reads from, and the destination of its selection. One array is one source; shards and batches
/// are many.
struct source {
  const chunk_layout* layout = nullptr;
  const penstock::store* store = nullptr;
  std::string_view prefix;          ///< the array's prefix in the store, with its final '/', or empty
  strided_box from;                 ///< requested elements, within the array
  std::byte* to = nullptr;          ///< destination of element (0, 0, ...) of `from`; null for a plan to be printed
  strides to_strides;               ///< bytes, one for each dimension of the array
  const std::byte* fill = nullptr;  ///< one item
  std::uint64_t uid = 0;            ///< identifies the open array in caches; 0: cache nothing
  memory_space space = memory_space::host;  ///< of `to`: a store reads directly into host memory only

  /// Selections that are not a box: index lists, points, a mask. Null: `from` is the selection. Else `from` is empty,
  /// and `to_strides` are as described at `indexed_selection::places_axes`. Borrowed.
  const indexed_selection* indexed = nullptr;
  /// The type to which elements are converted on their way to `to` or, in a write, from which. Null: no conversion.
  /// Borrowed.
  const element_conversion* convert = nullptr;
};

/// A storage object that the plan touches.
struct plan_object {
  object_id object = 0;
  std::string key;      ///< in the store, prefix included
  version expected;     ///< version of the index (or the layout) that the plan depends on; unknown: any
  bool pinned = false;  ///< `expected` is the layout's: planning again cannot help if it no longer holds
  /// The ranges come from an index in storage: if they no longer exist, the present index may have others.
  bool has_index = false;
};

/// What a fetch requests from the store.
enum class request : std::uint8_t {
  data,    ///< a byte range
  object,  ///< a whole object, whose index then has the ranges of the cells
  check,   ///< only whether the object still has the expected version: every requested cell is absent by a cached index
  none,    ///< nothing: the cells are absent, by an index that was just read
};

/// One request, the cells that decode from it, and the cells that are filled if it succeeds.
///
/// Its decodes are `decodes[first_decode .. + decode_count)`, its fills likewise. Fills that depend on a cached index
/// wait for a request to the same object, because a changed object may have the cells.
struct fetch_op {
  std::uint32_t object = 0;
  std::uint32_t first_decode = 0, decode_count = 0;
  std::uint32_t first_fill = 0, fill_count = 0;
  request what = request::data;
  bool in_place = false;       ///< one cell without codec, contiguous in the target: read directly into it
  bool may_be_absent = false;  ///< the object may be absent: its cells are then the fill value
  byte_range range;
  std::uint64_t max_bytes = byte_range::kAll;  ///< of `request::object`; for a longer object, its index is requested
};

/// Decodes one cell from its fetch and scatters the requested part.
struct decode_op {
  cell_id cell = 0;
  std::uint64_t offset = 0;  ///< within the fetch
  std::uint64_t length = 0;  ///< kAll: all of it
  std::uint16_t chain = 0;
  bool direct = false;  ///< the last stage decodes directly into the target; otherwise the cell is scattered
  /// Only the bytes of the cell from `skipped` on are fetched, `length` of them: the selected part of a cell whose
  /// chain has no stage.
  bool part = false;
  std::uint64_t skipped = 0;
};

/// Writes the fill value for a cell that was never written.
struct fill_op {
  cell_id cell = 0;
};

/// A bounded part of the plan of a read: plain data. Operations refer to each other by position.
struct read_plan {
  std::uint32_t source = 0;  ///< a plan batch reads from one source
  std::vector<plan_object> objects;
  std::vector<fetch_op> fetches;
  std::vector<decode_op> decodes;
  std::vector<fill_op> fills;

  // Objects are kept beyond clear() so that their strings keep their memory.
  std::size_t object_count = 0;
  void clear() noexcept {
    object_count = 0;
    fetches.clear();
    decodes.clear();
    fills.clear();
  }
};

/// What a read would do: sums over its plan, its first cells, and its operations as text.
struct plan_summary {
  std::string text;              ///< as `array::plan` returns it
  std::string selects;           ///< the selection as text if it is not a box, else empty
  std::uint64_t cells = 0;       ///< cells that the selection touches
  std::uint64_t grid_cells = 0;  ///< cells of the array
  bool complete = true;          ///< false: the sums below are those of the first cells of a very large selection
  std::uint64_t index_requests = 0;
  std::uint64_t index_bytes = 0;    ///< upper bound
  std::uint64_t requests = 0;       ///< for data
  std::uint64_t fetched_bytes = 0;  ///< bytes of the requests; for whole objects, the sizes that the store reports
  std::uint64_t whole_objects = 0;  ///< requests of whole objects
  std::uint64_t unknown_sizes = 0;  ///< number of whole objects whose bytes are not in the sums
  std::uint64_t version_checks = 0;
  std::uint64_t direct = 0, scattered = 0, in_place = 0, filled = 0;  ///< cells
  std::uint64_t decoded_bytes = 0;                                    ///< bytes of the cells that are decoded
  std::uint64_t returned_bytes = 0;                                   ///< bytes of the result
  extents chunks;  ///< the shape of the grid's cells; the first ones if the grid has cells of different lengths
  /// Positions of the first cells in the grid, one number for each dimension and cell after cell.
  std::vector<std::uint64_t> touched;
};

/// Limits of one plan batch.
struct plan_limits {
  std::uint64_t max_cells = 4096;
  std::uint64_t max_index_bytes = std::uint64_t{16} << 20;  ///< index bytes requested at once, or one index
  std::uint64_t max_gap_bytes = 0;                         ///< read through shorter gaps, unless more than 1/8 is waste
  std::uint64_t request_bytes = 0;                         ///< read through gaps up to this length, whatever the waste
  std::uint64_t max_fetch_bytes = std::uint64_t{1} << 20;  ///< coalesce up to this; a longer cell is read as a whole
  /// The same limit for stores that complete inside `read`. Their own limit keeps a request in the processor's cache
  /// until it is decoded; this one replaces it for bytes that the host only passes on. 0: their own limit, and the one
  /// above.
  std::uint64_t inline_fetch_bytes = 0;
  std::uint64_t inline_fetches = 1;  ///< number of such requests that a read keeps at least, by its decoded bytes
  /// For cells whose chains have no stage, fetch only the bytes from the first wanted element to the last. An executor
  /// of such a plan must support `decode_op::part`.
  bool trim_cells = false;
  /// If a store's requests take time, request short objects as a whole instead of their index first, and longer ones of
  /// which everything is needed. An executor of such a plan must support `request::object`.
  bool whole_objects = false;
};

}  // namespace penstock::inline v0
