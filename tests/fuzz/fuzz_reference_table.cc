// Any bytes as a saved reference table: refused, or every entry is found by its cell and comes back from what is saved.

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/reference/reference_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  auto parsed = reference_table::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!parsed.ok()) {
    if (parsed.error().code() != errc::corrupt_data) __builtin_trap();
    return 0;
  }
  const reference_table& table = **parsed;
  if (table.entries() > size + 1) __builtin_trap();
  const auto saved = table.save();
  auto again = reference_table::parse(saved);
  if (!again.ok() || (*again)->entries() != table.entries() || (*again)->cells() != table.cells()) __builtin_trap();
  for (std::uint64_t i = 0; i < table.entries(); ++i) {
    const cell_id cell = table.cell(i);
    if (cell >= table.cells() || table.find(cell, i) != i || table.find(cell, 0) != i) __builtin_trap();
    const cell_reference a = table[i], b = (**again)[i];
    if (a.offset != b.offset || a.length != b.length || a.object != b.object || a.chain != b.chain) __builtin_trap();
    if (a.length != byte_range::kAll && a.offset + a.length < a.offset) __builtin_trap();
  }
  return 0;
}
