#include "array/packed_fields.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace penstock::inline v0 {
namespace {

std::uint64_t count_of(const dtype_field& field) noexcept {
  std::uint64_t out = 1;
  for (const std::uint64_t length : field.shape) out *= length;
  return out;
}

}  // namespace

bool has_gaps(const dtype& type) noexcept {
  if (type.kind() != dtype_kind::structured) return false;
  std::uint64_t at = 0;
  for (const dtype_field& field : type.fields()) {
    if (field.offset != at || has_gaps(field.type)) return true;
    at += field.bytes();
  }
  return at != type.item_bytes();
}

result<dtype> without_gaps(const dtype& type) {
  if (!has_gaps(type)) return type;
  std::vector<dtype_field> fields;
  for (const dtype_field& each : type.fields()) {
    PENSTOCK_ASSIGN(dtype packed, without_gaps(each.type));
    fields.push_back({each.name, std::move(packed), 0, each.shape});
  }
  return dtype::structured(std::move(fields));
}

void pack_items(const dtype& type, const std::byte* from, std::byte* to, std::uint64_t count) {
  if (!has_gaps(type)) {
    if (count != 0) std::memcpy(to, from, static_cast<std::size_t>(count * type.item_bytes()));
    return;
  }
  struct run {
    const dtype_field* field;
    std::uint64_t count, packed;
    bool is_plain;
  };
  std::vector<run> runs;
  std::uint64_t step = 0;
  for (const dtype_field& field : type.fields()) {
    const dtype packed = without_gaps(field.type).value();
    const std::uint64_t bytes = count_of(field) * packed.item_bytes();
    runs.push_back({&field, count_of(field), bytes, !has_gaps(field.type)});
    step += bytes;
  }
  for (std::uint64_t i = 0; i < count; ++i, from += type.item_bytes(), to += step) {
    std::byte* at = to;
    for (const run& each : runs) {
      const std::byte* const source = from + each.field->offset;
      if (each.is_plain) {
        std::memcpy(at, source, static_cast<std::size_t>(each.packed));
      } else {
        pack_items(each.field->type, source, at, each.count);
      }
      at += each.packed;
    }
  }
}

}  // namespace penstock::inline v0
