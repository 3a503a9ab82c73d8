// Parts of a dataset's header in addition to its layout: fill value, filters, external files.

#include <fmt/format.h>

#include "base/checked.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_heaps.h"

namespace penstock::inline v0 {
namespace {

std::vector<std::byte> copied(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

result<hdf5_fill> sized_fill(hdf5_cursor& cursor) {
  hdf5_fill out;
  const std::uint64_t length = cursor.number(4);
  if (static_cast<std::int32_t>(length) > 0) {
    out.what = hdf5_fill::kind::value;
    out.bytes = copied(cursor.bytes(length));
  }
  if (!cursor.ok()) return hdf5_damaged("a fill value is truncated");
  return out;
}

}  // namespace

result<hdf5_fill> parse_hdf5_fill(const std::vector<hdf5_message>& header) {
  if (const hdf5_message* const found = find_message(header, hdf5_message::fill_value); found != nullptr) {
    hdf5_cursor cursor(found->body);
    const std::uint64_t version = cursor.number(1);
    hdf5_fill undefined;
    undefined.what = hdf5_fill::kind::undefined;
    if (version == 1 || version == 2) {
      cursor.skip(2);  // when space is allocated and the value is written
      if (cursor.number(1) == 0)
        return cursor.ok() ? result<hdf5_fill>(undefined) : hdf5_damaged("a fill value is truncated");
      return sized_fill(cursor);
    }
    if (version != 3) return hdf5_unknown(fmt::format("a fill value of version {}", version));
    const std::uint64_t flags = cursor.number(1);
    if (!cursor.ok()) return hdf5_damaged("a fill value is truncated");
    if ((flags & 0x10) != 0) return undefined;
    if ((flags & 0x20) != 0) return sized_fill(cursor);
    return hdf5_fill{};
  }
  // If neither kind of value exists, libhdf5 reports that it is undefined.
  hdf5_fill out;
  if (const hdf5_message* const old = find_message(header, hdf5_message::old_fill_value); old != nullptr) {
    hdf5_cursor cursor(old->body);
    PENSTOCK_ASSIGN(out, sized_fill(cursor));
  }
  if (out.what == hdf5_fill::kind::zeros) out.what = hdf5_fill::kind::undefined;
  return out;
}

result<std::vector<hdf5_filter>> parse_hdf5_filters(const std::vector<hdf5_message>& header) {
  const hdf5_message* const found = find_message(header, hdf5_message::filters);
  return found == nullptr ? std::vector<hdf5_filter>() : parse_hdf5_filters(found->body);
}

result<std::vector<hdf5_filter>> parse_hdf5_filters(std::span<const std::byte> body) {
  constexpr std::uint64_t kFirstNamed = 256, kMostFilters = 32;
  std::vector<hdf5_filter> out;
  hdf5_cursor cursor(body);
  const std::uint64_t version = cursor.number(1), count = cursor.number(1);
  if (version != 1 && version != 2) return hdf5_unknown(fmt::format("a filter pipeline of version {}", version));
  if (count > kMostFilters) return hdf5_damaged(fmt::format("a pipeline of {} filters", count));
  if (version == 1) cursor.skip(6);
  for (std::uint64_t i = 0; i < count; ++i) {
    hdf5_filter each;
    each.id = static_cast<std::uint32_t>(cursor.number(2));
    const std::uint64_t name_bytes = version == 1 || each.id >= kFirstNamed ? cursor.number(2) : 0;
    each.flags = static_cast<std::uint32_t>(cursor.number(2));
    const std::uint64_t values = cursor.number(2);
    const auto name = cursor.bytes(version == 1 ? round_up(name_bytes, 8) : name_bytes);
    for (const std::byte letter : name) {
      if (letter == std::byte{0}) break;
      each.name.push_back(static_cast<char>(letter));
    }
    for (std::uint64_t v = 0; v < values && cursor.ok(); ++v)
      each.values.push_back(static_cast<std::uint32_t>(cursor.number(4)));
    if (version == 1 && values % 2 != 0) cursor.skip(4);
    if (!cursor.ok()) return hdf5_damaged("a filter pipeline is truncated");
    out.push_back(std::move(each));
  }
  return out;
}

result<std::vector<hdf5_external_part>> read_hdf5_external(hdf5_file& file, const std::vector<hdf5_message>& header) {
  std::vector<hdf5_external_part> out;
  const hdf5_message* const found = find_message(header, hdf5_message::external_files);
  if (found == nullptr) return out;
  hdf5_cursor cursor(found->body);
  if (cursor.number(1) != 1) return hdf5_unknown("a list of external files of an unknown version");
  cursor.skip(5);
  const std::uint64_t count = cursor.number(2), address = cursor.number(file.offset_bytes());
  if (!cursor.ok()) return hdf5_damaged("a list of external files is truncated");
  PENSTOCK_ASSIGN(const hdf5_local_heap names, hdf5_local_heap::read(file, address));
  for (std::uint64_t i = 0; i < count; ++i) {
    hdf5_external_part each;
    const std::uint64_t name = cursor.number(file.length_bytes());
    each.offset = cursor.number(file.length_bytes());
    each.bytes = cursor.number(file.length_bytes());
    if (file.unlimited(each.bytes)) each.bytes = byte_range::kAll;
    if (!cursor.ok()) return hdf5_damaged("a list of external files is truncated");
    PENSTOCK_ASSIGN(const std::string_view text, names.text(name));
    PENSTOCK_TRY(file.spend(text.size()));
    each.file = text;
    out.push_back(std::move(each));
  }
  return out;
}

}  // namespace penstock::inline v0
