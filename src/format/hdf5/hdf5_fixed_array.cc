// Chunks in a fixed array. Source: HDF5 File Format Specification 3.0, VII.C.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "format/hdf5/hdf5_index_forms.h"

namespace penstock::inline v0 {

result<hdf5_fixed_array> hdf5_fixed_array::read(hdf5_file& file, std::uint64_t address, std::uint64_t numbers) {
  if (numbers == 0) return hdf5_damaged("a fixed array of chunks of a dataset without limits");
  const std::uint64_t header_bytes = 8 + file.length_bytes() + file.offset_bytes() + kHdf5ChecksumBytes;
  PENSTOCK_ASSIGN(const auto header, file.checked(address, header_bytes, "a fixed array's header"));
  hdf5_cursor cursor(header);
  if (!cursor.is("FAHD") || cursor.number(1) != 0)
    return hdf5_damaged(fmt::format("no fixed array is at address {}", address));
  hdf5_fixed_array made;
  made.address = address;
  made.client = cursor.number(1);
  const std::uint64_t element_bytes = cursor.number(1);
  made.page_bits = static_cast<unsigned>(cursor.number(1));
  made.count = cursor.number(file.length_bytes());
  made.block = cursor.number(file.offset_bytes());
  PENSTOCK_ASSIGN(made.element, hdf5_array_element::make(file.offset_bytes(), made.client, element_bytes));
  if (made.page_bits > 62) return hdf5_damaged(fmt::format("pages of 2^{} chunks", made.page_bits));
  if (made.count > numbers)
    return hdf5_damaged(fmt::format("a fixed array of {} chunks, the dataset has {}", made.count, numbers));

  const std::uint64_t page = std::uint64_t{1} << made.page_bits;
  if (made.count > page) made.pages = ceil_div(made.count, page);
  made.bitmap_bytes = ceil_div(made.pages, 8);
  made.prefix_bytes = 6 + file.offset_bytes();
  std::uint64_t page_bytes = 0;
  if (!checked_mul(made.pages == 0 ? made.count : 0, made.element.bytes, made.block_bytes) ||
      !checked_add(made.block_bytes, made.prefix_bytes + made.bitmap_bytes + kHdf5ChecksumBytes, made.block_bytes) ||
      !checked_mul(page, made.element.bytes, page_bytes)) {
    return hdf5_damaged("a fixed array exceeds the file");
  }
  return made;
}

result<> hdf5_fixed_array::check_block(std::span<const std::byte> stored) const {
  hdf5_cursor cursor(stored);
  if (cursor.is("FADB") && cursor.number(1) == 0 && cursor.number(1) == client &&
      cursor.number(element.offset_bytes) == address) {
    return {};
  }
  return hdf5_damaged(fmt::format("no data block of this fixed array is at address {}", block));
}

std::uint64_t hdf5_fixed_array::elements_of(std::uint64_t i) const noexcept {
  return std::min(std::uint64_t{1} << page_bits, count - (i << page_bits));
}

bool hdf5_fixed_array::find_page(std::uint64_t i, std::uint64_t& address_of_page) const noexcept {
  const std::uint64_t page_bytes = (std::uint64_t{1} << page_bits) * element.bytes + kHdf5ChecksumBytes;
  return checked_mul(i, page_bytes, address_of_page) &&
         checked_add(address_of_page, block + block_bytes, address_of_page);
}

result<> list_hdf5_fixed_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  PENSTOCK_ASSIGN(const hdf5_fixed_array array, hdf5_fixed_array::read(file, address, to.grid().numbers()));
  if (file.undefined(array.block)) return {};
  PENSTOCK_ASSIGN(const auto data, file.checked(array.block, array.block_bytes, "a fixed array's data block"));
  PENSTOCK_TRY(array.check_block(data));
  hdf5_cursor inside(data);
  inside.skip(array.prefix_bytes);
  if (array.pages == 0) {
    array.element.add_all(file, inside.bytes(array.count * array.element.bytes), 0, to);
    return {};
  }
  const auto bits = inside.bytes(array.bitmap_bytes);
  const std::vector<std::byte> bitmap(bits.begin(), bits.end());
  for (std::uint64_t i = 0; i < array.pages; ++i) {
    if (!hdf5_fixed_array::is_written(bitmap, i)) continue;
    std::uint64_t at = 0;
    if (!array.find_page(i, at)) return hdf5_damaged("a fixed array exceeds the file");
    const std::uint64_t bytes = array.elements_of(i) * array.element.bytes;
    const auto stored = file.checked(at, bytes + kHdf5ChecksumBytes, "a fixed array's page");
    if (!stored.ok()) {
      if (file.waiting()) continue;
      return stored.error().clone();
    }
    array.element.add_all(file, stored->first(static_cast<std::size_t>(bytes)), i << array.page_bits, to);
  }
  return {};
}

}  // namespace penstock::inline v0
