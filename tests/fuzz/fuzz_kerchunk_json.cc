// Any text as kerchunk's references: refused, or each array's rows make a table.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/reference/kerchunk_json.h"

extern "C" int run_kerchunk_json(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto parsed = kerchunk_json::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    const errc code = parsed.error().code();
    if (code != errc::corrupt_data && code != errc::unsupported) __builtin_trap();
    return 0;
  }
  for (const reference_keys& keys : {reference_keys{{40, 3}, "", '.'}, reference_keys{{100}, "c", '/'}}) {
    auto rows = parsed->rows("x", keys);
    if (!rows.ok()) continue;
    if (rows->size() > parsed->references() || rows->sources().size() > rows->size()) __builtin_trap();
    const std::uint64_t cells = *keys.cells();
    const auto table = rows->table(cells);
    if (!table.ok()) continue;
    for (std::uint64_t i = 0; i < (*table)->entries(); ++i)
      if ((*table)->cell(i) >= cells || (**table)[i].object >= rows->sources().size()) __builtin_trap();
  }
  return 0;
}
