// Any bytes as a saved reference table: refused, or its entries are found by their cells, and are equal after saving
// and parsing again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "format/reference/reference_table.h"

extern "C" int run_reference_table(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  auto parsed = reference_table::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!parsed.ok()) {
    if (parsed.error().code() != errc::corrupt_data) __builtin_trap();
    return 0;
  }
  const reference_table& table = **parsed;
  if (table.memory_bytes() > 100 * (size + 1)) __builtin_trap();
  const auto saved = table.save();
  if (saved.size() > 32 * (size + 1)) __builtin_trap();
  auto again = reference_table::parse(saved);
  if (!again.ok() || (*again)->entries() != table.entries() || (*again)->cells() != table.cells()) __builtin_trap();
  std::uint64_t entry = 0;
  for (const reference_table::record& each : table.records()) {
    // The entries of runs, which may have any length, next to both ends.
    const std::uint64_t some = each.is_run() ? std::min<std::uint64_t>(each.count, 64) : each.count;
    for (std::uint64_t k = 0; k < 2 * some; ++k) {
      const std::uint64_t i = k < some ? k : each.count - 1 - (k - some);
      const cell_id cell = table.cell(each, i);
      const cell_reference a = table.at(each, i), b = (**again)[entry + i];
      std::size_t hint = 0;
      cell_reference found;
      if (cell >= table.cells() || !table.find(cell, hint, found)) __builtin_trap();
      for (const cell_reference& other : {b, found, table[entry + i]})
        if (a.offset != other.offset || a.length != other.length || a.object != other.object || a.chain != other.chain)
          __builtin_trap();
      if (a.length != byte_range::kAll && a.offset + a.length < a.offset) __builtin_trap();
    }
    entry += each.count;
  }
  if (entry != table.entries()) __builtin_trap();
  return 0;
}
