#include "codec/tiff/tiff_differences.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock::inline v0 {
namespace {

template <class T>
void subtract(std::byte* __restrict to, const std::byte* __restrict from, std::size_t count,
              std::size_t step) noexcept {
  std::copy_n(from, std::min(step, count) * sizeof(T), to);
  for (std::size_t i = step; i < count; ++i) {
    T value, before;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    std::memcpy(&before, from + (i - step) * sizeof(T), sizeof(T));
    value = static_cast<T>(value - before);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

template <std::size_t kBytes>
void split(std::byte* __restrict planes, const std::byte* __restrict items, std::size_t count) noexcept {
  for (std::size_t plane = 0; plane < kBytes; ++plane) {
    const std::size_t byte = std::endian::native == std::endian::little ? kBytes - 1 - plane : plane;
    std::byte* const out = planes + plane * count;
    for (std::size_t i = 0; i < count; ++i) out[i] = items[i * kBytes + byte];
  }
}

}  // namespace

void subtract_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                  std::size_t step) noexcept {
  switch (item_bytes) {
    case 1:
      return subtract<std::uint8_t>(to, from, count, step);
    case 2:
      return subtract<std::uint16_t>(to, from, count, step);
    case 4:
      return subtract<std::uint32_t>(to, from, count, step);
    default:
      return subtract<std::uint64_t>(to, from, count, step);
  }
}

void split_float_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                     std::size_t step, std::byte* work) noexcept {
  switch (item_bytes) {
    case 2:
      split<2>(work, from, count);
      break;
    case 4:
      split<4>(work, from, count);
      break;
    default:
      split<8>(work, from, count);
  }
  subtract<std::uint8_t>(to, work, count * item_bytes, step);
}

}  // namespace penstock::inline v0
