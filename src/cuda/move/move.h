#pragma once

/// \file The kernel that ends a wave: it scatters decoded cells, converts numbers, writes fill values and marks
/// failures. A second kernel gathers values for writes. One source for host and device, without includes that device
/// code cannot have.

#include <cstdint>

#include "array/convert_number.h"
#include "base/device_code.h"

namespace penstock::inline v0::cuda {

inline constexpr const char* kMoveKernel = "penstock_move";
inline constexpr const char* kGatherKernel = "penstock_gather";
/// The elements of a cell that failed are set to this: all bits set, which is NaN in every IEEE type.
inline constexpr unsigned char kPoison = 0xFF;
/// The status of a move that needs no decoded cell.
inline constexpr std::uint32_t kNoStatus = 0xFFFFFFFFU;
inline constexpr unsigned kMoveThreads = 256;

/// One nested loop: `count` steps of `from_step` and `to_step` bytes. A list of positions is split into runs of
/// equidistant positions.
struct move_axis {
  std::uint64_t count = 1;
  std::int64_t from_step = 0, to_step = 0;
  std::uint32_t first_run = 0;  ///< its number among the runs of the item
  std::uint32_t runs = 0;       ///< 0: one, from the beginning
};

/// Equidistant listed positions, up to the begin of the next run.
struct move_run {
  std::uint64_t first = 0;        ///< the number of its first position along the axis
  std::int64_t from = 0, to = 0;  ///< the offset of that position in both addresses, in bytes
};

/// The selected part of one cell, in units of 1, 2, 4, 8 or 16 bytes, to which `from`, `to` and every step are aligned;
/// the axes are ordered from the outermost to the innermost. If numbers are converted, a unit is one number in the
/// target's type.
struct move_item {
  std::uint64_t from = 0;   ///< address of the first unit
  std::uint64_t to = 0;     ///< address of the first unit
  std::uint64_t units = 0;  ///< product of the counts
  std::uint32_t unit_bytes = 1;
  std::uint32_t swap = 0;  ///< 1: the bytes of each unit are reversed
  std::uint32_t first_axis = 0, axes = 0;
  std::uint32_t first_run = 0, runs = 0;
  std::uint32_t status = kNoStatus;  ///< index of the cell's status; kNoStatus: the move needs no decoded cell
  std::uint32_t in_place = 0;        ///< 1: the cell was decoded at its destination; only a failure must be marked
  std::uint64_t note = 0;            ///< address of the cell's failure_note; 0: none
  std::uint64_t report = 0;          ///< address of its read's failure_report; 0: none
  number_kind convert_from = number_kind::none, convert_to = number_kind::none;  ///< none: bytes are moved as they are
  std::uint8_t unused[6] = {};
};

/// A block's share of one item.
struct move_tile {
  std::uint32_t item = 0;
  std::uint32_t unused = 0;
  std::uint64_t first = 0, count = 0;  ///< units
};

/// The facts about a cell for an error.
struct failure_note {
  std::uint64_t source = 0, cell = 0, object = 0;
  std::uint64_t offset = 0, length = 0;  ///< position of its encoded bytes in the object
  std::uint64_t chain = 0;
};

/// The failures of a read on the device; remains there until the host reads it. All zero: no failure.
struct failure_report {
  std::uint32_t failed = 0;  ///< cells
  std::uint32_t status = 0;  ///< status of the cell that is noted
  failure_note note;         ///< the first one that failed
};

struct move_parameters {
  const move_item* items = nullptr;
  const move_axis* axes = nullptr;
  const move_run* runs = nullptr;
  const move_tile* tiles = nullptr;
  const std::uint32_t* statuses = nullptr;
};

namespace moving {

struct alignas(16) unit16 {
  std::uint64_t low, high;
};

template <class Unit>
PENSTOCK_DEVICE_CODE Unit reversed(Unit value) {
  Unit out = 0;
  for (unsigned i = 0; i < sizeof(Unit); ++i) {
    out = static_cast<Unit>(out << 8 | (value & 0xFF));
    value = static_cast<Unit>(value >> 8);
  }
  return out;
}

template <>
PENSTOCK_DEVICE_CODE std::uint8_t reversed(std::uint8_t value) {
  return value;
}

template <>
PENSTOCK_DEVICE_CODE unit16 reversed(unit16 value) {
  return {reversed(value.high), reversed(value.low)};
}

template <class Unit>
PENSTOCK_DEVICE_CODE Unit poison() {
  return static_cast<Unit>(~Unit{0});
}

template <>
PENSTOCK_DEVICE_CODE unit16 poison() {
  return {~std::uint64_t{0}, ~std::uint64_t{0}};
}

PENSTOCK_DEVICE_CODE void count_failure(const move_item& item, std::uint32_t status) {
  if (item.report == 0) return;
  auto* const report = reinterpret_cast<failure_report*>(item.report);
#ifdef __CUDA_ARCH__
  const bool first = atomicAdd(&report->failed, 1U) == 0;
#else
  const bool first = report->failed++ == 0;
#endif
  if (!first) return;
  report->status = status;
  if (item.note != 0) report->note = *reinterpret_cast<const failure_note*>(item.note);
}

// The tables of one item.
struct item_tables {
  const move_axis* axes;
  const move_run* runs;
};

// The run that contains a position: the last one that begins at or before it.
PENSTOCK_DEVICE_CODE const move_run& run_at(const move_axis& axis, const move_run* runs, std::uint64_t position) {
  std::uint32_t first = axis.first_run;
  if (axis.runs == axis.count) return runs[first + position];
  for (std::uint32_t left = axis.runs; left > 1;) {
    const std::uint32_t half = left / 2;
    if (runs[first + half].first <= position) first += half;
    left -= half;
  }
  return runs[first];
}

// Where unit `index` is read and written. `Index` has 32 bits if that is enough, because divisions are expensive.
template <class Index>
PENSTOCK_DEVICE_CODE void locate_unit(const move_item& item, const item_tables& tables, Index index, std::int64_t& from,
                                      std::int64_t& to) {
  from = to = 0;
  for (std::uint32_t d = item.axes; d-- > 0;) {
    const move_axis& axis = tables.axes[d];
    const auto count = static_cast<Index>(axis.count);
    const Index rest = index / count;
    auto at = static_cast<std::int64_t>(index - rest * count);
    if (axis.runs != 0) {
      const move_run& run = run_at(axis, tables.runs, static_cast<std::uint64_t>(at));
      from += run.from;
      to += run.to;
      at -= static_cast<std::int64_t>(run.first);
    }
    from += at * axis.from_step;
    to += at * axis.to_step;
    index = rest;
  }
}

// An uncompressed chunk may be at any address of its batch, and a device faults if a unit is not aligned.
template <class Unit>
PENSTOCK_DEVICE_CODE Unit load_unit(std::uint64_t address) {
  if (address % alignof(Unit) == 0) return *reinterpret_cast<const Unit*>(address);
  Unit value;
  const auto* const from = reinterpret_cast<const std::uint8_t*>(address);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&value);
  for (unsigned i = 0; i < sizeof(Unit); ++i) bytes[i] = from[i];
  return value;
}

template <class Unit>
PENSTOCK_DEVICE_CODE void store_unit(std::uint64_t address, const Unit& value) {
  if (address % alignof(Unit) == 0) {
    *reinterpret_cast<Unit*>(address) = value;
    return;
  }
  auto* const to = reinterpret_cast<std::uint8_t*>(address);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
  for (unsigned i = 0; i < sizeof(Unit); ++i) to[i] = bytes[i];
}

template <class Unit, class Index>
PENSTOCK_DEVICE_CODE void move_units(const move_item& item, const item_tables& tables, const move_tile& tile,
                                     unsigned thread, unsigned threads, bool failed) {
  for (std::uint64_t i = tile.first + thread; i < tile.first + tile.count; i += threads) {
    std::int64_t from = 0, to = 0;
    locate_unit<Index>(item, tables, static_cast<Index>(i), from, to);
    const std::uint64_t out = item.to + static_cast<std::uint64_t>(to);
    if (failed) {
      store_unit(out, poison<Unit>());
      continue;
    }
    const auto value = load_unit<Unit>(item.from + static_cast<std::uint64_t>(from));
    store_unit(out, item.swap != 0 ? reversed(value) : value);
  }
}

PENSTOCK_DEVICE_CODE std::uint64_t load_number(std::uint64_t address, std::uint32_t bytes, bool swap) {
  switch (bytes) {
    case 1:
      return load_unit<std::uint8_t>(address);
    case 2: {
      const auto value = load_unit<std::uint16_t>(address);
      return swap ? reversed(value) : value;
    }
    case 4: {
      const auto value = load_unit<std::uint32_t>(address);
      return swap ? reversed(value) : value;
    }
    default: {
      const auto value = load_unit<std::uint64_t>(address);
      return swap ? reversed(value) : value;
    }
  }
}

PENSTOCK_DEVICE_CODE void store_number(std::uint64_t address, std::uint32_t bytes, std::uint64_t value) {
  switch (bytes) {
    case 1:
      return store_unit(address, static_cast<std::uint8_t>(value));
    case 2:
      return store_unit(address, static_cast<std::uint16_t>(value));
    case 4:
      return store_unit(address, static_cast<std::uint32_t>(value));
    default:
      return store_unit(address, value);
  }
}

template <class Index>
PENSTOCK_DEVICE_CODE void convert_units(const move_item& item, const item_tables& tables, const move_tile& tile,
                                        unsigned thread, unsigned threads, bool failed) {
  const std::uint32_t from_bytes = part_bytes(item.convert_from), to_bytes = part_bytes(item.convert_to);
  const bool has_imaginary = is_complex(item.convert_to);
  for (std::uint64_t i = tile.first + thread; i < tile.first + tile.count; i += threads) {
    std::int64_t from = 0, to = 0;
    locate_unit<Index>(item, tables, static_cast<Index>(i), from, to);
    const std::uint64_t out = item.to + static_cast<std::uint64_t>(to);
    std::uint64_t value = ~std::uint64_t{0}, imaginary = ~std::uint64_t{0};
    if (!failed) {
      value = load_number(item.from + static_cast<std::uint64_t>(from), from_bytes, item.swap != 0);
      value = convert_number(item.convert_from, item.convert_to, value);
      imaginary = 0;
    }
    store_number(out, to_bytes, value);
    if (has_imaginary) store_number(out + to_bytes, to_bytes, imaginary);
  }
}

template <class Unit>
PENSTOCK_DEVICE_CODE void move_tile_of(const move_item& item, const item_tables& tables, const move_tile& tile,
                                       unsigned thread, unsigned threads, bool failed) {
  if (item.units <= 0xFFFFFFFFU) {
    move_units<Unit, std::uint32_t>(item, tables, tile, thread, threads, failed);
  } else {
    move_units<Unit, std::uint64_t>(item, tables, tile, thread, threads, failed);
  }
}

PENSTOCK_DEVICE_CODE void convert_tile(const move_item& item, const item_tables& tables, const move_tile& tile,
                                       unsigned thread, unsigned threads, bool failed) {
  if (item.units <= 0xFFFFFFFFU) {
    convert_units<std::uint32_t>(item, tables, tile, thread, threads, failed);
  } else {
    convert_units<std::uint64_t>(item, tables, tile, thread, threads, failed);
  }
}

PENSTOCK_DEVICE_CODE void move_any(const move_item& item, const item_tables& tables, const move_tile& tile,
                                   unsigned thread, unsigned threads, bool failed) {
  if (item.convert_from != number_kind::none) return convert_tile(item, tables, tile, thread, threads, failed);
  switch (item.unit_bytes) {
    case 1:
      return move_tile_of<std::uint8_t>(item, tables, tile, thread, threads, failed);
    case 2:
      return move_tile_of<std::uint16_t>(item, tables, tile, thread, threads, failed);
    case 4:
      return move_tile_of<std::uint32_t>(item, tables, tile, thread, threads, failed);
    case 8:
      return move_tile_of<std::uint64_t>(item, tables, tile, thread, threads, failed);
    default:
      return move_tile_of<unit16>(item, tables, tile, thread, threads, failed);
  }
}

}  // namespace moving

