#include "format/hdf5/hdf5_dataset.h"

#include <fmt/format.h>
#include <penstock/shape.h>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

result<const hdf5_message*> required(const std::vector<hdf5_message>& header, hdf5_message::kind type,
                                     std::string_view what) {
  const hdf5_message* const found = find_message(header, type);
  if (found == nullptr) return hdf5_damaged(fmt::format("the dataset has no {}", what));
  if (found->shared) return hdf5_unknown(fmt::format("a {} that is shared", what));
  return found;
}

result<> parse_chunks(hdf5_cursor& cursor, std::uint64_t count, std::size_t width, hdf5_layout& out) {
  if (count < 2 || count > kMaxRank + 1) return hdf5_damaged(fmt::format("chunks of {} dimensions", count));
  for (std::uint64_t d = 0; d < count; ++d) {
    const std::uint64_t length = cursor.number(width);
    if (length == 0) return hdf5_damaged("chunks without elements");
    if (d + 1 < count)
      out.chunk.push_back(length);
    else
      out.element_bytes = length;
  }
  return {};
}

result<> parse_index(const hdf5_file& file, hdf5_cursor& cursor, hdf5_layout& out) {
  switch (cursor.number(1)) {
    case 1:
      out.by = hdf5_layout::index::single;
      if (out.one_filtered) {
        out.one_bytes = cursor.number(file.length_bytes());
        out.one_mask = cursor.number(4);
      }
      return {};
    case 2:
      out.by = hdf5_layout::index::implicit;
      return {};
    // The parameters that follow are repeated in the header of the index.
    case 3:
      out.by = hdf5_layout::index::fixed_array;
      cursor.skip(1);
      return {};
    case 4:
      out.by = hdf5_layout::index::extensible_array;
      cursor.skip(5);
      return {};
    case 5:
      out.by = hdf5_layout::index::btree_2;
      cursor.skip(6);
      return {};
    default:
      return hdf5_unknown("an unknown kind of chunk index");
  }
}

// Versions 1 and 2.
result<hdf5_layout> parse_first_layout(const hdf5_file& file, hdf5_cursor& cursor) {
  hdf5_layout out;
  const std::uint64_t count = cursor.number(1), layout = cursor.number(1);
  cursor.skip(5);
  if (count > kMaxRank + 1) return hdf5_damaged(fmt::format("a data layout of {} dimensions", count));
  if (layout > 2) return hdf5_unknown("an unknown data layout");
  out.what = static_cast<hdf5_layout::kind>(layout);
  if (out.what != hdf5_layout::kind::compact) out.address = cursor.number(file.offset_bytes());
  if (out.what == hdf5_layout::kind::chunked) {
    PENSTOCK_TRY(parse_chunks(cursor, count, 4, out));
  } else {
    cursor.skip(4 * count);  // the dataspace has these lengths, which may not fit in 4 bytes
    out.bytes = byte_range::kAll;
  }
  if (out.what == hdf5_layout::kind::compact) {
    const auto bytes = cursor.bytes(cursor.number(4));
    out.inline_bytes.assign(bytes.begin(), bytes.end());
  }
  if (!cursor.ok()) return hdf5_damaged("a data layout is truncated");
  return out;
}

}  // namespace

result<hdf5_dataspace> parse_hdf5_dataspace(const hdf5_file& file, std::span<const std::byte> body) {
  hdf5_cursor cursor(body);
  const std::uint64_t version = cursor.number(1);
  if (version != 1 && version != 2) return hdf5_unknown(fmt::format("a dataspace of version {}", version));
  const std::uint64_t rank = cursor.number(1), flags = cursor.number(1);
  if (rank > kMaxRank) return hdf5_damaged(fmt::format("a dataspace of {} dimensions", rank));
  const std::uint64_t type = cursor.number(1);
  if (version == 2 && type > 2) return hdf5_damaged(fmt::format("a dataspace of kind {}", type));
  hdf5_dataspace space;
  space.null = version == 2 && type == 2;
  if (version == 1) cursor.skip(4);
  hdf5_shape& out = space.shape;
  for (std::uint64_t d = 0; d < rank; ++d) out.extents.push_back(cursor.number(file.length_bytes()));
  out.most = out.extents;
  if ((flags & 1) != 0) {
    for (std::uint64_t& most : out.most) {
      most = cursor.number(file.length_bytes());
      if (file.unlimited(most)) most = byte_range::kAll;
    }
  }
  if (!cursor.ok()) return hdf5_damaged("a dataspace is truncated");
  for (std::size_t d = 0; d < out.extents.size(); ++d) {
    if (out.extents[d] > out.most[d]) return hdf5_damaged(fmt::format("dimension {} exceeds its limit", d));
  }
  return space;
}

result<hdf5_shape> parse_hdf5_shape(const hdf5_file& file, const std::vector<hdf5_message>& header) {
  PENSTOCK_ASSIGN(const hdf5_message* const message, required(header, hdf5_message::dataspace, "dataspace"));
  PENSTOCK_ASSIGN(hdf5_dataspace space, parse_hdf5_dataspace(file, message->body));
  if (space.null) return hdf5_unknown("a dataset without a dataspace (H5S_NULL)");
  return std::move(space.shape);
}

result<hdf5_layout> parse_hdf5_layout(const hdf5_file& file, const std::vector<hdf5_message>& header) {
  PENSTOCK_ASSIGN(const hdf5_message* const message, required(header, hdf5_message::data_layout, "data layout"));
  hdf5_cursor cursor(message->body);
  const std::uint64_t version = cursor.number(1);
  if (version < 1 || version > 5) return hdf5_unknown(fmt::format("a data layout of version {}", version));
  if (version < 3) return parse_first_layout(file, cursor);
  hdf5_layout out;
  switch (cursor.number(1)) {
    case 0: {
      out.what = hdf5_layout::kind::compact;
      const auto bytes = cursor.bytes(cursor.number(2));
      out.inline_bytes.assign(bytes.begin(), bytes.end());
      break;
    }
    case 1:
      out.what = hdf5_layout::kind::contiguous;
      out.address = cursor.number(file.offset_bytes());
      out.bytes = cursor.number(file.length_bytes());
      break;
    case 2:
      out.what = hdf5_layout::kind::chunked;
      if (version == 3) {
        const std::uint64_t count = cursor.number(1);
        out.address = cursor.number(file.offset_bytes());
        PENSTOCK_TRY(parse_chunks(cursor, count, 4, out));
      } else {
        const std::uint64_t flags = cursor.number(1), count = cursor.number(1), width = cursor.number(1);
        if (width < 1 || width > 8) return hdf5_damaged(fmt::format("chunk lengths of {} bytes", width));
        out.raw_edges = (flags & 1) != 0;
        out.one_filtered = (flags & 2) != 0;
        PENSTOCK_TRY(parse_chunks(cursor, count, static_cast<std::size_t>(width), out));
        PENSTOCK_TRY(parse_index(file, cursor, out));
        out.address = cursor.number(file.offset_bytes());
      }
      break;
    case 3:
      if (version < 4) return hdf5_damaged(fmt::format("a virtual dataset in a data layout of version {}", version));
      out.what = hdf5_layout::kind::mapped;
      out.address = cursor.number(file.offset_bytes());
      out.heap_index = cursor.number(4);
      break;
    default:
      return hdf5_unknown("an unknown data layout");
  }
  if (!cursor.ok()) return hdf5_damaged("a data layout is truncated");
  return out;
}

}  // namespace penstock::inline v0
