#include "codec/tiff/tiff_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "array/lane_copy.h"
#include "array/strided_copy.h"
#include "array/vector16.h"

namespace penstock::inline v0 {
namespace {

template <class T>
T swapped(T value) noexcept {
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
  return value;
}

template <class T, bool kSwap>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return kSwap ? swapped(value) : value;
}

template <class T, bool kSwap>
void sum_items(std::byte* to, const std::byte* from, std::size_t begin, std::size_t count, std::size_t step) noexcept {
  for (std::size_t i = begin; i < count; ++i) {
    T value = load<T, kSwap>(from + i * sizeof(T));
    if (i >= step) value = static_cast<T>(value + load<T, false>(to + (i - step) * sizeof(T)));
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

// Pixels of kStep samples: the sums stay in registers.
template <class T, bool kSwap, std::size_t kStep>
void sum_pixels(std::byte* to, const std::byte* from, std::size_t pixels) noexcept {
  std::array<T, kStep> sums{};
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t s = 0; s < kStep; ++s) {
      sums[s] = static_cast<T>(sums[s] + load<T, kSwap>(from + (i * kStep + s) * sizeof(T)));
    }
    std::memcpy(to + i * sizeof(sums), sums.data(), sizeof(sums));
  }
}

#if defined(PENSTOCK_VECTOR16)
using vector16::bytes16;

// Every byte is replaced by one of its own item, `kBytes` each, in reverse order.
template <std::size_t kBytes>
constexpr std::array<std::uint8_t, 16> kSwapped = [] {
  std::array<std::uint8_t, 16> made{};
  for (std::size_t i = 0; i < 16; ++i)
    made[i] = static_cast<std::uint8_t>(i / kBytes * kBytes + kBytes - 1 - i % kBytes);
  return made;
}();

// Every byte is replaced by the last one before its vector at a distance that is a multiple of kBytes.
template <std::size_t kBytes>
constexpr std::array<std::uint8_t, 16> kLastOfEach = [] {
  std::array<std::uint8_t, 16> made{};
  for (std::size_t i = 0; i < 16; ++i) made[i] = static_cast<std::uint8_t>(16 - kBytes + i % kBytes);
  return made;
}();

template <class T, std::size_t kBytes>
bytes16 add_shifted(bytes16 x) noexcept {
  if constexpr (kBytes < 16) return vector16::add<T>(x, vector16::later<kBytes>(x));
  return x;
}

// Items kStep apart summed 16 bytes at once: log2(items) shifted adds, then the sums of all preceding ones.
template <class T, bool kSwap, std::size_t kStep>
std::size_t sum_wide(std::byte* to, const std::byte* from, std::size_t count) noexcept {
  constexpr std::size_t kItems = 16 / sizeof(T), kBytes = kStep * sizeof(T);
  static_assert(kBytes <= 16);
  const bytes16 last = vector16::load(kLastOfEach<kBytes>.data());
  const bytes16 order = vector16::load(kSwapped<sizeof(T)>.data());
  bytes16 before = vector16::zero();
  std::size_t i = 0;
  for (; i + kItems <= count; i += kItems) {
    bytes16 x = vector16::load(from + i * sizeof(T));
    if constexpr (kSwap && sizeof(T) > 1) x = vector16::pick(x, order);
    x = add_shifted<T, kBytes>(x);
    x = add_shifted<T, 2 * kBytes>(x);
    x = add_shifted<T, 4 * kBytes>(x);
    x = add_shifted<T, 8 * kBytes>(x);
    x = vector16::add<T>(x, before);
    before = vector16::pick(x, last);
    vector16::store(to + i * sizeof(T), x);
  }
  return i;
}
#endif

template <class T, bool kSwap, std::size_t kStep>
std::size_t sum_step(std::byte* to, const std::byte* from, std::size_t count) noexcept {
#if defined(PENSTOCK_VECTOR16)
  if constexpr (sizeof(T) < 8) return sum_wide<T, kSwap, kStep>(to, from, count);
#endif
  sum_pixels<T, kSwap, kStep>(to, from, count / kStep);
  return count / kStep * kStep;
}

template <class T, bool kSwap>
void sum_typed(std::byte* to, const std::byte* from, std::size_t count, std::size_t step) noexcept {
  std::size_t done = 0;
  if (step == 1) done = sum_step<T, kSwap, 1>(to, from, count);
  if (step == 2) done = sum_step<T, kSwap, 2>(to, from, count);
  if (step == 3) done = sum_step<T, kSwap, 3>(to, from, count);
  if (step == 4) done = sum_step<T, kSwap, 4>(to, from, count);
  sum_items<T, kSwap>(to, from, done, count, step);
}

template <class T>
void sum_any(std::byte* to, const std::byte* from, std::size_t count, std::size_t step, bool swap) noexcept {
  if (swap) {
    sum_typed<T, true>(to, from, count, step);
  } else {
    sum_typed<T, false>(to, from, count, step);
  }
}

// Merges the byte planes of a row; the last plane is the least significant.
template <std::size_t kBytes, class T>
void join_planes(std::byte* to, const std::byte* planes, std::size_t begin, std::size_t count) noexcept {
  for (std::size_t i = begin; i < count; ++i) {
    T value = 0;
    for (std::size_t b = 0; b < kBytes; ++b) {
      value = static_cast<T>(value << 8 | static_cast<T>(planes[b * count + i]));
    }
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

#if defined(PENSTOCK_VECTOR16)
std::size_t join_wide_2(std::byte* to, const std::byte* planes, std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const bytes16 high = vector16::load(planes + i), low = vector16::load(planes + count + i);
    vector16::store(to + 2 * i, vector16::zip_first(low, high));
    vector16::store(to + 2 * i + 16, vector16::zip_second(low, high));
  }
  return i;
}

std::size_t join_wide_4(std::byte* to, const std::byte* planes, std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const bytes16 b3 = vector16::load(planes + i), b2 = vector16::load(planes + count + i),
                  b1 = vector16::load(planes + 2 * count + i), b0 = vector16::load(planes + 3 * count + i);
    const bytes16 low_a = vector16::zip_first(b0, b1), low_b = vector16::zip_second(b0, b1);
    const bytes16 high_a = vector16::zip_first(b2, b3), high_b = vector16::zip_second(b2, b3);
    vector16::store(to + 4 * i, vector16::zip_first_pairs(low_a, high_a));
    vector16::store(to + 4 * i + 16, vector16::zip_second_pairs(low_a, high_a));
    vector16::store(to + 4 * i + 32, vector16::zip_first_pairs(low_b, high_b));
    vector16::store(to + 4 * i + 48, vector16::zip_second_pairs(low_b, high_b));
  }
  return i;
}
#endif

}  // namespace

