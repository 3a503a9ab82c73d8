#include <penstock/dtype.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMostItemBytes = std::uint64_t{1} << 28;  // bits fit 32 bits
constexpr int kMostNesting = 32;

constexpr std::string_view kUnits[] = {"generic", "Y",  "M",  "W",  "D",  "h",  "m",
                                       "s",       "ms", "us", "ns", "ps", "fs", "as"};

int nesting(const dtype& type) {
  int deepest = 0;
  for (const dtype_field& each : type.fields()) deepest = std::max(deepest, nesting(each.type) + 1);
  return deepest;
}

error wrong_field(const dtype_field& field, std::string_view why) {
  return {errc::invalid_argument, fmt::format("a structure's field '{}' {}", field.name, why)};
}

}  // namespace

std::string_view to_string(time_unit unit) noexcept { return kUnits[static_cast<std::size_t>(unit)]; }

result<time_unit> time_unit_from(std::string_view name) {
  const auto* const at = std::find(std::begin(kUnits), std::end(kUnits), name);
  if (at != std::end(kUnits)) return static_cast<time_unit>(at - std::begin(kUnits));
  if (name == "μs" || name == "µs") return time_unit::microsecond;
  return error(errc::unsupported, fmt::format("there is no unit of time named '{:.80}'", name));
}

dtype dtype::datetime(time_unit unit, std::uint32_t scale) noexcept {
  dtype made(dtype_kind::datetime, 64);
  made.unit_ = unit;
  made.scale_ = scale;
  return made;
}

dtype dtype::timedelta(time_unit unit, std::uint32_t scale) noexcept {
  dtype made = datetime(unit, scale);
  made.kind_ = dtype_kind::timedelta;
  return made;
}

result<dtype> dtype::structured(std::vector<dtype_field> fields, std::uint32_t item_bytes) {
  if (fields.empty()) return error(errc::invalid_argument, "a structure has no fields");
  const bool packed = item_bytes == 0;
  std::uint64_t end = 0;
  for (dtype_field& each : fields) {
    if (each.name.empty()) return wrong_field(each, "has no name");
    if (each.type.variable_length())
      return error(errc::unsupported, fmt::format("a structure's field '{}' is of variable length", each.name));
    if (nesting(each.type) + 1 > kMostNesting)
      return error(errc::unsupported, fmt::format("structures are nested deeper than {}", kMostNesting));
    const std::uint64_t bytes = each.bytes();
    if (packed) {
      if (end > kMostItemBytes) break;
      each.offset = static_cast<std::uint32_t>(end);
      end = bytes > kMostItemBytes ? kMostItemBytes + 1 : end + bytes;
    } else {
      if (bytes > item_bytes || each.offset > item_bytes - bytes) return wrong_field(each, "exceeds the item");
      end = item_bytes;
    }
  }
  if (end > kMostItemBytes) return error(errc::unsupported, "a structure is longer than 2^28 bytes");
  std::stable_sort(fields.begin(), fields.end(),
                   [](const dtype_field& a, const dtype_field& b) { return a.offset < b.offset; });
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i + 1 < fields.size() && fields[i + 1].offset - fields[i].offset < fields[i].bytes())
      return wrong_field(fields[i + 1], "overlaps another");
  }
  std::vector<std::string_view> names;
  for (const dtype_field& each : fields) names.push_back(each.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return error(errc::invalid_argument, fmt::format("a structure has two fields named '{}'", *twice));

  dtype made(dtype_kind::structured, static_cast<std::uint32_t>(end * 8));
  made.fields_ = std::make_shared<const field_list>(std::move(fields));
  return made;
}

result<dtype> dtype::variable_list(dtype item, const extents& shape) {
  if (item.kind() == dtype_kind::object || item.bits() % 8 != 0)
    return error(errc::unsupported, fmt::format("lists of {} are not supported", item.name()));
  int depth = 1;
  for (const dtype* each = item.item(); each != nullptr; each = each->item()) ++depth;
  if (depth > kMostNesting)
    return error(errc::unsupported, fmt::format("lists are nested deeper than {}", kMostNesting));
  if (!shape.empty() && item.variable_length())
    return error(errc::unsupported, fmt::format("lists of arrays of {} are not supported", item.name()));
  dtype_field one{{}, std::move(item), 0, shape};
  if (one.bytes() == 0) return error(errc::invalid_argument, "the items of a list have no bytes");
  if (one.bytes() > kMostItemBytes) return error(errc::unsupported, "an item of a list is longer than 2^28 bytes");
  dtype made(dtype_kind::variable_list, 0);
  made.fields_ = std::make_shared<const field_list>(field_list{std::move(one)});
  return made;
}

const dtype* dtype::item() const noexcept {
  return kind_ == dtype_kind::variable_list ? &fields_->front().type : nullptr;
}

std::span<const std::uint64_t> dtype::item_shape() const noexcept {
  if (kind_ != dtype_kind::variable_list) return {};
  const extents& shape = fields_->front().shape;
  return {shape.data(), shape.size()};
}

std::uint64_t dtype::list_item_bytes() const noexcept {
  return kind_ == dtype_kind::variable_list && !item()->variable_length() ? fields_->front().bytes() : 0;
}

std::span<const dtype_field> dtype::fields() const noexcept {
  if (kind_ != dtype_kind::structured || fields_ == nullptr) return {};
  return *fields_;
}

const dtype_field* dtype::field(std::string_view name) const noexcept {
  for (const dtype_field& each : fields()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::uint32_t dtype::swap_bytes() const noexcept {
  switch (kind_) {
    case dtype_kind::complex:
      return item_bytes() / 2;
    case dtype_kind::fixed_utf32:
      return 4;
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::extended_float:
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      return item_bytes();
    default:
      return 1;
  }
}

bool dtype::has_byte_order() const noexcept {
  if (item_bytes() > 0 && swap_bytes() > 1) return true;
  const auto all = fields();
  return std::any_of(all.begin(), all.end(), [](const dtype_field& each) { return each.type.has_byte_order(); });
}

bool operator==(const dtype& a, const dtype& b) noexcept {
  if (a.kind_ != b.kind_ || a.bits_ != b.bits_ || a.format_ != b.format_ || a.unit_ != b.unit_ || a.scale_ != b.scale_)
    return false;
  return a.fields_ == b.fields_ || (a.fields_ != nullptr && b.fields_ != nullptr && *a.fields_ == *b.fields_);
}

std::uint64_t dtype_field::bytes() const noexcept {
  std::uint64_t total = type.item_bytes();
  bool fits = true;
  for (const std::uint64_t length : shape) fits = fits && checked_mul(total, length, total);
  return fits ? total : ~std::uint64_t{0};
}

}  // namespace penstock::inline v0
