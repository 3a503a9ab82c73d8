// Chunks in a B-tree of version 2. Source: HDF5 File Format Specification 3.0, III.A.2, records of types 10 and 11.

#include <fmt/format.h>

#include "format/hdf5/hdf5_index_forms.h"

namespace penstock::inline v0 {

result<> hdf5_chunk_record::check(const hdf5_record_form& form, std::size_t offset_bytes, std::size_t rank) {
  constexpr std::uint64_t kPlain = 10, kFiltered = 11;
  const std::uint64_t plain = offset_bytes + 8 * rank;
  const bool sound = form.type == kPlain ? form.bytes == plain
                                         : form.type == kFiltered && form.bytes > plain + 4 && form.bytes <= plain + 12;
  if (!sound) return hdf5_damaged(fmt::format("a B-tree of kind {} with records of {} bytes", form.type, form.bytes));
  value.offset_bytes = offset_bytes;
  value.length_bytes = form.type == kFiltered ? static_cast<std::size_t>(form.bytes - plain - 4) : 0;
  value.bytes = static_cast<std::size_t>(form.bytes - 8 * rank);
  return {};
}

result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  const std::size_t rank = to.grid().rank();
  hdf5_chunk_record record;
  const auto check = [&](const hdf5_record_form& form) { return record.check(form, file.offset_bytes(), rank); };
  const auto take = [&](std::span<const std::byte> stored) -> result<> {
    hdf5_cursor cursor(stored);
    const hdf5_chunk_place found = record.value.take(cursor, to.grid().chunk_bytes());
    hdf5_chunk_coordinates place{};
    for (std::size_t d = 0; d < rank; ++d) place[d] = cursor.number(8);
    if (!file.undefined(found.address)) to.add(std::span(place).first(rank), found.address, found.length, found.mask);
    return {};
  };
  return visit_hdf5_records(file, address, check, take);
}

}  // namespace penstock::inline v0
