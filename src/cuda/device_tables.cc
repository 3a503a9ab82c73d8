#include "cuda/device_tables.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "cuda/chain_split.h"

namespace penstock::inline v0::cuda {
namespace {

constexpr std::uint64_t kPatternBytes = 16;
constexpr std::uint64_t kTableAlignment = 256;

// Position of the item's bytes, repeated to a multiple of 16, among the wave's patterns.
std::uint64_t pattern_of(device_wave& wave, std::span<const std::byte> item, std::uint64_t bytes) {
  const std::uint64_t size = round_up(bytes, kPatternBytes);
  const auto is = [&](std::uint64_t at) {
    for (std::uint64_t i = 0; i < bytes; ++i)
      if (wave.patterns[at + i] != item[i % item.size()]) return false;
    return true;
  };
  // Fills of the same array are usually adjacent, so only the last pattern is compared.
  if (wave.patterns.size() >= size && is(wave.patterns.size() - size)) return wave.patterns.size() - size;
  const std::uint64_t at = wave.patterns.size();
  wave.patterns.resize(at + size);
  for (std::uint64_t i = 0; i < bytes; ++i) wave.patterns[at + i] = item[i % item.size()];
  return at;
}

std::uint64_t tiles_of(const move_item& item) noexcept {
  // A cell that was decoded in place is only checked, unless it failed.
  const std::uint64_t step = item.in_place != 0 ? item.units : tile_units(item);
  return item.units == 0 ? 0 : (item.units + step - 1) / step;
}

template <class Row>
std::uint64_t bytes_of(const std::vector<Row>& rows) noexcept {
  return round_up(rows.size() * sizeof(Row), kTableAlignment);
}

// The most bytes that `lay_out` will request.
std::uint64_t tail_bytes(const device_wave& wave) noexcept {
  std::uint64_t bytes = bytes_of(wave.items) + bytes_of(wave.axes) + bytes_of(wave.runs) + bytes_of(wave.notes) +
                        bytes_of(wave.patterns) + round_up(wave.tile_count * sizeof(move_tile), kTableAlignment);
  std::uint64_t statuses = 0;
  for (const auto& each : wave.batches) {
    if (each->decoder.chunks() == 0) continue;
    statuses += each->decoder.chunks();
    bytes += each->decoder.descriptor_bytes() + each->decoder.workspace_bytes();
  }
  return std::max(bytes, kTableAlignment) + round_up(statuses * sizeof(std::uint32_t), kTableAlignment);
}

// The number of entries in each table before a cell or a fill was added.
struct wave_mark {
  explicit wave_mark(const device_wave& wave) noexcept
      : items(wave.items.size()),
        axes(wave.axes.size()),
        runs(wave.runs.size()),
        notes(wave.notes.size()),
        patterns(wave.patterns.size()),
        fills(wave.fills.size()),
        tiles(wave.tile_count),
        decoded_bytes(wave.decoded_bytes),
        moved_bytes(wave.moved_bytes) {}
  std::size_t items, axes, runs, notes, patterns, fills;
  std::uint64_t tiles, decoded_bytes, moved_bytes;
};

// Returns true if the tail has space for everything that was added since `to`. Otherwise the additions are undone.
bool keeps_limit(device_wave& wave, const wave_mark& to) {
  if (tail_bytes(wave) <= wave.limit_bytes - std::min(wave.limit_bytes, wave.memory.bytes)) return true;
  wave.items.resize(to.items);
  wave.item_batches.resize(to.items);
  wave.axes.resize(to.axes);
  wave.runs.resize(to.runs);
  wave.notes.resize(to.notes);
  wave.patterns.resize(to.patterns);
  wave.fills.resize(to.fills);
  wave.tile_count = to.tiles;
  wave.decoded_bytes = to.decoded_bytes;
  wave.moved_bytes = to.moved_bytes;
  return false;
}

// The moves of a cell whose decoded bytes are, or will be, at `decoded`.
void add_moves(device_wave& wave, const parcel& of, const parcel_cell& cell, device_address decoded,
               std::uint32_t batch, std::uint32_t status, device_address report) {
  const auto add = [&](move_item item) {
    const auto own = std::span(of.axes).subspan(item.first_axis, item.axes);
    const auto own_runs = std::span(of.runs).subspan(item.first_run, item.runs);
    item.first_axis = static_cast<std::uint32_t>(wave.axes.size());
    item.first_run = static_cast<std::uint32_t>(wave.runs.size());
    wave.axes.insert(wave.axes.end(), own.begin(), own.end());
    wave.runs.insert(wave.runs.end(), own_runs.begin(), own_runs.end());
    item.from += decoded;
    item.in_place = cell.direct ? 1 : 0;
    item.status = status;
    if (!cell.direct) wave.moved_bytes += item.units * item.unit_bytes;
    wave.tile_count += tiles_of(item);
    wave.items.push_back(item);
    wave.item_batches.push_back(batch);
  };
  add(cell.item);
  // A cell that fails is counted once, however many destinations it has.
  if (status != kNoStatus) {
    wave.notes.push_back(cell.note);
    wave.items.back().report = report;
    wave.items.back().note = wave.notes.size();  // an address from `write` on
    wave.decoded_bytes += cell.decoded_bytes;
  }
  for (const move_item& each : std::span(of.more).subspan(cell.first_more, cell.more)) add(each);
}

template <class Row>
void put(std::byte* tables, std::uint64_t at, const std::vector<Row>& rows) noexcept {
  if (!rows.empty()) std::memcpy(tables + at, rows.data(), rows.size() * sizeof(Row));
}

}  // namespace

void device_wave::clear() noexcept {
  used_bottom = used_top = tile_count = 0;
  coming = 0;
  statuses = 0;
  items.clear();
  axes.clear();
  runs.clear();
  tiles.clear();
  notes.clear();
  patterns.clear();
  fills.clear();
  item_batches.clear();
  launches.clear();
  trim_batches(batches);
  shares.clear();
  blocks.clear();
  block_bytes = 0;
  decoded_bytes = moved_bytes = 0;
}

result<bool> add_cells(device_wave& wave, const parcel& of, const cell_scan& scanned, device_address report) {
  const wave_mark before(wave);
  std::vector<taken_batch>& taken = wave.taken;
  taken.assign(scanned.batches.size(), {});
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const wave_batch& from = *scanned.batches[i];
    if (from.decoder.chunks() == 0) continue;
    PENSTOCK_ASSIGN(taken[i].batch, batch_of(wave.batches, from.steps, wave.by_library));
    device::decode_wave& decoder = wave.batches[taken[i].batch]->decoder;
    taken[i].before = decoder.here();
    taken[i].first_status =
        static_cast<std::uint32_t>(decoder.chunks());  // index in its batch; in the wave from `lay_out` on
    decoder.append(from.decoder);
  }
  for (const scanned_cell& each : scanned.cells) {
    const taken_batch into = each.batch == kNoStatus ? taken_batch() : taken[each.batch];
    const std::uint32_t status = each.batch == kNoStatus ? kNoStatus : into.first_status + each.status;
    add_moves(wave, of, of.cells[each.cell], each.decoded, into.batch, status, report);
  }
  if (keeps_limit(wave, before)) return true;
  for (const taken_batch& each : taken)
    if (each.batch != kNoStatus) wave.batches[each.batch]->decoder.rewind(each.before);
  return false;
}