void sum_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes, std::size_t step,
             bool swap) noexcept {
  switch (item_bytes) {
    case 1:
      return sum_any<std::uint8_t>(to, from, count, step, false);
    case 2:
      return sum_any<std::uint16_t>(to, from, count, step, swap);
    case 4:
      return sum_any<std::uint32_t>(to, from, count, step, swap);
    default:
      return sum_any<std::uint64_t>(to, from, count, step, swap);
  }
}

void restore_float_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t item_bytes,
                       std::size_t step, std::byte* work) noexcept {
  sum_row(work, from, count * item_bytes, 1, step, false);
  std::size_t done = 0;
  switch (item_bytes) {
    case 2:
#if defined(PENSTOCK_VECTOR16)
      done = join_wide_2(to, work, count);
#endif
      return join_planes<2, std::uint16_t>(to, work, done, count);
    case 3:
      return join_planes<3, std::uint32_t>(to, work, 0, count);
    case 4:
#if defined(PENSTOCK_VECTOR16)
      done = join_wide_4(to, work, count);
#endif
      return join_planes<4, std::uint32_t>(to, work, done, count);
    default:
      if constexpr (std::endian::native == std::endian::little) {
        const auto plane = static_cast<std::int64_t>(count);
        return lane_copy<1, 1, 8>::join(to, work + 7 * plane, -plane, count);
      }
      return join_planes<8, std::uint64_t>(to, work, 0, count);
  }
}

