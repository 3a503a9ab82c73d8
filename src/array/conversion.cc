#include "array/conversion.h"
#include "array/unpack_items.h"

#include <array>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace penstock::inline v0 {
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

// NumPy's order of kinds; values are cast upwards, never down.
constexpr int rank_of(number_kind kind) {
  if (kind == number_kind::none || kind == number_kind::boolean) return 0;
  if (kind >= number_kind::uint8 && kind <= number_kind::uint64) return 1;
  if (kind >= number_kind::int8 && kind <= number_kind::int64) return 2;
  return is_complex(kind) ? 4 : 3;
}

// ---- many elements: a loop for each pair of kinds, which the compiler can vectorise ----

// The C++ type whose casts are those of convert_number; void: a 16-bit number that C++ does not have.
template <number_kind Kind>
auto native_of() {
  if constexpr (Kind == number_kind::int8) return std::int8_t();
  if constexpr (Kind == number_kind::int16) return std::int16_t();
  if constexpr (Kind == number_kind::int32) return std::int32_t();
  if constexpr (Kind == number_kind::int64) return std::int64_t();
  if constexpr (Kind == number_kind::boolean || Kind == number_kind::uint8) return std::uint8_t();
  if constexpr (Kind == number_kind::uint16) return std::uint16_t();
  if constexpr (Kind == number_kind::uint32) return std::uint32_t();
  if constexpr (Kind == number_kind::uint64) return std::uint64_t();
  if constexpr (Kind == number_kind::float32 || Kind == number_kind::complex64) return float();
  if constexpr (Kind == number_kind::float64 || Kind == number_kind::complex128) return double();
}
template <number_kind Kind>
using native = decltype(native_of<Kind>());

template <number_kind From, number_kind To>
void convert_line(const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  constexpr std::size_t kFromBytes = part_bytes(From), kToBytes = part_bytes(To);
  constexpr std::size_t kStep = is_complex(To) ? 2 * kToBytes : kToBytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    if constexpr (std::is_void_v<native<From>> || std::is_void_v<native<To>>) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, from + i * kFromBytes, kFromBytes);
      bits = convert_number(From, To, bits);
      std::memcpy(to + i * kStep, &bits, kToBytes);
    } else {
      native<From> item;
      std::memcpy(&item, from + i * kFromBytes, kFromBytes);
      if constexpr (From == number_kind::boolean) item = item != 0 ? 1 : 0;
      const auto made = static_cast<native<To>>(item);
      std::memcpy(to + i * kStep, &made, kToBytes);
    }
    if constexpr (is_complex(To)) std::memset(to + i * kStep + kToBytes, 0, kToBytes);
  }
}

using line = void (*)(const std::byte*, std::byte*, std::uint64_t) noexcept;
constexpr std::size_t kSources = static_cast<std::size_t>(number_kind::float64) + 1;
constexpr std::size_t kTargets = static_cast<std::size_t>(number_kind::complex128) + 1;

template <std::size_t Pair>
constexpr line line_of() {
  constexpr auto kFrom = static_cast<number_kind>(Pair / kTargets), kTo = static_cast<number_kind>(Pair % kTargets);
  if constexpr (kFrom == number_kind::none || rank_of(kTo) == 0 || rank_of(kFrom) > rank_of(kTo)) {
    return nullptr;
  } else {
    return convert_line<kFrom, kTo>;
  }
}

template <std::size_t... Pair>
constexpr std::array<line, sizeof...(Pair)> lines_of(std::index_sequence<Pair...>) {
  return {line_of<Pair>()...};
}

// By kinds: source, then target; null if the conversion does not exist.
constexpr auto kLines = lines_of(std::make_index_sequence<kSources * kTargets>());

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
    return error(errc::unsupported, fmt::format("{} is not converted to {}", from.name(), to.name()));
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

result<conversion> unpacking_of(const dtype& from, const dtype& to) {
  const bool is_float = to.kind() == dtype_kind::floating || to.kind() == dtype_kind::complex;
  if (!is_float) return error(errc::invalid_argument, fmt::format("{} is not unpacked to {}", from.name(), to.name()));
  if (!(from == to)) return conversion_of(from, to);
  const auto kind = kind_of(from);
  if (!kind) return error(errc::unsupported, fmt::format("{} is not unpacked", from.name()));
  conversion out;
  out.from_bytes = out.to_bytes = from.item_bytes();
  out.parts = is_complex(*kind) ? 2 : 1;
  out.from = out.to = is_complex(*kind) ? part_of(*kind) : *kind;
  return out;
}

void convert_items(const conversion& how, const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  if (how.unpack != nullptr) return unpack_items(how, *how.unpack, from, to, count);
  const std::size_t pair = static_cast<std::size_t>(how.from) * kTargets + static_cast<std::size_t>(how.to);
  kLines[pair](from, to, count * how.parts);
}

}  // namespace penstock::inline v0