bool add_fill(device_wave& wave, const placement& where, std::span<const std::byte> item) {
  const wave_mark before(wave);
  const bool repeats = kPatternBytes % item.size() == 0;
  const std::uint64_t at = pattern_of(wave, item, repeats ? kPatternBytes : item.size());
  wave.fills.push_back(static_cast<std::uint32_t>(wave.items.size()));
  wave.item_batches.push_back(kNoStatus);
  wave.items.push_back(
      plan_fill(where, static_cast<std::uint32_t>(item.size()), {at, repeats}, {wave.axes, wave.runs}));
  wave.moved_bytes += wave.items.back().units * wave.items.back().unit_bytes;
  wave.tile_count += tiles_of(wave.items.back());
  return keeps_limit(wave, before);
}

wave_layout lay_out(device_wave& wave) {
  wave.statuses = 0;
  for (const auto& each : wave.batches) {
    each->first_status = wave.statuses;
    wave.statuses += static_cast<std::uint32_t>(each->decoder.chunks());
  }
  for (std::size_t i = 0; i < wave.items.size(); ++i)
    if (wave.item_batches[i] != kNoStatus) wave.items[i].status += wave.batches[wave.item_batches[i]]->first_status;
  for (std::uint32_t i = 0; i < wave.items.size(); ++i) {
    const move_item& item = wave.items[i];
    const std::uint64_t step = item.in_place != 0 ? item.units : tile_units(item);
    for (std::uint64_t at = 0; at < item.units; at += step)
      wave.tiles.push_back({i, 0, at, std::min(step, item.units - at)});
  }
  wave_layout out;
  std::uint64_t end = 0;
  const auto place = [&](std::uint64_t bytes) {
    const std::uint64_t at = end;
    end = round_up(end + bytes, kTableAlignment);
    return at;
  };
  out.items = place(wave.items.size() * sizeof(move_item));
  out.axes = place(wave.axes.size() * sizeof(move_axis));
  out.runs = place(wave.runs.size() * sizeof(move_run));
  out.tiles = place(wave.tiles.size() * sizeof(move_tile));
  out.notes = place(wave.notes.size() * sizeof(failure_note));
  out.patterns = place(wave.patterns.size());
  for (const auto& each : wave.batches)
    if (each->decoder.chunks() != 0) each->descriptors = place(each->decoder.descriptor_bytes());
  out.status_bytes = wave.statuses * sizeof(std::uint32_t);
  out.statuses = place(out.status_bytes);
  out.uploaded = std::max<std::uint64_t>(end, kTableAlignment);
  end = out.uploaded;
  for (const auto& each : wave.batches)
    if (each->decoder.chunks() != 0) each->workspace = place(each->decoder.workspace_bytes());
  out.total = end;
  return out;
}

