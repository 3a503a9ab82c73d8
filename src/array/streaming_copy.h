#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::inline v0 {

/// Copies past the caches, to memory that is not read soon. A line that is written as a whole is then not read first,
/// which halves the traffic of results that are larger than the caches. `end_streaming` makes the bytes visible to
/// other threads. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 10.4.6.2.
inline void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  constexpr std::size_t kVector = sizeof(__m128i);
  const std::size_t head = std::min((0 - reinterpret_cast<std::uintptr_t>(to)) % kVector, bytes);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kVector <= bytes; at += kVector) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
  }
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

inline void end_streaming() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace penstock::inline v0
