#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {
namespace {

struct dense_attributes {
  std::uint64_t heap = 0, by_name = 0;
  bool ordered = false;
};

result<dense_attributes> parse_attribute_info(const hdf5_file& file, const hdf5_message& message) {
  hdf5_cursor cursor(message.body);
  if (cursor.number(1) != 0) return hdf5_unknown("attributes of an unknown version");
  dense_attributes out;
  out.ordered = (cursor.number(1) & 1) != 0;
  if (out.ordered) cursor.skip(2);
  out.heap = cursor.number(file.offset_bytes());
  out.by_name = cursor.number(file.offset_bytes());
  if (!cursor.ok()) return hdf5_damaged("an object's description of its attributes is truncated");
  return out;
}

// The body of a type or of a dataspace within an attribute. It may be shared.
result<std::vector<std::byte>> part_of(hdf5_file& file, std::uint16_t type, bool is_shared,
                                       std::span<const std::byte> body) {
  if (is_shared) return read_hdf5_shared(file, type, body);
  return std::vector<std::byte>(body.begin(), body.end());
}

result<> parse_parts(hdf5_file& file, std::uint64_t flags, std::span<const std::byte> type,
                     std::span<const std::byte> space, hdf5_attribute& out) {
  PENSTOCK_ASSIGN(const auto type_body, part_of(file, hdf5_message::datatype, (flags & 1) != 0, type));
  PENSTOCK_ASSIGN(const auto space_body, part_of(file, hdf5_message::dataspace, (flags & 2) != 0, space));
  hdf5_cursor cursor(type_body);
  PENSTOCK_ASSIGN(out.type, parse_hdf5_type(cursor));
  PENSTOCK_ASSIGN(out.space, parse_hdf5_dataspace(file, space_body));
  return {};
}

result<hdf5_attribute> parse_attribute(hdf5_file& file, std::span<const std::byte> body) {
  hdf5_cursor cursor(body);
  const std::uint64_t version = cursor.number(1), stored = cursor.number(1);
  if (version < 1 || version > 3) return hdf5_unknown(fmt::format("an attribute of version {}", version));
  const std::uint64_t flags = version == 1 ? 0 : stored;
  const std::uint64_t name_bytes = cursor.number(2), type_bytes = cursor.number(2), space_bytes = cursor.number(2);
  if (version == 3) cursor.skip(1);  // the character set of its name
  const auto padded = [&](std::uint64_t bytes) { return version == 1 ? round_up(bytes, 8) : bytes; };
  const auto name = cursor.bytes(padded(name_bytes)), type = cursor.bytes(padded(type_bytes)),
             space = cursor.bytes(padded(space_bytes));
  if (!cursor.ok()) return hdf5_damaged("an attribute is truncated");
  hdf5_attribute out;
  const auto end = std::find(name.begin(), name.end(), std::byte{0});
  out.name.assign(reinterpret_cast<const char*>(name.data()), static_cast<std::size_t>(end - name.begin()));
  auto parsed = parse_parts(file, flags, type, space, out);
  if (!parsed.ok()) {
    if (parsed.error().code() != errc::unsupported || file.waiting())
      return std::move(parsed).error().note(fmt::format("attribute '{}'", out.name));
    hdf5_attribute named;
    named.name = std::move(out.name);
    named.unreadable = parsed.error().message();
    return named;
  }
  std::uint64_t bytes = out.space.null ? 0 : out.type.bytes;
  for (const std::uint64_t extent : out.space.shape.extents) bytes = saturating_mul(bytes, extent);
  const auto value = cursor.bytes(bytes);
  if (!cursor.ok())
    return hdf5_damaged(fmt::format("attribute '{}' needs {} bytes, the file has fewer", out.name, bytes));
  out.bytes.assign(value.begin(), value.end());
  return out;
}

struct dense_record {
  std::vector<std::byte> id;
  bool shared = false;
  std::uint64_t order = 0;
};

result<> list_dense(hdf5_file& file, const dense_attributes& from, std::vector<hdf5_attribute>& to) {
  constexpr std::uint64_t kByName = 8, kIdBytes = 8, kSharedFlag = 2, kBytes = kIdBytes + 1 + 4 + 4;
  std::vector<dense_record> records;
  auto heap = hdf5_fractal_heap::read(file, from.heap);
  if (!heap.ok() && !file.waiting()) return std::move(heap).error();
  PENSTOCK_TRY(visit_hdf5_records(
      file, from.by_name,
      [](const hdf5_record_form& form) -> result<> {
        if (form.type == kByName && form.bytes == kBytes) return {};
        return hdf5_damaged(fmt::format("attributes in a B-tree of kind {}", form.type));
      },
      [&](std::span<const std::byte> record) -> result<> {
        hdf5_cursor cursor(record);
        const auto id = cursor.bytes(kIdBytes);
        const bool is_shared = (cursor.number(1) & kSharedFlag) != 0;
        records.push_back({{id.begin(), id.end()}, is_shared, cursor.number(4)});
        return {};
      }));
  if (!heap.ok()) return std::move(heap).error();
  for (const dense_record& each : records) {
    std::vector<std::byte> reference{std::byte{3}, std::byte{1}};  // a shared message that is in the file's heap
    reference.insert(reference.end(), each.id.begin(), each.id.end());
    auto body = each.shared ? read_hdf5_shared(file, hdf5_message::attribute, reference) : heap->object(each.id);
    if (body.ok()) {
      auto made = parse_attribute(file, *body);
      if (made.ok()) {
        made->order = each.order;
        made->ordered = from.ordered;
        to.push_back(std::move(*made));
      } else if (!file.waiting()) {
        return std::move(made).error();
      }
    } else if (!file.waiting()) {
      return std::move(body).error();
    }
  }
  return {};
}

}  // namespace

result<std::vector<hdf5_attribute>> list_hdf5_attributes(hdf5_file& file, const std::vector<hdf5_message>& header) {
  std::vector<hdf5_attribute> out;
  for (const hdf5_message& message : header) {
    if (message.shared) continue;
    if (message.type == hdf5_message::attribute) {
      auto made = parse_attribute(file, message.body);
      if (made.ok()) {
        made->order = message.order;
        made->ordered = message.ordered;
        out.push_back(std::move(*made));
      } else if (!file.waiting()) {
        return std::move(made).error();
      }
    } else if (message.type == hdf5_message::attribute_info) {
      PENSTOCK_ASSIGN(const dense_attributes dense, parse_attribute_info(file, message));
      if (!file.undefined(dense.heap)) PENSTOCK_TRY(list_dense(file, dense, out));
    }
  }
  const bool ordered = std::all_of(out.begin(), out.end(), [](const hdf5_attribute& each) { return each.ordered; });
  std::stable_sort(out.begin(), out.end(), [&](const hdf5_attribute& a, const hdf5_attribute& b) {
    return ordered ? a.order < b.order : a.name < b.name;
  });
  return out;
}

}  // namespace penstock::inline v0
