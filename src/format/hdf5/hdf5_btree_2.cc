// Chunks in a B-tree of version 2. Source: HDF5 File Format Specification 3.0, III.A.2, records of types 10 and 11.

#include <fmt/format.h>

#include <array>

#include "format/hdf5/hdf5_chunk_columns.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {

result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  constexpr std::uint64_t kPlain = 10, kFiltered = 11;
  std::size_t length_bytes = 0;  // 0: no filters
  const auto check = [&](const hdf5_record_form& form) -> result<> {
    const std::uint64_t plain = file.offset_bytes() + 8 * to.rank();
    const bool sound = form.type == kPlain
                           ? form.bytes == plain
                           : form.type == kFiltered && form.bytes > plain + 4 && form.bytes <= plain + 12;
    if (!sound) return hdf5_damaged(fmt::format("a B-tree of kind {} with records of {} bytes", form.type, form.bytes));
    if (form.type == kFiltered) length_bytes = static_cast<std::size_t>(form.bytes - plain - 4);
    return {};
  };
  const auto take = [&](std::span<const std::byte> record) -> result<> {
    hdf5_cursor cursor(record);
    const std::uint64_t at = cursor.number(file.offset_bytes());
    const std::uint64_t length = length_bytes == 0 ? to.chunk_bytes() : cursor.number(length_bytes);
    const std::uint64_t mask = length_bytes == 0 ? 0 : cursor.number(4);
    std::array<std::uint64_t, kMaxRank> place{};
    for (std::size_t d = 0; d < to.rank(); ++d) place[d] = cursor.number(8);
    if (!file.undefined(at)) to.add(std::span(place).first(to.rank()), at, length, mask);
    return {};
  };
  return visit_hdf5_records(file, address, check, take);
}

}  // namespace penstock::inline v0
