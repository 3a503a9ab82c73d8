#include <cstring>

#include "array/strided_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::inline v0 {
namespace {

template <class T>
T reversed(T value) noexcept {
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <class T>
void swap_units(std::byte* to, const std::byte* from, std::uint64_t units) noexcept {
  for (std::uint64_t i = 0; i < units; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    value = reversed(value);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

#if defined(__x86_64__)
/// For each unit the positions from which a vector takes its bytes.
struct shuffle_orders {
  alignas(16) std::uint8_t places[4][16] = {};  // units of 2, 4, 8, 16

  constexpr shuffle_orders() noexcept {
    for (unsigned which = 0; which < 4; ++which) {
      const unsigned unit = 2U << which;
      for (unsigned i = 0; i < 16; ++i)
        places[which][i] = static_cast<std::uint8_t>(i / unit * unit + (unit - 1 - i % unit));
    }
  }
  const std::uint8_t* of(std::uint32_t unit_bytes) const noexcept { return places[__builtin_ctz(unit_bytes) - 1]; }
};
constexpr shuffle_orders kOrders;

// Whole vectors only. Returns the number of processed bytes. Loads precede stores, so `to` may be `from`.
__attribute__((target("ssse3"))) std::uint64_t swap_vectors(std::byte* to, const std::byte* from, std::uint64_t bytes,
                                                            std::uint32_t unit_bytes) noexcept {
  const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kOrders.of(unit_bytes)));
  std::uint64_t done = 0;
  for (; done + 64 <= bytes; done += 64) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + done);
    auto* const target = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(source), shuffle);
    const __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(source + 1), shuffle);
    const __m128i c = _mm_shuffle_epi8(_mm_loadu_si128(source + 2), shuffle);
    const __m128i d = _mm_shuffle_epi8(_mm_loadu_si128(source + 3), shuffle);
    _mm_storeu_si128(target, a);
    _mm_storeu_si128(target + 1, b);
    _mm_storeu_si128(target + 2, c);
    _mm_storeu_si128(target + 3, d);
  }
  for (; done + 16 <= bytes; done += 16) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + done), _mm_shuffle_epi8(value, shuffle));
  }
  return done;
}
#endif

}  // namespace

void swap_contiguous_portable(std::byte* to, const std::byte* from, std::uint64_t bytes,
                              std::uint32_t unit_bytes) noexcept {
  switch (unit_bytes) {
    case 0:
    case 1:
      if (to != from && bytes != 0) std::memcpy(to, from, bytes);
      return;
    case 2:
      return swap_units<std::uint16_t>(to, from, bytes / 2);
    case 4:
      return swap_units<std::uint32_t>(to, from, bytes / 4);
    case 8:
      return swap_units<std::uint64_t>(to, from, bytes / 8);
    default:
      break;
  }
  for (std::uint64_t unit = 0; unit + unit_bytes <= bytes; unit += unit_bytes) {
    for (std::uint32_t i = 0, j = unit_bytes - 1; i <= j; ++i, --j) {
      const std::byte low = from[unit + i], high = from[unit + j];
      to[unit + i] = high;
      to[unit + j] = low;
      if (j == 0) break;
    }
  }
}

void swap_contiguous(std::byte* to, const std::byte* from, std::uint64_t bytes, std::uint32_t unit_bytes) noexcept {
#if defined(__x86_64__)
  const bool vectors = unit_bytes == 2 || unit_bytes == 4 || unit_bytes == 8 || unit_bytes == 16;
  if (vectors && bytes >= 16 && __builtin_cpu_supports("ssse3")) {
    const std::uint64_t done = swap_vectors(to, from, bytes, unit_bytes);
    to += done;
    from += done;
    bytes -= done;
  }
#endif
  if (bytes != 0) swap_contiguous_portable(to, from, bytes, unit_bytes);
}

}  // namespace penstock::inline v0
