// Chunks in an extensible array. Source: HDF5 File Format Specification 3.0, VII.D.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/checked.h"
#include "format/hdf5/hdf5_index_forms.h"

namespace penstock::inline v0 {

result<hdf5_extensible_array> hdf5_extensible_array::read(hdf5_file& file, std::uint64_t address) {
  const std::uint64_t bytes = 12 + 6 * file.length_bytes() + file.offset_bytes() + kHdf5ChecksumBytes;
  PENSTOCK_ASSIGN(const auto header, file.checked(address, bytes, "an extensible array's header"));
  hdf5_cursor cursor(header);
  if (!cursor.is("EAHD") || cursor.number(1) != 0)
    return hdf5_damaged(fmt::format("no extensible array is at address {}", address));
  hdf5_extensible_array made;
  made.address = address;
  made.client = cursor.number(1);
  const std::uint64_t element_bytes = cursor.number(1), most_bits = cursor.number(1);
  made.index_elements = cursor.number(1);
  made.block_elements = cursor.number(1);
  made.pointers = cursor.number(1);
  made.page_bits = static_cast<unsigned>(cursor.number(1));
  cursor.skip(6 * file.length_bytes());
  made.index_block = cursor.number(file.offset_bytes());
  PENSTOCK_ASSIGN(made.element, hdf5_array_element::make(file.offset_bytes(), made.client, element_bytes));
  const bool sound = most_bits <= 64 && made.page_bits <= 62 && std::has_single_bit(made.block_elements) &&
                     std::has_single_bit(made.pointers) && made.pointers > 1 &&
                     most_bits >= static_cast<unsigned>(std::countr_zero(made.block_elements));
  if (!sound) return hdf5_damaged("an extensible array of impossible sizes");
  made.super_blocks = 1 + most_bits - static_cast<unsigned>(std::countr_zero(made.block_elements));
  made.direct = std::min<std::uint64_t>(2 * static_cast<unsigned>(std::countr_zero(made.pointers)), made.super_blocks);
  made.prefix_bytes = 6 + file.offset_bytes();
  made.place_bytes = ceil_div(most_bits, 8);
  made.offset_bytes = file.offset_bytes();
  return made;
}

result<std::uint64_t> hdf5_extensible_array::super_block_bytes(std::uint64_t u) const {
  std::uint64_t bitmap_bytes = 0, bytes = prefix_bytes + place_bytes + blocks_of(u) * offset_bytes;
  if (!checked_mul(blocks_of(u), ceil_div(pages_of(u), 8), bitmap_bytes) ||
      !checked_add(bytes, bitmap_bytes + kHdf5ChecksumBytes, bytes)) {
    return hdf5_damaged("an extensible array exceeds the file");
  }
  return bytes;
}

result<> hdf5_extensible_array::check_prefix(hdf5_cursor& cursor, std::string_view signature) const {
  if (cursor.is(signature) && cursor.number(1) == 0 && cursor.number(1) == client &&
      cursor.number(offset_bytes) == address) {
    return {};
  }
  return hdf5_damaged(fmt::format("a block is no {} of the extensible array at address {}", signature, address));
}

namespace {

class lister {
 public:
  lister(hdf5_file& file, const hdf5_extensible_array& array, hdf5_chunk_columns& to) noexcept
      : file_(file), array_(array), to_(to) {}

  result<> list() {
    PENSTOCK_ASSIGN(const auto block,
                    file_.checked(array_.index_block, array_.index_block_bytes(), "an extensible array's index block"));
    const std::vector<std::byte> kept(block.begin(), block.end());
    hdf5_cursor cursor(kept);
    PENSTOCK_TRY(array_.check_prefix(cursor, "EAIB"));
    array_.element.add_all(file_, cursor.bytes(array_.index_elements * array_.element.bytes), 0, to_);
    std::uint64_t first = array_.index_elements;
    for (std::uint64_t u = 0; u < array_.direct; ++u) {
      for (std::uint64_t i = 0; i < array_.blocks_of(u); ++i, first += array_.elements_of(u)) {
        const std::uint64_t address = cursor.number(file_.offset_bytes());
        if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_data_block(address, u, i, first, {})));
      }
    }
    for (std::uint64_t u = array_.direct; u < array_.super_blocks; ++u) {
      const std::uint64_t address = cursor.number(file_.offset_bytes());
      if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_super_block(address, u, first)));
      first += array_.blocks_of(u) * array_.elements_of(u);
    }
    return {};
  }

 private:
  // The pages of all blocks of a level are requested together: while the walk waits, an error of one does not end it.
  result<> unless_waiting(result<> done) const {
    if (file_.waiting()) return {};
    return done;
  }

  result<> read_super_block(std::uint64_t at, std::uint64_t u, std::uint64_t first) {
    PENSTOCK_ASSIGN(const std::uint64_t bytes, array_.super_block_bytes(u));
    PENSTOCK_ASSIGN(const auto block, file_.checked(at, bytes, "an extensible array's super block"));
    const std::vector<std::byte> kept(block.begin(), block.end());
    hdf5_cursor cursor(kept);
    PENSTOCK_TRY(array_.check_prefix(cursor, "EASB"));
    cursor.skip(array_.place_bytes);
    const std::uint64_t blocks = array_.blocks_of(u);
    const auto bitmap = cursor.bytes(blocks * ceil_div(array_.pages_of(u), 8));
    for (std::uint64_t i = 0; i < blocks; ++i, first += array_.elements_of(u)) {
      const std::uint64_t address = cursor.number(file_.offset_bytes());
      if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_data_block(address, u, i, first, bitmap)));
    }
    return {};
  }

  result<> read_data_block(std::uint64_t at, std::uint64_t u, std::uint64_t which, std::uint64_t first,
                           std::span<const std::byte> bitmap) {
    const std::uint64_t pages = array_.pages_of(u), bytes = array_.data_block_bytes(u);
    PENSTOCK_ASSIGN(const auto block, file_.checked(at, bytes, "an extensible array's data block"));
    hdf5_cursor cursor(block);
    PENSTOCK_TRY(array_.check_prefix(cursor, "EADB"));
    cursor.skip(array_.place_bytes);
    if (pages == 0) {
      array_.element.add_all(file_, cursor.bytes(array_.elements_of(u) * array_.element.bytes), first, to_);
      return {};
    }
    for (std::uint64_t i = 0; i < pages; ++i) {
      const std::uint64_t bit = which * pages + i;
      if (bit / 8 >= bitmap.size()) return hdf5_damaged("an extensible array's page that no super block lists");
      if (!hdf5_fixed_array::is_written(bitmap, bit)) continue;
      const auto stored =
          file_.checked(at + bytes + i * array_.page_bytes(), array_.page_bytes(), "an extensible array's page");
      if (!stored.ok()) {
        if (file_.waiting()) continue;
        return stored.error().clone();
      }
      array_.element.add_all(file_, stored->first(stored->size() - kHdf5ChecksumBytes), first + (i << array_.page_bits),
                             to_);
    }
    return {};
  }

  hdf5_file& file_;
  const hdf5_extensible_array& array_;
  hdf5_chunk_columns& to_;
};

}  // namespace

result<> list_hdf5_extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  PENSTOCK_ASSIGN(const hdf5_extensible_array array, hdf5_extensible_array::read(file, address));
  if (file.undefined(array.index_block)) return {};
  return lister(file, array, to).list();
}

}  // namespace penstock::inline v0
