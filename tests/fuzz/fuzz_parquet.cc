// Any bytes as a Parquet file: refused, or columns of values for rows that exist; and as references.

#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/reference_tree.h"
#include "format/parquet/parquet_file.h"

extern "C" int run_parquet(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = parquet_file::open(bytes);
  if (!file.ok()) {
    if (file.error().code() != errc::corrupt_data && file.error().code() != errc::unsupported) __builtin_trap();
    return 0;
  }
  for (std::size_t i = 0; i < file->columns(); ++i) {
    const auto read = file->read(i);
    if (!read.ok()) continue;
    if (read->rows.size() != read->numbers.size() + read->texts.size()) __builtin_trap();
    std::size_t text_bytes = 0;
    for (const auto& text : read->texts)
      for (const char c : text.substr(0, 64)) text_bytes += static_cast<unsigned char>(c);
    if (text_bytes == ~std::size_t{0}) __builtin_trap();
    for (std::size_t r = 0; r < read->rows.size(); ++r)
      if (read->rows[r] >= file->rows() || (r != 0 && read->rows[r] <= read->rows[r - 1])) __builtin_trap();
  }
  reference_rows rows;
  const auto added = add_parquet_references(bytes, "x", 0, 30, 1'000'000, rows);
  if (added.ok() && rows.size() > 30) __builtin_trap();
  return 0;
}