/// Run by one thread of a block: block `block` processes tile `block`.
PENSTOCK_DEVICE_CODE void move_block(const move_parameters& with, unsigned block, unsigned thread, unsigned threads) {
  const move_tile tile = with.tiles[block];
  const move_item& item = with.items[tile.item];
  const std::uint32_t status = item.status == kNoStatus ? 0 : with.statuses[item.status];
  if (status != 0 && tile.first == 0 && thread == 0) moving::count_failure(item, status);
  if (status == 0 && item.in_place != 0) return;
  moving::move_any(item, {with.axes + item.first_axis, with.runs + item.first_run}, tile, thread, threads, status != 0);
}

/// Axes of one gather: those of an array, and two for the bytes of an item.
inline constexpr std::uint32_t kMaxGatherAxes = 32;

/// The argument of the gather kernel: units [first, end) of one item without a status and without runs, `tile_units` of
/// them a block.
struct gather_parameters {
  move_item item;
  std::uint64_t first = 0, end = 0, tile_units = 0;
  move_axis axes[kMaxGatherAxes];
};

/// As `move_block`.
PENSTOCK_DEVICE_CODE void gather_block(const gather_parameters& with, unsigned block, unsigned thread,
                                       unsigned threads) {
  move_tile tile;
  tile.first = with.first + block * with.tile_units;
  if (tile.first >= with.end) return;
  const std::uint64_t left = with.end - tile.first;
  tile.count = left < with.tile_units ? left : with.tile_units;
  moving::move_any(with.item, {with.axes, nullptr}, tile, thread, threads, false);
}

}  // namespace penstock::inline v0::cuda
