// Chunks in a fixed array. Source: HDF5 File Format Specification 3.0, VII.C.

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
result<> list_hdf5_fixed_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  const std::uint64_t header_bytes = 8 + file.length_bytes() + file.offset_bytes() + kHdf5ChecksumBytes;
  PENSTOCK_ASSIGN(const auto header, file.checked(address, header_bytes, "a fixed array's header"));
  hdf5_cursor cursor(header);
  if (!cursor.is("FAHD") || cursor.number(1) != 0)
    return hdf5_damaged(fmt::format("no fixed array stands at address {}", address));
  const std::uint64_t client = cursor.number(1), element_bytes = cursor.number(1), page_bits = cursor.number(1);
  const std::uint64_t count = cursor.number(file.length_bytes()), block = cursor.number(file.offset_bytes());
  PENSTOCK_ASSIGN(const hdf5_array_element element, hdf5_array_element::make(file, client, element_bytes));
  if (page_bits > 62) return hdf5_damaged(fmt::format("pages of 2^{} chunks", page_bits));
  if (count > to.numbers())
    return hdf5_damaged(fmt::format("a fixed array of {} chunks, the dataset has {}", count, to.numbers()));
  if (file.undefined(block)) return {};

  const std::uint64_t page = std::uint64_t{1} << page_bits;
  const bool paged = count > page;
  const std::uint64_t pages = paged ? ceil_div(count, page) : 0;
  const std::uint64_t bitmap_bytes = ceil_div(pages, 8);
  const std::uint64_t begin = 6 + file.offset_bytes();
  std::uint64_t bytes = 0;
  if (!checked_mul(paged ? 0 : count, element.bytes, bytes) ||
      !checked_add(bytes, begin + bitmap_bytes + kHdf5ChecksumBytes, bytes)) {
    return hdf5_damaged("a fixed array leaves the file");
  }
  PENSTOCK_ASSIGN(const auto data, file.checked(block, bytes, "a fixed array's data block"));
  hdf5_cursor inside(data);
  if (!inside.is("FADB") || inside.number(1) != 0 || inside.number(1) != client ||
      inside.number(file.offset_bytes()) != address) {
    return hdf5_damaged(fmt::format("no data block of this fixed array stands at address {}", block));
  }
  if (!paged) {
    element.add_all(file, inside.bytes(count * element.bytes), 0, to);
    return {};
  }
  const auto bits = inside.bytes(bitmap_bytes);
  const std::vector<std::byte> bitmap(bits.begin(), bits.end());
  std::uint64_t page_bytes = 0;
  if (!checked_mul(page, element.bytes, page_bytes)) return hdf5_damaged("a fixed array leaves the file");
  page_bytes += kHdf5ChecksumBytes;
  for (std::uint64_t i = 0; i < pages; ++i) {
    if ((static_cast<unsigned>(bitmap[static_cast<std::size_t>(i / 8)]) & (0x80U >> (i % 8))) == 0) continue;
    const std::uint64_t elements = std::min(page, count - i * page);
    std::uint64_t at = 0;
    if (!checked_mul(i, page_bytes, at) || !checked_add(at, block + bytes, at))
      return hdf5_damaged("a fixed array leaves the file");
    const auto stored = file.checked(at, elements * element.bytes + kHdf5ChecksumBytes, "a fixed array's page");
    if (!stored.ok()) {
      if (file.waiting()) continue;
      return stored.error().clone();
    }
    element.add_all(file, stored->first(stored->size() - kHdf5ChecksumBytes), i * page, to);
  }
  return {};
}

}  // namespace penstock::inline v0
