#include "array/unpack_items.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace penstock::inline v0 {
namespace {

/// Elements of a block: source and result fit into the first level of the cache.
constexpr std::uint64_t kUnpackedBlock = 1024;

// Multiplication and addition are in separate loops, so that compilers do not fuse them into one operation with one
// rounding.
void scale_doubles(std::byte* items, std::uint64_t count, double scale, double offset, std::uint32_t parts) noexcept {
  for (std::uint64_t i = 0; i < count * parts; ++i) {
    double value;
    std::memcpy(&value, items + i * sizeof value, sizeof value);
    value *= scale;
    std::memcpy(items + i * sizeof value, &value, sizeof value);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, items + i * parts * sizeof value, sizeof value);
    value += offset;
    std::memcpy(items + i * parts * sizeof value, &value, sizeof value);
  }
}

// One item that is not a number: the real part of complex numbers.
struct nan_item {
  std::byte bytes[16] = {};
  explicit nan_item(number_kind kind) noexcept {
    if (kind == number_kind::float16) {
      const std::uint16_t half = 0x7e00;
      std::memcpy(bytes, &half, sizeof half);
    } else if (kind == number_kind::float32 || kind == number_kind::complex64) {
      const float value = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(bytes, &value, sizeof value);
    } else {
      const double value = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(bytes, &value, sizeof value);
    }
  }
};

// Stored numbers of one part: a loop that the compiler can vectorise.
template <class T, class To>
void mark_numbers(const std::byte* from, std::byte* to, std::uint64_t count, T wanted, To nan) noexcept {
  const bool is_nan = wanted != wanted;
  for (std::uint64_t i = 0; i < count; ++i) {
    T value;
    To made;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    std::memcpy(&made, to + i * sizeof made, sizeof made);
    made = (value == wanted) | (is_nan & (value != value)) ? nan : made;
    std::memcpy(to + i * sizeof made, &made, sizeof made);
  }
}

template <class T>
void mark_missing(const std::byte* from, std::byte* to, std::uint64_t count, std::uint32_t parts,
                  const std::byte* nodata, const nan_item& nan, std::uint32_t to_bytes) noexcept {
  T wanted;
  std::memcpy(&wanted, nodata, sizeof wanted);
  if (parts == 1 && to_bytes == sizeof(float)) {
    float item;
    std::memcpy(&item, nan.bytes, sizeof item);
    return mark_numbers(from, to, count, wanted, item);
  }
  if (parts == 1 && to_bytes == sizeof(double)) {
    double item;
    std::memcpy(&item, nan.bytes, sizeof item);
    return mark_numbers(from, to, count, wanted, item);
  }
  const bool is_nan = wanted != wanted;
  for (std::uint64_t i = 0; i < count; ++i) {
    T value[2] = {};
    std::memcpy(value, from + i * parts * sizeof(T), parts * sizeof(T));
    const bool is_missing = is_nan ? value[0] != value[0] || value[1] != value[1] : value[0] == wanted && value[1] == 0;
    if (is_missing) std::memcpy(to + i * to_bytes, nan.bytes, to_bytes);
  }
}

void mark_missing_halves(const std::byte* from, std::byte* to, std::uint64_t count, const std::byte* nodata,
                         const nan_item& nan, std::uint32_t to_bytes) noexcept {
  const auto wide = [](const std::byte* item) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, item, 2);
    bits = convert_number(number_kind::float16, number_kind::float32, bits);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  const float wanted = wide(nodata);
  for (std::uint64_t i = 0; i < count; ++i) {
    const float value = wide(from + 2 * i);
    if (wanted != wanted ? value != value : value == wanted) std::memcpy(to + i * to_bytes, nan.bytes, to_bytes);
  }
}

void mark(const conversion& how, const number_unpacking& with, const std::byte* from, std::byte* to,
          std::uint64_t count) noexcept {
  const nan_item nan(how.to);
  const auto typed = [&](auto zero) {
    mark_missing<decltype(zero)>(from, to, count, how.parts, with.nodata, nan, how.to_bytes);
  };
  if (how.from == number_kind::float16) return mark_missing_halves(from, to, count, with.nodata, nan, how.to_bytes);
  if (how.from == number_kind::float32) return typed(float());
  if (how.from == number_kind::float64) return typed(double());
  switch (how.from_bytes) {
    case 1:
      return typed(std::uint8_t());
    case 2:
      return typed(std::uint16_t());
    case 4:
      return typed(std::uint32_t());
    default:
      return typed(std::uint64_t());
  }
}

}  // namespace

dtype unpacked_type(const dtype& packed, bool scales) {
  if (packed.kind() == dtype_kind::complex) return scales ? dtype(dtype_kind::complex, 128) : packed;
  if (packed.kind() == dtype_kind::floating) return scales ? dtype(dtype_kind::floating, 64) : packed;
  return dtype(dtype_kind::floating, packed.bits() <= 16 && !scales ? 32 : 64);
}

void unpack_items(const conversion& how, const number_unpacking& with, const std::byte* from, std::byte* to,
                  std::uint64_t count) noexcept {
  conversion plain = how;
  plain.unpack = nullptr;
  for (std::uint64_t i = 0; i < count; i += kUnpackedBlock) {
    const std::uint64_t some = std::min(kUnpackedBlock, count - i);
    const std::byte* const source = from + i * how.from_bytes;
    std::byte* const target = to + i * how.to_bytes;
    if (how.from == how.to)
      std::memcpy(target, source, some * how.to_bytes);
    else
      convert_items(plain, source, target, some);
    const bool is_complex_result = how.parts == 2 || how.to == number_kind::complex128;
    if (with.scales) scale_doubles(target, some, with.scale, with.offset, is_complex_result ? 2 : 1);
    if (with.has_nodata) mark(how, with, source, target, some);
  }
}

}  // namespace penstock::inline v0
