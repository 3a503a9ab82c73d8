#pragma once

/// \file Sixteen bytes at once, in the few operations that copying and unpacking need: SSE4.1 on x86-64, NEON on
/// aarch64. PENSTOCK_VECTOR16 is defined if such vectors exist; otherwise each user has a portable loop.

#include <cstddef>
#include <cstdint>

#if defined(__SSE4_1__)
#define PENSTOCK_VECTOR16
#include <immintrin.h>
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#define PENSTOCK_VECTOR16
#include <arm_neon.h>
#endif

#if defined(PENSTOCK_VECTOR16)
namespace penstock::inline v0::vector16 {

#if defined(__SSE4_1__)

using bytes16 = __m128i;

inline bytes16 load(const void* from) noexcept { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline void store(void* to, bytes16 x) noexcept { _mm_storeu_si128(static_cast<__m128i*>(to), x); }
inline bytes16 zero() noexcept { return _mm_setzero_si128(); }
inline bytes16 first_two(std::uint16_t bytes) noexcept { return _mm_cvtsi32_si128(bytes); }

/// Byte i of the result is byte `order[i]` of x, or 0 if that is 0x80.
inline bytes16 pick(bytes16 x, bytes16 order) noexcept { return _mm_shuffle_epi8(x, order); }
inline bytes16 either(bytes16 a, bytes16 b) noexcept { return _mm_or_si128(a, b); }
inline bytes16 both(bytes16 a, bytes16 b) noexcept { return _mm_and_si128(a, b); }
inline bytes16 smaller(bytes16 a, bytes16 b) noexcept { return _mm_min_epu8(a, b); }

/// Sums of the integers of type T.
template <class T>
bytes16 add(bytes16 a, bytes16 b) noexcept {
  static_assert(sizeof(T) <= 4);
  if constexpr (sizeof(T) == 1) return _mm_add_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm_add_epi16(a, b);
  return _mm_add_epi32(a, b);
}

/// Each byte moves `kBytes` places towards the end; zeros are shifted in.
template <std::size_t kBytes>
bytes16 later(bytes16 x) noexcept {
  return _mm_slli_si128(x, kBytes);
}

/// Bytes, or pairs of bytes, of a and b in turn: of their first halves, and of their second ones.
inline bytes16 zip_first(bytes16 a, bytes16 b) noexcept { return _mm_unpacklo_epi8(a, b); }
inline bytes16 zip_second(bytes16 a, bytes16 b) noexcept { return _mm_unpackhi_epi8(a, b); }
inline bytes16 zip_first_pairs(bytes16 a, bytes16 b) noexcept { return _mm_unpacklo_epi16(a, b); }
inline bytes16 zip_second_pairs(bytes16 a, bytes16 b) noexcept { return _mm_unpackhi_epi16(a, b); }

#else

using bytes16 = uint8x16_t;

inline bytes16 load(const void* from) noexcept { return vld1q_u8(static_cast<const std::uint8_t*>(from)); }
inline void store(void* to, bytes16 x) noexcept { vst1q_u8(static_cast<std::uint8_t*>(to), x); }
inline bytes16 zero() noexcept { return vdupq_n_u8(0); }
inline bytes16 first_two(std::uint16_t bytes) noexcept { return vreinterpretq_u8_u16(vdupq_n_u16(bytes)); }

inline bytes16 pick(bytes16 x, bytes16 order) noexcept { return vqtbl1q_u8(x, order); }
inline bytes16 either(bytes16 a, bytes16 b) noexcept { return vorrq_u8(a, b); }
inline bytes16 both(bytes16 a, bytes16 b) noexcept { return vandq_u8(a, b); }
inline bytes16 smaller(bytes16 a, bytes16 b) noexcept { return vminq_u8(a, b); }

template <class T>
bytes16 add(bytes16 a, bytes16 b) noexcept {
  static_assert(sizeof(T) <= 4);
  if constexpr (sizeof(T) == 1) return vaddq_u8(a, b);
  if constexpr (sizeof(T) == 2)
    return vreinterpretq_u8_u16(vaddq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  return vreinterpretq_u8_u32(vaddq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
}

template <std::size_t kBytes>
bytes16 later(bytes16 x) noexcept {
  return vextq_u8(zero(), x, 16 - kBytes);
}

inline bytes16 zip_first(bytes16 a, bytes16 b) noexcept { return vzip1q_u8(a, b); }
inline bytes16 zip_second(bytes16 a, bytes16 b) noexcept { return vzip2q_u8(a, b); }
inline bytes16 zip_first_pairs(bytes16 a, bytes16 b) noexcept {
  return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
inline bytes16 zip_second_pairs(bytes16 a, bytes16 b) noexcept {
  return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}

#endif

}  // namespace penstock::inline v0::vector16
#endif
