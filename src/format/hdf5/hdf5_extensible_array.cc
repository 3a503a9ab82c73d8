// Chunks in an extensible array. Source: HDF5 File Format Specification 3.0, VII.D.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
namespace {

/// One array: its elements are in an index block, then in data blocks of growing length, which super blocks group.
class extensible_array {
 public:
  extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) noexcept
      : file_(file), to_(to), address_(address) {}

  result<> list() {
    PENSTOCK_ASSIGN(const std::uint64_t index_block, read_header());
    if (file_.undefined(index_block)) return {};
    return read_index_block(index_block);
  }

 private:
  // The pages of all blocks of a level are requested together: an error of one does not end the walk while it waits.
  result<> unless_waiting(result<> done) const {
    if (file_.waiting()) return {};
    return done;
  }

  result<std::uint64_t> read_header() {
    const std::uint64_t bytes = 12 + 6 * file_.length_bytes() + file_.offset_bytes() + kHdf5ChecksumBytes;
    PENSTOCK_ASSIGN(const auto header, file_.checked(address_, bytes, "an extensible array's header"));
    hdf5_cursor cursor(header);
    if (!cursor.is("EAHD") || cursor.number(1) != 0)
      return hdf5_damaged(fmt::format("no extensible array stands at address {}", address_));
    client_ = cursor.number(1);
    const std::uint64_t element_bytes = cursor.number(1);
    most_bits_ = cursor.number(1);
    index_elements_ = cursor.number(1);
    block_elements_ = cursor.number(1);
    pointers_ = cursor.number(1);
    page_bits_ = cursor.number(1);
    cursor.skip(6 * file_.length_bytes());
    PENSTOCK_ASSIGN(element_, hdf5_array_element::make(file_, client_, element_bytes));
    const bool sound = most_bits_ <= 64 && page_bits_ <= 62 && std::has_single_bit(block_elements_) &&
                       std::has_single_bit(pointers_) && pointers_ > 1 &&
                       most_bits_ >= static_cast<unsigned>(std::countr_zero(block_elements_));
    if (!sound) return hdf5_damaged("an extensible array of impossible measures");
    super_blocks_ = 1 + most_bits_ - static_cast<unsigned>(std::countr_zero(block_elements_));
    direct_ = std::min<std::uint64_t>(2 * static_cast<unsigned>(std::countr_zero(pointers_)), super_blocks_);
    return cursor.number(file_.offset_bytes());
  }

  // Super block `u` has so many data blocks, of so many elements each.
  static std::uint64_t blocks_of(std::uint64_t u) noexcept { return std::uint64_t{1} << (u / 2); }
  std::uint64_t elements_of(std::uint64_t u) const noexcept {
    return (std::uint64_t{1} << ((u + 1) / 2)) * block_elements_;
  }

  std::uint64_t prefix_bytes() const noexcept { return 6 + file_.offset_bytes(); }

  result<> check_prefix(hdf5_cursor& cursor, std::string_view signature, std::uint64_t at) const {
    if (cursor.is(signature) && cursor.number(1) == 0 && cursor.number(1) == client_ &&
        cursor.number(file_.offset_bytes()) == address_) {
      return {};
    }
    return hdf5_damaged(fmt::format("no {} of this extensible array stands at address {}", signature, at));
  }

