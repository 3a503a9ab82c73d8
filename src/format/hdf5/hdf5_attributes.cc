#include "format/hdf5/hdf5_attributes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::inline v0 {
namespace {

// `python/penstock/hdf5/shards.py` has the same list.
constexpr std::array<std::string_view, 7> kNames = {"scale_factor", "add_offset", "_FillValue", "missing_value",
                                                    "_Unsigned",    "units",      "calendar"};
constexpr std::uint64_t kFirstOfParts = 6;  // of the classes of types: before it all values stand in the attribute

bool lie_in_heap(const hdf5_file& file, const hdf5_message& info) noexcept {
  hdf5_cursor cursor(info.body);
  cursor.skip(1);
  if ((cursor.number(1) & 1) != 0) cursor.skip(2);
  const std::uint64_t heap = cursor.number(file.offset_bytes());
  return !cursor.ok() || !file.undefined(heap);
}

struct attribute {
  std::string_view name;
  bool plain = false;  // its value is in the message
};

result<attribute> parse_attribute(const hdf5_message& message) {
  hdf5_cursor cursor(message.body);
  const std::uint64_t version = cursor.number(1);
  if (version < 1 || version > 3) return hdf5_unknown("an attribute of an unknown version");
  const std::uint64_t flags = cursor.number(1);  // nothing in version 1
  const std::uint64_t name_bytes = cursor.number(2);
  cursor.skip(4);
  if (version == 3) cursor.skip(1);
  const auto name = cursor.bytes(name_bytes);
  if (version == 1) cursor.skip((8 - name_bytes % 8) % 8);
  const std::uint64_t type_class = cursor.number(1) & 0x0F;
  if (!cursor.ok()) return hdf5_damaged("an attribute is cut off");
  const auto end = std::find(name.begin(), name.end(), std::byte{0});
  const bool is_shared = version > 1 && (flags & 3) != 0;
  return attribute{{reinterpret_cast<const char*>(name.data()), static_cast<std::size_t>(end - name.begin())},
                   !is_shared && type_class < kFirstOfParts};
}

}  // namespace

result<std::vector<std::byte>> hdf5_meaning_of_values(const hdf5_file& file, const std::vector<hdf5_message>& header) {
  std::array<std::span<const std::byte>, kNames.size()> found;
  for (const hdf5_message& message : header) {
    if (message.type == hdf5_message::attribute_info && lie_in_heap(file, message))
      return hdf5_unknown("attributes that lie in a heap");
    if (message.type != hdf5_message::attribute) continue;
    if (message.shared) return hdf5_unknown("an attribute that is shared");
    PENSTOCK_ASSIGN(const attribute each, parse_attribute(message));
    const auto* const name = std::find(kNames.begin(), kNames.end(), each.name);
    if (name == kNames.end()) continue;
    if (!each.plain) return hdf5_unknown("an attribute whose value lies elsewhere");
    found[static_cast<std::size_t>(name - kNames.begin())] = message.body;
  }
  std::vector<std::byte> out;
  for (const auto& body : found) {
    for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(body.size() >> shift));
    out.insert(out.end(), body.begin(), body.end());
  }
  return out;
}

}  // namespace penstock::inline v0
