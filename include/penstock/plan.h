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

/// One array that a plan reads from, and where its selection goes. One array is one source; shards and batches are
/// many.
struct source {
  const chunk_layout* layout = nullptr;
  const penstock::store* store = nullptr;
  std::string_view prefix;          ///< the array's place in the store, with its final '/', or empty
  strided_box from;                 ///< wanted elements, within the array
  std::byte* to = nullptr;          ///< where element (0, 0, ...) of `from` goes; null for a plan that is only printed
  strides to_strides;               ///< bytes, one for each dimension of the array
  const std::byte* fill = nullptr;  ///< one item
  std::uint64_t uid = 0;            ///< names the open array in caches; 0: keep nothing
  memory_space space = memory_space::host;  ///< of `to`: a store reads straight into host memory only

  /// What a box cannot say: index lists, points, a mask. Null: `from` says it. Else `from` is empty, and `to_strides`
  /// are as `indexed_selection::places_axes` says. Borrowed.
  const indexed_selection* indexed = nullptr;
  /// What the elements become on their way to `to`, or, of a write, from there. Null: they stay what they are.
  /// Borrowed.
  const element_conversion* convert = nullptr;
};

/// A storage object that the plan touches.
struct plan_object {
  object_id object = 0;
  std::string key;      ///< in the store, prefix included
  version expected;     ///< of the index (or the layout) that the plan rests on; unknown: any
  bool pinned = false;  ///< `expected` is the layout's: planning again cannot help where it no longer holds
  /// An index in storage named its ranges: where they are gone, what is there now may say more.
  bool has_index = false;
};

/// What a fetch asks of the store.
enum class request : std::uint8_t {
  data,    ///< a byte range
  object,  ///< all of an object, whose index then says where in it the cells are
  check,   ///< only whether the object still has the expected version: every wanted cell is absent by a cached index
  none,    ///< nothing: cells known to be absent, by an index read just now
};

/// One request, the cells that decode from it, and the cells that are filled on its word.
///
/// Its decodes are `decodes[first_decode .. + decode_count)`, its fills likewise. Fills that rest on a cached index
/// wait for a request to the same object, because a changed object may have the cells.
struct fetch_op {
  std::uint32_t object = 0;
  std::uint32_t first_decode = 0, decode_count = 0;
  std::uint32_t first_fill = 0, fill_count = 0;
  request what = request::data;
  bool in_place = false;       ///< one identity-coded cell, contiguous in the target: read straight into it
  bool may_be_absent = false;  ///< the object need not exist: its cells are the fill value then
  byte_range range;
  std::uint64_t max_bytes = byte_range::kAll;  ///< of `request::object`; a longer one is asked for by its index
};

/// Decodes one cell from its fetch and scatters the wanted part.
struct decode_op {
  cell_id cell = 0;
  std::uint64_t offset = 0;  ///< within the fetch
  std::uint64_t length = 0;  ///< kAll: all of it
  std::uint16_t chain = 0;
  bool direct = false;  ///< the last stage decodes straight into the target; otherwise it scatters
  /// Only the bytes of the cell from `skipped` on are fetched, `length` of them: all that the selection wants of a cell
  /// whose chain has no stage.
  bool part = false;
  std::uint64_t skipped = 0;
};

/// Writes the fill value where a cell was never written.
struct fill_op {
  cell_id cell = 0;
};

/// A bounded piece of a read: plain data. Operations are named by their position.
struct read_plan {
  std::uint32_t source = 0;  ///< a piece of plan reads from one source
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
  std::string selects;           ///< the selection in words if it is not a box, else empty
  std::uint64_t cells = 0;       ///< that the selection touches
  std::uint64_t grid_cells = 0;  ///< of the array
  bool complete = true;          ///< false: the sums below are those of the first cells of a very large selection
  std::uint64_t index_requests = 0;
  std::uint64_t index_bytes = 0;    ///< upper bound
  std::uint64_t requests = 0;       ///< for data
  std::uint64_t fetched_bytes = 0;  ///< that they return; of whole objects, what the store knows of their sizes
  std::uint64_t whole_objects = 0;  ///< of the requests
  std::uint64_t unknown_sizes = 0;  ///< of whole objects, whose bytes are in no sum
  std::uint64_t version_checks = 0;
  std::uint64_t direct = 0, scattered = 0, in_place = 0, filled = 0;  ///< cells
  std::uint64_t decoded_bytes = 0;                                    ///< of the cells that are decoded
  std::uint64_t returned_bytes = 0;                                   ///< of the result
  extents chunks;  ///< the shape of the grid's cells; of a grid with lengths of its own, the first ones
  /// Positions of the first cells in the grid, one number for each dimension and cell after cell.
  std::vector<std::uint64_t> touched;
};

/// Limits of one piece of plan.
struct plan_limits {
  std::uint64_t max_cells = 4096;
  std::uint64_t max_index_bytes = std::uint64_t{16} << 20;  ///< index bytes asked for at once, or one index
  std::uint64_t max_gap_bytes = 0;  ///< read through shorter holes, unless more than 1/8 is waste
  std::uint64_t request_bytes = 0;  ///< read through these, however much is waste
  std::uint64_t max_fetch_bytes = std::uint64_t{1} << 20;  ///< coalesce up to this; a longer cell is read whole
  /// The same of stores that complete inside `read`, in place of their own limit, which keeps a request in the
  /// processor's cache until it is decoded there: for bytes that the host only passes on. 0: their own, and that above.
  std::uint64_t inline_fetch_bytes = 0;
  std::uint64_t inline_fetches = 1;  ///< of which a read is left so many all the same, by its decoded bytes
  /// Of cells whose chains have no stage, fetch only the bytes from the first wanted element to the last. An
  /// executor of such a plan must support `decode_op::part`.
  bool trim_cells = false;
  /// Where a store's requests take their time, ask for short objects as a whole in place of their index first, and for
  /// longer ones of which all is wanted. An executor of such a plan must support
  /// `request::object`.
  bool whole_objects = false;
};

}  // namespace penstock::inline v0