  result<> read_index_block(std::uint64_t at) {
    const std::uint64_t pointers = 2 * (pointers_ - 1), supers = super_blocks_ - direct_;
    const std::uint64_t bytes = prefix_bytes() + index_elements_ * element_.bytes +
                                (pointers + supers) * file_.offset_bytes() + kHdf5ChecksumBytes;
    PENSTOCK_ASSIGN(const auto block, file_.checked(at, bytes, "an extensible array's index block"));
    const std::vector<std::byte> kept(block.begin(), block.end());
    hdf5_cursor cursor(kept);
    PENSTOCK_TRY(check_prefix(cursor, "EAIB", at));
    element_.add_all(file_, cursor.bytes(index_elements_ * element_.bytes), 0, to_);
    std::uint64_t first = index_elements_;
    for (std::uint64_t u = 0; u < direct_; ++u) {
      for (std::uint64_t i = 0; i < blocks_of(u); ++i, first += elements_of(u)) {
        const std::uint64_t address = cursor.number(file_.offset_bytes());
        if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_data_block(address, u, i, first, {})));
      }
    }
    for (std::uint64_t u = direct_; u < super_blocks_; ++u) {
      const std::uint64_t address = cursor.number(file_.offset_bytes());
      if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_super_block(address, u, first)));
      first += blocks_of(u) * elements_of(u);
    }
    return {};
  }

  std::uint64_t pages_of(std::uint64_t u) const noexcept {
    const std::uint64_t page = std::uint64_t{1} << page_bits_;
    return elements_of(u) > page ? elements_of(u) / page : 0;
  }
  std::uint64_t place_bytes() const noexcept { return ceil_div(most_bits_, 8); }

  result<> read_super_block(std::uint64_t at, std::uint64_t u, std::uint64_t first) {
    const std::uint64_t blocks = blocks_of(u);
    std::uint64_t bitmap_bytes = 0, bytes = prefix_bytes() + place_bytes() + blocks * file_.offset_bytes();
    if (!checked_mul(blocks, ceil_div(pages_of(u), 8), bitmap_bytes) ||
        !checked_add(bytes, bitmap_bytes + kHdf5ChecksumBytes, bytes)) {
      return hdf5_damaged("an extensible array leaves the file");
    }
    PENSTOCK_ASSIGN(const auto block, file_.checked(at, bytes, "an extensible array's super block"));
    const std::vector<std::byte> kept(block.begin(), block.end());
    hdf5_cursor cursor(kept);
    PENSTOCK_TRY(check_prefix(cursor, "EASB", at));
    cursor.skip(place_bytes());
    const auto bitmap = cursor.bytes(bitmap_bytes);
    for (std::uint64_t i = 0; i < blocks; ++i, first += elements_of(u)) {
      const std::uint64_t address = cursor.number(file_.offset_bytes());
      if (!file_.undefined(address)) PENSTOCK_TRY(unless_waiting(read_data_block(address, u, i, first, bitmap)));
    }
    return {};
  }

  result<> read_data_block(std::uint64_t at, std::uint64_t u, std::uint64_t which, std::uint64_t first,
                           std::span<const std::byte> bitmap) {
    const std::uint64_t pages = pages_of(u);
    const std::uint64_t elements = pages == 0 ? elements_of(u) : 0;
    const std::uint64_t bytes = prefix_bytes() + place_bytes() + elements * element_.bytes + kHdf5ChecksumBytes;
    PENSTOCK_ASSIGN(const auto block, file_.checked(at, bytes, "an extensible array's data block"));
    hdf5_cursor cursor(block);
    PENSTOCK_TRY(check_prefix(cursor, "EADB", at));
    cursor.skip(place_bytes());
    if (pages == 0) {
      element_.add_all(file_, cursor.bytes(elements * element_.bytes), first, to_);
      return {};
    }
    const std::uint64_t page = std::uint64_t{1} << page_bits_, page_bytes = page * element_.bytes + kHdf5ChecksumBytes;
    for (std::uint64_t i = 0; i < pages; ++i) {
      const std::uint64_t bit = which * pages + i;
      if (bit / 8 >= bitmap.size()) return hdf5_damaged("an extensible array's page that no super block knows");
      if ((static_cast<unsigned>(bitmap[static_cast<std::size_t>(bit / 8)]) & (0x80U >> (bit % 8))) == 0) continue;
      const auto stored = file_.checked(at + bytes + i * page_bytes, page_bytes, "an extensible array's page");
      if (!stored.ok()) {
        if (file_.waiting()) continue;
        return stored.error().clone();
      }
      element_.add_all(file_, stored->first(stored->size() - kHdf5ChecksumBytes), first + i * page, to_);
    }
    return {};
  }

  hdf5_file& file_;
  hdf5_chunk_columns& to_;
  std::uint64_t address_;
  std::uint64_t client_ = 0, most_bits_ = 0, index_elements_ = 0, block_elements_ = 0, pointers_ = 0, page_bits_ = 0;
  std::uint64_t super_blocks_ = 0, direct_ = 0;  // direct_: whose data blocks the index block names itself
  hdf5_array_element element_;
};

}  // namespace

result<> list_hdf5_extensible_array(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  return extensible_array(file, address, to).list();
}

}  // namespace penstock::inline v0