namespace {

// Eight bytes, the first one the most significant.
std::uint64_t load_word(const std::byte* from) noexcept {
  constexpr bool kSwap = std::endian::native == std::endian::little;
  return load<std::uint64_t, kSwap>(from);
}

// The bits that a word with a whole integer may use: integers of 58 bits and more may begin in one byte and end in the
// ninth.
template <class T>
constexpr std::size_t kReachBytes = sizeof(T) == 8 ? 9 : 8;

// Integers from bit `at` on, whose words are within the readable bytes.
template <class T>
void unpack_words(std::byte* to, const std::byte* from, std::size_t at, std::size_t count, std::uint32_t bits,
                  bool is_signed) noexcept {
  const std::uint64_t sign = is_signed ? std::uint64_t{1} << (bits - 1) : 0;
  for (std::size_t i = 0; i < count; ++i, at += bits) {
    const std::byte* const first = from + at / 8;
    std::uint64_t word = load_word(first) << at % 8;
    if constexpr (kReachBytes<T> == 9) word |= static_cast<std::uint64_t>(first[8]) >> (8 - at % 8);
    const auto item = static_cast<T>((word >> (64 - bits) ^ sign) - sign);
    std::memcpy(to + i * sizeof(T), &item, sizeof(T));
  }
}

// Groups of eight integers of up to 8 bits, each group in as many bytes as an integer has bits: halves of the rest of
// the word are moved apart three times. Groups whose words exceed the readable `room` are skipped.
std::size_t unpack_groups(std::byte* to, const std::byte* from, std::size_t room, std::size_t count,
                          std::uint32_t bits) noexcept {
  const auto low = [bits](std::uint32_t items, std::uint64_t lanes) { return (lanes << items * bits) - lanes; };
  const std::uint64_t pairs = low(2, 0x0000000100000001), ones = low(1, 0x0001000100010001);
  std::size_t group = 0;
  for (; group * 8 + 8 <= count && group * bits + 8 <= room; ++group) {
    std::uint64_t items = load_word(from + group * bits) >> (64 - 8 * bits);
    items = (items >> 4 * bits) << 32 | (items & low(4, 1));
    items = (items & pairs << 2 * bits) << (16 - 2 * bits) | (items & pairs);
    items = (items & ones << bits) << (8 - bits) | (items & ones);
    if constexpr (std::endian::native == std::endian::little) items = swapped(items);
    std::memcpy(to + group * 8, &items, 8);
  }
  return group * 8;
}

#if defined(PENSTOCK_VECTOR16)
// Single bits, sixteen at once: each of two bytes in eight copies, each of which keeps a bit of its own.
std::size_t unpack_wide_1(std::byte* to, const std::byte* from, std::size_t count) noexcept {
  constexpr std::uint8_t kSpread[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  constexpr std::uint8_t kOwn[16] = {0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1, 0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1};
  constexpr std::uint8_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const bytes16 spread = vector16::load(kSpread), own = vector16::load(kOwn), one = vector16::load(kOnes);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const bytes16 pair = vector16::first_two(load<std::uint16_t, false>(from + i / 8));
    vector16::store(to + i, vector16::smaller(vector16::both(vector16::pick(pair, spread), own), one));
  }
  return i;
}
#endif

// Unsigned integers of up to 8 bits, to the last whole group of eight.
std::size_t unpack_small(std::byte* to, const std::byte* from, std::size_t row_bytes, std::size_t count,
                         std::uint32_t bits) noexcept {
  std::size_t done = 0;
#if defined(PENSTOCK_VECTOR16)
  if (bits == 1) done = unpack_wide_1(to, from, count);
#endif
  const auto left = [&] { return row_bytes - done / 8 * bits; };
  done += unpack_groups(to + done, from + done / 8 * bits, left(), count - done, bits);
  std::array<std::byte, 16> last{};  // less than a word remains
  std::memcpy(last.data(), from + done / 8 * bits, left());
  return done + unpack_groups(to + done, last.data(), last.size(), count - done, bits);
}

template <class T>
void unpack_typed(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t bits,
                  bool is_signed) noexcept {
  constexpr std::size_t kReach = kReachBytes<T>;
  const std::size_t row_bytes = (count * bits + 7) / 8;
  std::size_t done = 0;
  if constexpr (sizeof(T) == 1) done = is_signed ? 0 : unpack_small(to, from, row_bytes, count, bits);
  const std::size_t whole = row_bytes < kReach ? 0 : std::min(count, ((row_bytes - kReach) * 8 + 7) / bits + 1);
  if (done < whole) {
    unpack_words<T>(to + done * sizeof(T), from, done * bits, whole - done, bits, is_signed);
    done = whole;
  }
  if (done == count) return;
  std::array<std::byte, 2 * kReach> last{};
  const std::size_t begin = done * bits / 8;
  std::memcpy(last.data(), from + begin, row_bytes - begin);
  unpack_words<T>(to + done * sizeof(T), last.data(), done * bits % 8, count - done, bits, is_signed);
}

}  // namespace

void unpack_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t bits, std::uint32_t item_bytes,
                bool is_signed) noexcept {
  switch (item_bytes) {
    case 1:
      return unpack_typed<std::uint8_t>(to, from, count, bits, is_signed);
    case 2:
      return unpack_typed<std::uint16_t>(to, from, count, bits, is_signed);
    case 4:
      return unpack_typed<std::uint32_t>(to, from, count, bits, is_signed);
    default:
      return unpack_typed<std::uint64_t>(to, from, count, bits, is_signed);
  }
}

}  // namespace penstock::inline v0
