#include "codec/filters/number.h"

#include <array>
#include <cstring>
#include <limits>

#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

// C leaves the conversion of a float beyond an integer's range undefined; this is the result of x86-64, and of NumPy
// there.
std::int32_t to_int32(double value) noexcept {
  const bool fits = value > -2147483649.0 && value < 2147483648.0;
  return fits ? static_cast<std::int32_t>(value) : std::numeric_limits<std::int32_t>::min();
}
std::int64_t to_int64(double value) noexcept {
  const bool fits = value >= -0x1p63 && value < 0x1p63;
  return fits ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::min();
}
std::uint64_t to_uint64(double value) noexcept {
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  return value < 0x1p63 ? static_cast<std::uint64_t>(to_int64(value))
                        : static_cast<std::uint64_t>(to_int64(value - 0x1p63)) ^ kTop;
}

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, half>;

template <class To, class From>
To cast(From value) noexcept {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, half>) {
    return cast<To>(static_cast<double>(value));
  } else if constexpr (std::is_same_v<From, truth>) {
    return cast<To>(static_cast<std::uint8_t>(static_cast<std::uint8_t>(value) != 0));
  } else if constexpr (std::is_same_v<To, truth>) {
    return static_cast<truth>(value != From{0});
  } else if constexpr (std::is_same_v<To, half>) {
    return half(static_cast<double>(static_cast<std::conditional_t<std::is_integral_v<From>, float, From>>(value)));
  } else if constexpr (std::is_integral_v<To> && kIsFloat<From>) {
    if constexpr (std::is_same_v<To, std::uint64_t>) {
      return to_uint64(static_cast<double>(value));
    } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, std::uint32_t>) {
      return static_cast<To>(to_int64(static_cast<double>(value)));
    } else {
      return static_cast<To>(to_int32(static_cast<double>(value)));
    }
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void cast_items(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) store_item<To>(to, i, cast<To>(load_item<From>(from, i)));
}

using cast_row = std::array<cast_function, kNumbers>;

template <class From>
constexpr cast_row casts_from() noexcept {
  return {cast_items<From, truth>,         cast_items<From, std::int8_t>,   cast_items<From, std::int16_t>,
          cast_items<From, std::int32_t>,  cast_items<From, std::int64_t>,  cast_items<From, std::uint8_t>,
          cast_items<From, std::uint16_t>, cast_items<From, std::uint32_t>, cast_items<From, std::uint64_t>,
          cast_items<From, half>,          cast_items<From, float>,         cast_items<From, double>};
}

constexpr std::array<cast_row, kNumbers> kCasts = {
    casts_from<truth>(),         casts_from<std::int8_t>(),  casts_from<std::int16_t>(),  casts_from<std::int32_t>(),
    casts_from<std::int64_t>(),  casts_from<std::uint8_t>(), casts_from<std::uint16_t>(), casts_from<std::uint32_t>(),
    casts_from<std::uint64_t>(), casts_from<half>(),         casts_from<float>(),         casts_from<double>()};

bool is_signed(number which) noexcept { return which >= number::int8 && which <= number::int64; }

}  // namespace

std::optional<number> number_of(const dtype& type) noexcept {
  const auto of_width = [&](number least, std::uint32_t first) -> std::optional<number> {
    for (std::uint32_t step = 0, bits = first; bits <= 64; ++step, bits *= 2) {
      if (bits == type.bits()) return static_cast<number>(static_cast<std::uint32_t>(least) + step);
    }
    return std::nullopt;
  };
  switch (type.kind()) {
    case dtype_kind::boolean:
      return number::boolean;
    case dtype_kind::signed_integer:
      return of_width(number::int8, 8);
    case dtype_kind::unsigned_integer:
      return of_width(number::uint8, 8);
    case dtype_kind::floating:
      return of_width(number::float16, 16);
    default:
      return std::nullopt;
  }
}

std::string_view to_string(number which) noexcept {
  constexpr std::string_view kNames[kNumbers] = {"bool",   "int8",   "int16",  "int32",   "int64",   "uint8",
                                                 "uint16", "uint32", "uint64", "float16", "float32", "float64"};
  return kNames[static_cast<std::size_t>(which)];
}

number promote(number a, number b) noexcept {
  if (a == b || b == number::boolean) return a;
  if (a == number::boolean) return b;
  if (is_float(a) && is_float(b)) return a > b ? a : b;
  if (is_float(a) || is_float(b)) {
    // The float that holds the integer.
    const number floating = is_float(a) ? a : b, integer = is_float(a) ? b : a;
    const std::uint32_t bytes = item_bytes(integer);
    const number needed = bytes == 1 ? number::float16 : bytes == 2 ? number::float32 : number::float64;
    return floating > needed ? floating : needed;
  }
  if (is_signed(a) == is_signed(b)) return item_bytes(a) > item_bytes(b) ? a : b;
  const number plus = is_signed(a) ? b : a, both = is_signed(a) ? a : b;
  if (item_bytes(both) > item_bytes(plus)) return both;
  switch (item_bytes(plus)) {
    case 1:
      return number::int16;
    case 2:
      return number::int32;
    case 4:
      return number::int64;
    default:
      return number::float64;
  }
}

cast_function cast_of(number from, number to) noexcept {
  return kCasts[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

void copy_items(const std::byte* from, std::byte* to, std::size_t count, std::uint32_t bytes, bool swap) noexcept {
  if (swap && bytes > 1) {
    swap_contiguous(to, from, count * bytes, bytes);
  } else if (from != to && count > 0) {
    std::memcpy(to, from, count * bytes);
  }
}

}  // namespace penstock::inline v0