void write(device_wave& wave, const wave_layout& layout) {
  const device_address base = wave.tail.address;
  for (move_item& each : wave.items)
    if (each.note != 0) each.note = base + layout.notes + (each.note - 1) * sizeof(failure_note);
  for (const std::uint32_t each : wave.fills) wave.items[each].from += base + layout.patterns;
  put(wave.tables, layout.items, wave.items);
  put(wave.tables, layout.axes, wave.axes);
  put(wave.tables, layout.runs, wave.runs);
  put(wave.tables, layout.tiles, wave.tiles);
  put(wave.tables, layout.notes, wave.notes);
  put(wave.tables, layout.patterns, wave.patterns);
  std::memset(wave.tables + layout.statuses, 0, static_cast<std::size_t>(layout.status_bytes));
  for (const auto& each : wave.batches) {
    if (each->decoder.chunks() == 0) continue;
    each->decoder.emit({wave.tables + each->descriptors, static_cast<std::size_t>(each->decoder.descriptor_bytes())},
                       base + each->descriptors, base + each->workspace,
                       base + layout.statuses + each->first_status * sizeof(std::uint32_t), wave.launches);
  }
}

move_parameters move_parameters_of(const device_wave& wave, const wave_layout& layout) noexcept {
  const device_address base = wave.tail.address;
  move_parameters out;
  out.items = reinterpret_cast<const move_item*>(base + layout.items);
  out.axes = reinterpret_cast<const move_axis*>(base + layout.axes);
  out.runs = reinterpret_cast<const move_run*>(base + layout.runs);
  out.tiles = reinterpret_cast<const move_tile*>(base + layout.tiles);
  out.statuses = reinterpret_cast<const std::uint32_t*>(base + layout.statuses);
  return out;
}

}  // namespace penstock::inline v0::cuda
