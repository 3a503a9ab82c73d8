#include "array/equals_fill.h"

#include <cstdint>
#include <cstring>

#include "array/all_equal.h"

namespace penstock::inline v0 {
namespace {

// When the numbers of an element are equal although their bits differ. Without its sign, a NaN's bits are greater than
// `infinity`. Bits outside `width` have no meaning: int4 -1 is 0x0F or 0xFF.
struct number_rule {
  std::uint32_t bytes = 0;  // bytes of one number; 0: equal numbers have equal bits
  std::uint64_t infinity = 0;
  std::uint64_t width = ~std::uint64_t{0};
};

number_rule rule_of(float_format format, std::uint32_t bits) noexcept {
  switch (format) {
    case float_format::ieee:
      if (bits == 16) return {2, 0x7C00U};
      if (bits == 32) return {4, 0x7F80'0000U};
      if (bits == 64) return {8, 0x7FF0'0000'0000'0000U};
      return {};
    case float_format::bfloat16:
      return {2, 0x7F80U};
    case float_format::float8_e3m4:
      return {1, 0x70U};
    case float_format::float8_e4m3:
      return {1, 0x78U};
    case float_format::float8_e4m3fn:
      return {1, 0x7EU};
    case float_format::float8_e5m2:
      return {1, 0x7CU};
    case float_format::float8_e4m3b11fnuz:
    case float_format::float8_e4m3fnuz:
    case float_format::float8_e5m2fnuz:
    case float_format::float8_e8m0fnu:
    case float_format::float6_e2m3fn:
    case float_format::float6_e3m2fn:
    case float_format::float4_e2m1fn:
      return {};
  }
  return {};
}

number_rule rule_of(const dtype& type) noexcept {
  if (type.item_bytes() == 1 && type.bits() < 8) return {1, 0xFFU, (std::uint64_t{1} << type.bits()) - 1};
  switch (type.kind()) {
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::small_float:
      return rule_of(type.kind() == dtype_kind::brain_float ? float_format::bfloat16 : type.format(), type.bits());
    case dtype_kind::complex:
      return rule_of(type.format(), type.bits() / 2);
    default:
      return {};
  }
}

template <class Bits>
class numbers {
 public:
  numbers(const std::byte* fill, std::uint32_t item_bytes, const number_rule& rule) noexcept
      : fill_(fill),
        count_(item_bytes / sizeof(Bits)),
        infinity_(static_cast<Bits>(rule.infinity)),
        width_(static_cast<Bits>(rule.width)) {}

  /// Whether the fill value has only one form.
  bool is_unique() const noexcept {
    if (width_ != static_cast<Bits>(~Bits{0})) return false;
    for (std::size_t i = 0; i < count_; ++i)
      if (is_nan(load(fill_, i))) return false;
    return true;
  }
  bool same(const std::byte* item) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const Bits wanted = load(fill_, i), is = load(item, i);
      if (((is ^ wanted) & width_) != 0 && !(is_nan(wanted) && is_nan(is))) return false;
    }
    return true;
  }

 private:
  static Bits load(const std::byte* from, std::size_t which) noexcept {
    Bits out;
    std::memcpy(&out, from + which * sizeof(Bits), sizeof(Bits));
    return out;
  }
  bool is_nan(Bits bits) const noexcept {
    constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    return static_cast<Bits>(bits & ~kSign) > infinity_;
  }

  const std::byte* fill_;
  std::size_t count_;
  Bits infinity_, width_;
};

template <class Bits>
bool all_same(const std::byte* data, const strides& steps, const extents& counts, const numbers<Bits>& as) noexcept {
  if (as.is_unique()) return false;  // and the bits differ
  const std::size_t rank = counts.size();
  dim_vector<std::uint64_t> at(rank, 0);
  for (;;) {
    if (!as.same(data)) return false;
    std::size_t d = rank;
    for (; d > 0; --d) {
      data += steps[d - 1];
      if (++at[d - 1] < counts[d - 1]) break;
      data -= steps[d - 1] * static_cast<std::int64_t>(counts[d - 1]);
      at[d - 1] = 0;
    }
    if (d == 0) return true;
  }
}

}  // namespace

bool equals_fill(const std::byte* data, const strides& steps, const extents& counts, const std::byte* fill,
                 const dtype& type) noexcept {
  const std::uint32_t item_bytes = type.item_bytes();
  if (all_equal(data, steps, counts, fill, item_bytes)) return true;
  const number_rule rule = rule_of(type);
  switch (rule.bytes) {
    case 1:
      return all_same(data, steps, counts, numbers<std::uint8_t>(fill, item_bytes, rule));
    case 2:
      return all_same(data, steps, counts, numbers<std::uint16_t>(fill, item_bytes, rule));
    case 4:
      return all_same(data, steps, counts, numbers<std::uint32_t>(fill, item_bytes, rule));
    case 8:
      return all_same(data, steps, counts, numbers<std::uint64_t>(fill, item_bytes, rule));
    default:
      return false;
  }
}

}  // namespace penstock::inline v0
