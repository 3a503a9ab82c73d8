#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include <penstock/dtype.h>
#include "codec/filters/half.h"

namespace penstock::inline v0 {

/// The element types of codecs with arithmetic, in NumPy's order of promotion.
enum class number : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
};
inline constexpr std::size_t kNumbers = 12;

/// Returns nullopt for other types.
std::optional<number> number_of(const dtype& type) noexcept;
/// The name of the type: "int8".
std::string_view to_string(number which) noexcept;

constexpr std::uint32_t item_bytes(number which) noexcept {
  constexpr std::uint8_t kBytes[kNumbers] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8};
  return kBytes[static_cast<std::size_t>(which)];
}
constexpr bool is_float(number which) noexcept { return which >= number::float16; }
constexpr bool is_integer(number which) noexcept { return which != number::boolean && which < number::float16; }

/// The type that NumPy computes with for two operand types.
number promote(number a, number b) noexcept;

/// Numbers in memory.
struct stored_number {
  number kind = number::uint8;
  bool swapped = false;  ///< in the byte order that this machine does not have

  friend bool operator==(const stored_number&, const stored_number&) = default;
};

template <class T>
struct number_tag {
  using type = T;
};

/// Calls `visit` with the number_tag of the C++ type. A boolean is a byte of its own type, so that casts to it differ.
enum class truth : std::uint8_t {};
template <class Visit>
decltype(auto) visit_number(number which, Visit&& visit) {
  switch (which) {
    case number::boolean:
      return visit(number_tag<truth>{});
    case number::int8:
      return visit(number_tag<std::int8_t>{});
    case number::int16:
      return visit(number_tag<std::int16_t>{});
    case number::int32:
      return visit(number_tag<std::int32_t>{});
    case number::int64:
      return visit(number_tag<std::int64_t>{});
    case number::uint8:
      return visit(number_tag<std::uint8_t>{});
    case number::uint16:
      return visit(number_tag<std::uint16_t>{});
    case number::uint32:
      return visit(number_tag<std::uint32_t>{});
    case number::uint64:
      return visit(number_tag<std::uint64_t>{});
    case number::float16:
      return visit(number_tag<half>{});
    case number::float32:
      return visit(number_tag<float>{});
    case number::float64:
      break;
  }
  return visit(number_tag<double>{});
}

/// Items at any address; compilers use plain (vector) loads and stores for these.
template <class T>
T load_item(const std::byte* items, std::size_t i) noexcept {
  T value;
  __builtin_memcpy(&value, items + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store_item(std::byte* items, std::size_t i, T value) noexcept {
  __builtin_memcpy(items + i * sizeof(T), &value, sizeof(T));
}

/// The type of T's arithmetic: sums and products of half are those of float, each rounded by `narrow`.
template <class T>
using wide = std::conditional_t<std::is_same_v<T, half>, float, T>;
template <class T>
wide<T> narrow(wide<T> value) noexcept {
  if constexpr (std::is_same_v<T, half>) {
    return static_cast<float>(half(static_cast<double>(value)));
  } else {
    return value;
  }
}
template <class T>
T put(wide<T> value) noexcept {
  if constexpr (std::is_same_v<T, half>) {
    return half(static_cast<double>(value));
  } else {
    return value;
  }
}

/// Casts `count` native items as NumPy's astype does, at any address; the ranges must not overlap unless the kinds are
/// the same.
using cast_function = void (*)(const std::byte* from, std::byte* to, std::size_t count) noexcept;
cast_function cast_of(number from, number to) noexcept;

/// Number of items in a block that fits into the first-level cache.
inline constexpr std::size_t kBlockItems = 512;

/// Converts items of one kind to `entered`, changes them to items of `made`, and converts those to the last kind, block
/// by block.
///
/// \param change  Called with (const std::byte* from, std::byte* to, std::size_t count) for native items, in order; the
///                two do not overlap.
template <class Change>
void transform_numbers(std::span<const std::byte> in, stored_number from, number entered, number made, stored_number to,
                       std::byte* out, Change&& change);

/// Copies items, and changes their byte order if `swap` is set.
void copy_items(const std::byte* from, std::byte* to, std::size_t count, std::uint32_t bytes, bool swap) noexcept;

template <class Change>
void transform_numbers(std::span<const std::byte> in, stored_number from, number entered, number made, stored_number to,
                       std::byte* out, Change&& change) {
  const std::uint32_t from_bytes = item_bytes(from.kind), to_bytes = item_bytes(to.kind);
  const cast_function enter = from.kind == entered ? nullptr : cast_of(from.kind, entered);
  const cast_function leave = to.kind == made ? nullptr : cast_of(made, to.kind);
  alignas(64) std::byte native[kBlockItems * 8], before[kBlockItems * 8], after[kBlockItems * 8];
  const std::size_t items = in.size() / from_bytes;
  for (std::size_t first = 0; first < items; first += kBlockItems) {
    const std::size_t count = items - first < kBlockItems ? items - first : kBlockItems;
    const std::byte* source = in.data() + first * from_bytes;
    std::byte* const target = out + first * to_bytes;
    if (from.swapped) {
      copy_items(source, native, count, from_bytes, true);
      source = native;
    }
    if (enter != nullptr) {
      enter(source, before, count);
      source = before;
    }
    if (leave == nullptr) {
      change(source, target, count);
    } else {
      change(source, after, count);
      leave(after, target, count);
    }
    if (to.swapped) copy_items(target, target, count, to_bytes, true);
  }
}

}  // namespace penstock::inline v0
