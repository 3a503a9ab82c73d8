#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include <penstock/array.h>
#include <penstock/device.h>
#include <penstock/extend/json.h>
#include "api/read_source.h"
#include "array/chunk_grid.h"
#include "base/checked.h"
#include "base/counted.h"
#include "codec/codec_chain.h"
#include "cuda/device_read.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "engine/index_cache.h"
#include "engine/index_io.h"
#include "plan/indexed_selection.h"
#include "plan/plan_text.h"
#include "plan/planner.h"

namespace penstock::inline v0 {
namespace {

/// Sums of larger selections stop here: a plan returns at once for any size of the array.
constexpr std::uint64_t kMaxCountedCells = 1'000'000;
/// Whole objects whose size is requested: each costs a request to a remote store, and two system calls of a local one.
/// Plans that do not count all cells request none: the sum would be that of a small part.
constexpr std::uint64_t kMaxRemoteSizes = 10'000, kMaxLocalSizes = 50'000;

// Indexes that the printed plan has read itself, at the time of the plan.
class read_indexes final : public plan_indexes {
 public:
  const index_entry* find(std::uint32_t source, const index_key& key) override { return table.find(source, key); }
  index_table table;
};

struct planned {
  plan_totals totals;
  std::uint64_t total_cells = 0;
  std::uint64_t grid_cells = 0;     // of the layout that is read, whose cells may be finer for a sparse selection
  std::uint64_t unknown_sizes = 0;  // number of whole objects whose bytes are not in the sums
  bool complete = true;
  std::string selects;  // if the selection is not a box
  std::string text;
  extents chunks;
  std::vector<std::uint64_t> touched;
};

// The engine that a plan is for.
enum class planned_for : std::uint8_t { host, device };

plan_limits limits_for(planned_for engine, std::span<const source> sources, const context_state& with) {
  if (engine == planned_for::device) {
    const std::uint64_t asked = with.options().page_locked_bytes;
    return cuda::limits_of(sources, asked == 0 ? cuda::kDefaultPageLockedBytes : asked, with.threads());
  }
  plan_limits limits;
  limits.trim_cells = limits.whole_objects = true;  // as in reads
  return limits;
}

/// Adds the bytes of the objects that a batch reads as a whole. Absent objects have none.
void add_sizes(planned& out, const read_plan& piece, const store& from) {
  std::vector<std::string> keys;
  for (const fetch_op& op : piece.fetches) {
    if ((op.what == request::data || op.what == request::object) && op.range.whole())
      keys.push_back(piece.objects[op.object].key);
  }
  const store_traits traits = from.traits();
  const std::uint64_t most = traits.inline_completion ? kMaxLocalSizes : kMaxRemoteSizes;
  const bool asks = traits.sizes && out.totals.whole_objects <= most && out.total_cells <= kMaxCountedCells;
  if (!asks || keys.empty()) {
    out.unknown_sizes += keys.size();
    return;
  }
  constexpr byte_range kNothing{0, 0, false};
  for (const result<blocking_read>& each : read_all_and_wait(from, keys, kNothing, byte_range::kAll)) {
    if (each.ok() && each->object_size != byte_range::kAll) {
      out.totals.fetched_bytes += each->object_size;
    } else {
      out.unknown_sizes += each.ok() || each.error().code() != errc::not_found;
    }
  }
}

/// Adds the positions of a batch's cells to the touched ones, until there are `max_touched`.
void add_touched(planned& out, const read_plan& piece, const chunk_grid& grid, std::size_t max_touched) {
  const std::size_t most = max_touched * grid.rank();
  dim_vector<std::uint64_t> at;
  const auto add = [&](cell_id cell) {
    if (out.touched.size() >= most) return;
    grid.coordinates(cell, at);
    out.touched.insert(out.touched.end(), at.begin(), at.end());
  };
  for (const decode_op& op : piece.decodes) add(op.cell);
  for (const fill_op& op : piece.fills) add(op.cell);
}

extents first_cell(const chunk_grid& grid) {
  extents out(grid.rank());
  for (std::size_t d = 0; d < grid.rank(); ++d) out[d] = grid.axis(d).cells() == 0 ? 1 : grid.axis(d).codec_length(0);
  return out;
}

// The chunks of all parts.
std::uint64_t cells_of(const array_parts& parts) {
  std::uint64_t out = 0;
  for (const array& each : parts.arrays) {
    const array_state& state = each.state();
    out += state.parts ? cells_of(*state.parts) : state.layout->grid().cells();
  }
  return out;
}

/// Adds the positions of the boxes that a selection of an array with parts touches, for pictures of its grid.
result<> add_boxes(planned& out, const source& from, std::size_t max_touched) {
  if (max_touched == 0) return {};
  planner plans;
  plans.start({&from, 1}, {});
  read_indexes known;
  read_plan piece;
  std::vector<index_request> missing;
  std::uint32_t of = 0;
  while (out.touched.size() < max_touched * from.layout->grid().rank()) {
    PENSTOCK_ASSIGN(const planner::outcome outcome, plans.next(known, piece, missing, of));
    if (outcome == planner::outcome::finished) break;
    add_touched(out, piece, from.layout->grid(), max_touched);
  }
  return {};
}

result<planned> make_plan(const array_state& state, const resolved_selection& resolved, planned_for engine,
                          std::size_t max_lines, std::size_t max_touched = 0) {
  if (state.closed) {
    PENSTOCK_ASSIGN(const opened_selection opened, open_needed(state, resolved));
    return make_plan(opened.of.state(), opened.which, engine, max_lines, max_touched);
  }
  PENSTOCK_TRY(check_selection(state, resolved));
  planned out;
  out.grid_cells = state.layout->grid().cells();
  out.chunks = first_cell(state.layout->grid());
  if (resolved.indexed) out.selects = resolved.indexed->describe();
  if (is_empty(resolved.shape)) return out;
  const source from = source_of(state, resolved, c_order_strides(resolved.shape, state.type.item_bytes()), nullptr);
  out.grid_cells = from.layout->grid().cells();
  out.chunks = first_cell(from.layout->grid());
  part_sources parts;
  std::span<const source> sources(&from, 1);
  if (state.parts) {
    PENSTOCK_ASSIGN(parts, divide_by_parts(state, from, nullptr));
    sources = parts.all;
    out.grid_cells = cells_of(*state.parts);
    PENSTOCK_TRY(add_boxes(out, from, max_touched));
    max_touched = 0;
  }
  planner plans;
  plans.start(sources, limits_for(engine, sources, state.context->state()));
  out.total_cells = plans.total_cells();
  read_indexes known;
  read_plan piece;
  std::vector<index_request> missing;
  std::uint32_t missing_source = 0;
  std::string key;
  for (;;) {
    PENSTOCK_ASSIGN(const planner::outcome outcome, plans.next(known, piece, missing, missing_source));
    if (outcome == planner::outcome::finished) break;
    if (outcome == planner::outcome::needs_indexes) {
      const source& of = sources[missing_source];
      for (const index_request& each : missing) {
        of.layout->key(each.key.object, key);
        key.insert(0, of.prefix);
        auto bytes = read_and_wait(*of.store, key, each.range, each.max_bytes);
        result<read_done> arrived = read_done();
        if (bytes.ok()) {
          arrived->bytes = bytes->bytes;
          arrived->seen = bytes->seen;
          arrived->object_size = bytes->object_size;
        } else {
          arrived = std::move(bytes).error();
        }
        PENSTOCK_ASSIGN(known.table.insert(missing_source, each.key), take_index(of, each, key, std::move(arrived)));
        ++out.totals.index_requests;
        out.totals.index_bytes += each.max_bytes;
        if (max_lines != 0) {
          --max_lines;
          out.text +=
              fmt::format("index '{}', {}{}\n", key, each.range.from_end ? "" : "bytes ", to_string(each.range));
        }
      }
      continue;
    }
    append_text(out.text, piece, sources, max_lines);
    add(out.totals, piece, sources);
    add_sizes(out, piece, *sources[piece.source].store);
    add_touched(out, piece, from.layout->grid(), max_touched);
    known.table.clear();
    if (out.totals.cells >= kMaxCountedCells && out.totals.cells < out.total_cells) {
      out.complete = false;
      break;
    }
  }
  return out;
}

std::string as_text(const array_state& state, const planned& plan, std::size_t max_lines) {
  const planned* const made = &plan;
  const plan_totals& sums = made->totals;
  std::string out =
      fmt::format("plan for '{}': {} of {}\n", state.uri, made->total_cells, counted(made->grid_cells, "cell"));
  if (!made->selects.empty()) out += fmt::format("selects {}\n", made->selects);
  if (!made->complete) out += fmt::format("sums of the first {}:\n", counted(sums.cells, "cell"));
  out += fmt::format("{}, {}", counted(sums.index_requests, "index read"), counted(sums.requests, "request"));
  if (sums.requests > made->unknown_sizes) out += ", " + counted(sums.fetched_bytes, "byte");
  if (sums.whole_objects != 0)
    out += fmt::format(", {} of them {}", sums.whole_objects,
                       sums.whole_objects == 1 ? "a whole object" : "whole objects");
  if (made->unknown_sizes != 0) out += fmt::format(" ({} of unknown size)", made->unknown_sizes);
  if (sums.checks != 0) out += ", " + counted(sums.checks, "version check");
  out +=
      fmt::format("\ncells: {} decoded directly, {} scattered, {} filled\n", sums.direct, sums.scattered, sums.filled);
  out += fmt::format("codecs: {}\n\n", state.codecs_text);
  out += made->text;
  const auto lines = static_cast<std::uint64_t>(std::count(made->text.begin(), made->text.end(), '\n'));
  if (lines >= max_lines && max_lines != 0) out += "...\n";
  return out;
}

result<std::string> plan_text(const array_state& state, const resolved_selection& which, planned_for engine,
                              std::size_t max_lines) {
  auto made = make_plan(state, which, engine, max_lines);
  if (!made.ok()) return std::move(made).error().note("array '" + state.uri + "'");
  return as_text(state, *made, max_lines);
}

result<plan_summary> summarize(const array_state& state, const resolved_selection& which, planned_for engine,
                               std::size_t max_lines, std::size_t max_touched) {
  auto made = make_plan(state, which, engine, max_lines, max_touched);
  if (!made.ok()) return std::move(made).error().note("array '" + state.uri + "'");
  const plan_totals& sums = made->totals;
  plan_summary out;
  out.text = as_text(state, *made, max_lines);
  out.selects = std::move(made->selects);
  out.cells = made->total_cells;
  out.grid_cells = made->grid_cells;
  out.complete = made->complete;
  out.index_requests = sums.index_requests;
  out.index_bytes = sums.index_bytes;
  out.requests = sums.requests;
  out.fetched_bytes = sums.fetched_bytes;
  out.whole_objects = sums.whole_objects;
  out.unknown_sizes = made->unknown_sizes;
  out.version_checks = sums.checks;
  out.direct = sums.direct;
  out.scattered = sums.scattered;
  out.in_place = sums.in_place;
  out.filled = sums.filled;
  out.decoded_bytes = sums.decoded_bytes;
  out.returned_bytes = state.type.item_bytes();
  for (const std::uint64_t size : which.shape) out.returned_bytes = saturating_mul(out.returned_bytes, size);
  out.chunks = made->chunks;
  out.touched = std::move(made->touched);
  return out;
}

result<std::string> plan_sums(const array_state& state, const resolved_selection& which, planned_for engine) {
  auto made = make_plan(state, which, engine, 0);
  if (!made.ok()) return std::move(made).error().note("array '" + state.uri + "'");
  const plan_totals& sums = made->totals;
  return json(json::object_t{{"uri", state.uri},
                             {"selects", made->selects},
                             {"cells", made->total_cells},
                             {"complete", made->complete},
                             {"index_requests", sums.index_requests},
                             {"index_bytes", sums.index_bytes},
                             {"requests", sums.requests},
                             {"fetched_bytes", sums.fetched_bytes},
                             {"whole_objects", sums.whole_objects},
                             {"unknown_sizes", made->unknown_sizes},
                             {"version_checks", sums.checks},
                             {"direct", sums.direct},
                             {"scattered", sums.scattered},
                             {"in_place", sums.in_place},
                             {"filled", sums.filled},
                             {"decoded_bytes", sums.decoded_bytes},
                             {"codecs", state.codecs_text}})
      .dump();
}

}  // namespace

result<std::string> array::plan(const selection& which, std::size_t max_lines) const {
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return plan(resolved, max_lines);
}

result<std::string> array::plan_json(const selection& which) const {
  PENSTOCK_ASSIGN(const resolved_selection resolved, select(which));
  return plan_json(resolved);
}

result<std::string> array::plan(const resolved_selection& which, std::size_t max_lines) const {
  return plan_text(*state_, which, planned_for::host, max_lines);
}

result<std::string> array::plan_json(const resolved_selection& which) const {
  return plan_sums(*state_, which, planned_for::host);
}

result<plan_summary> array::summarize_plan(const resolved_selection& which, std::size_t max_lines,
                                           std::size_t max_touched) const {
  return summarize(*state_, which, planned_for::host, max_lines, max_touched);
}

result<plan_summary> summarize_device_plan(const array& from, const resolved_selection& which, std::size_t max_lines,
                                           std::size_t max_touched) {
  return summarize(from.state(), which, planned_for::device, max_lines, max_touched);
}

result<std::string> device_plan(const array& from, const resolved_selection& which, std::size_t max_lines) {
  return plan_text(from.state(), which, planned_for::device, max_lines);
}

result<std::string> device_plan_json(const array& from, const resolved_selection& which) {
  return plan_sums(from.state(), which, planned_for::device);
}

}  // namespace penstock::inline v0
