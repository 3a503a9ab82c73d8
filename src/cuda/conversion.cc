#include "cuda/conversion.h"

#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace penstock::inline v0::cuda {
namespace {

std::optional<number_kind> kind_of(const dtype& type) {
  const auto of_width = [&](number_kind least, std::uint32_t first) -> std::optional<number_kind> {
    for (std::uint32_t step = 0, bits = first; bits <= 64; ++step, bits *= 2)
      if (bits == type.bits()) return static_cast<number_kind>(static_cast<std::uint32_t>(least) + step);
    return std::nullopt;
  };
  switch (type.kind()) {
    case dtype_kind::boolean:
      return number_kind::boolean;
    case dtype_kind::signed_integer:
      return of_width(number_kind::int8, 8);
    case dtype_kind::unsigned_integer:
      return of_width(number_kind::uint8, 8);
    case dtype_kind::floating:
      if (type.bits() == 16) return number_kind::float16;
      if (type.bits() == 32) return number_kind::float32;
      return type.bits() == 64 ? std::optional(number_kind::float64) : std::nullopt;
    case dtype_kind::brain_float:
      return number_kind::bfloat16;
    case dtype_kind::complex:
      if (type.format() != float_format::ieee) return std::nullopt;
      if (type.bits() == 64) return number_kind::complex64;
      return type.bits() == 128 ? std::optional(number_kind::complex128) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// NumPy's order of kinds; values go up it, never down.
int rank_of(number_kind kind) {
  if (kind == number_kind::boolean) return 0;
  if (kind >= number_kind::uint8 && kind <= number_kind::uint64) return 1;
  if (kind >= number_kind::int8 && kind <= number_kind::int64) return 2;
  return is_complex(kind) ? 4 : 3;
}

number_kind part_of(number_kind complex) {
  return complex == number_kind::complex64 ? number_kind::float32 : number_kind::float64;
}

}  // namespace

result<conversion> conversion_of(const dtype& from, const dtype& to) {
  conversion out;
  out.from_bytes = from.item_bytes();
  out.to_bytes = to.item_bytes();
  if (from == to) return out;
  const auto source = kind_of(from), target = kind_of(to);
  if (!source || !target)
    return error(errc::unsupported, fmt::format("{} is not converted to {} on a device", from.name(), to.name()));
  if (*target == number_kind::boolean || rank_of(*source) > rank_of(*target))
    return error(errc::invalid_argument, fmt::format("{} cannot become {}", from.name(), to.name()));
  out.from = *source;
  out.to = *target;
  if (is_complex(*source)) {
    out.from = part_of(*source);
    out.to = part_of(*target);
    out.parts = 2;
  }
  return out;
}

void convert_item(const conversion& how, const std::byte* from, std::byte* to) noexcept {
  const std::uint32_t from_bytes = part_bytes(how.from), to_bytes = part_bytes(how.to);
  for (std::uint32_t i = 0; i < how.parts; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, from + std::size_t{i} * from_bytes, from_bytes);
    value = convert_number(how.from, how.to, value);
    std::memcpy(to + std::size_t{i} * to_bytes, &value, to_bytes);
  }
  if (is_complex(how.to)) std::memset(to + to_bytes, 0, to_bytes);
}

}  // namespace penstock::inline v0::cuda
