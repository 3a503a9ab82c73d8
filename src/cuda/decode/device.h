#pragma once

// Makes one source usable as a kernel's code and as an ordinary function: the markers, and the few operations that are
// single instructions of a GPU.

#include <cassert>
#include <cstdint>
#include <cstring>

#if defined(__NVCC__)
#include <cuda_pipeline_primitives.h>
#endif

#include "cuda/decode/descriptors.h"

#if defined(__CUDACC__)
#define PENSTOCK_DEVICE __host__ __device__ __forceinline__
#define PENSTOCK_DEVICE_CALL __host__ __device__ __noinline__
#define PENSTOCK_SMALL_LOOP _Pragma("unroll 1")  // if they were unrolled, rare loops would crowd the instruction cache
#else
#define PENSTOCK_DEVICE inline
#define PENSTOCK_DEVICE_CALL inline
#define PENSTOCK_SMALL_LOOP
#endif

namespace penstock::inline v0::device {

/// The pointer for an address of a descriptor, in the device's (global) memory.
template <class T>
PENSTOCK_DEVICE T* pointer(std::uint64_t address) {
  auto* const at = reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(at));  // avoids generic loads
#endif
  return at;
}

/// The bytes that a stage may read; it does not read outside of them.
struct byte_view {
  const std::uint8_t* begin;
  std::uint32_t size;
};

/// 0 to 31: the position of the highest set bit of `value`, which is not 0.
PENSTOCK_DEVICE int highest_bit(std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return 31 - __clz(static_cast<int>(value));
#else
  return 31 - __builtin_clz(value);
#endif
}

/// 0 to 31: the position of the lowest set bit of `value`, which is not 0.
PENSTOCK_DEVICE int lowest_bit(std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(value)) - 1;
#else
  return __builtin_ctz(value);
#endif
}

/// 0 to 63: the same for 64 bits.
PENSTOCK_DEVICE int lowest_bit(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(value)) - 1;
#else
  return __builtin_ctzll(value);
#endif
}

/// The number of set bits of `value`.
PENSTOCK_DEVICE std::uint32_t bit_count(std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__popc(value));
#else
  return static_cast<std::uint32_t>(__builtin_popcount(value));
#endif
}

/// The number of set bits of a 64-bit value.
PENSTOCK_DEVICE std::uint32_t bit_count(std::uint64_t value) {
  return bit_count(static_cast<std::uint32_t>(value)) + bit_count(static_cast<std::uint32_t>(value >> 32));
}

/// The lowest bit becomes the highest, and so on.
PENSTOCK_DEVICE std::uint32_t reversed_bits(std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  return __brev(value);
#else
  std::uint32_t out = 0;
  for (int i = 0; i < 32; ++i) out |= (value >> i & 1u) << (31 - i);
  return out;
#endif
}

/// `value << count` for 0 to 32: one instruction of a GPU, whereas C++ leaves 32 undefined.
PENSTOCK_DEVICE std::uint32_t shift_left(std::uint32_t value, int count) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_lc(0, value, static_cast<std::uint32_t>(count));
#else
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) << count);
#endif
}

/// A word with bit `place` set; 0 if `place` is 32 or more.
PENSTOCK_DEVICE std::uint32_t bit_at(std::uint32_t place) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_lc(0, 1, place);
#else
  return place < 32 ? 1u << place : 0;
#endif
}

/// The high half of `high:low << count` for 0 to 32.
PENSTOCK_DEVICE std::uint32_t shift_in(std::uint32_t high, std::uint32_t low, int count) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_lc(low, high, static_cast<std::uint32_t>(count));
#else
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(high) << 32 | low) >> (32 - count));
#endif
}

/// The high half of `high:low << count`, of which only the lowest five bits are used: the other bits of that word do
/// not need to be masked.
PENSTOCK_DEVICE std::uint32_t shift_in_modulo(std::uint32_t high, std::uint32_t low, std::uint32_t count) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_l(low, high, count);
#else
  return shift_in(high, low, static_cast<int>(count & 31u));
#endif
}

/// The low half of `high:low >> count` for 0 to 31.
PENSTOCK_DEVICE std::uint32_t shift_out(std::uint32_t low, std::uint32_t high, std::uint32_t count) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, count);
#else
  assert(count < 32);
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(high) << 32 | low) >> count);
#endif
}

/// Four bytes of `high:low`, by the four digits of `pick` from the lowest: 0 to 3 are those of `low`, 4 to 7 of `high`.
PENSTOCK_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t pick) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, pick);
#else
  const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    out |= static_cast<std::uint32_t>(bytes >> (8 * (pick >> (4 * i) & 7u)) & 255u) << (8 * i);
  return out;
#endif
}

PENSTOCK_DEVICE std::uint32_t misalignment(const void* at, std::uint32_t unit) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at)) & (unit - 1);
}

/// Little-endian, at an address that is a multiple of 4: a device faults at others, the host asserts it.
PENSTOCK_DEVICE std::uint32_t load_word(const std::uint8_t* at) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const std::uint32_t*>(at);
#else
  assert(misalignment(at, sizeof(std::uint32_t)) == 0);
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
#endif
}

/// Little-endian, at an address that is a multiple of 4.
PENSTOCK_DEVICE void store_word(std::uint8_t* at, std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<std::uint32_t*>(at) = word;
#else
  assert(misalignment(at, sizeof(std::uint32_t)) == 0);
  std::memcpy(at, &word, sizeof word);
#endif
}

/// Sixteen bytes in four words, little-endian.
struct words_16 {
  std::uint32_t word[4];
};

/// The sixteen bytes at an address that is a multiple of 16.
PENSTOCK_DEVICE words_16 load_16_bytes(const std::uint8_t* at) {
#if defined(__CUDA_ARCH__)
  const uint4 words = *reinterpret_cast<const uint4*>(at);
  return {{words.x, words.y, words.z, words.w}};
#else
  assert(misalignment(at, 16) == 0);
  words_16 words;
  std::memcpy(words.word, at, 16);
  return words;
#endif
}

/// Stores sixteen bytes at an address that is a multiple of 16.
PENSTOCK_DEVICE void store_16_bytes(std::uint8_t* at, const words_16& words) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint4*>(at) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
#else
  assert(misalignment(at, 16) == 0);
  std::memcpy(at, words.word, 16);
#endif
}

/// Little-endian, any alignment.
PENSTOCK_DEVICE std::uint32_t load_bytes(const std::uint8_t* at, std::uint32_t count) {
  std::uint32_t value = 0;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < count; ++i) value |= static_cast<std::uint32_t>(at[i]) << (8 * i);
  return value;
}

/// Copies an aligned word from global to shared memory, bypassing registers: only `finish_copies` of the lane waits for
/// it.
PENSTOCK_DEVICE void start_copy(std::uint32_t* to, const std::uint8_t* from) {
#if defined(__CUDA_ARCH__)
  __pipeline_memcpy_async(to, from, 4);
#else
  *to = load_word(from);
#endif
}

/// Ends a group of copies, and waits for all of them except the last `kGroups` groups.
template <int kGroups>
PENSTOCK_DEVICE void finish_copies() {
#if defined(__CUDA_ARCH__)
  __pipeline_commit();
  __pipeline_wait_prior(kGroups);
#endif
}

/// `sum` plus those bytes of `word` for which `which` has a byte of 1, not 0.
PENSTOCK_DEVICE std::uint32_t add_bytes(std::uint32_t sum, std::uint32_t word, std::uint32_t which) {
#if defined(__CUDA_ARCH__)
  return __dp4a(word, which, sum);
#else
  for (int i = 0; i < 32; i += 8) sum += (word >> i & 255u) * (which >> i & 255u);
  return sum;
#endif
}

/// A pointer to global memory that is computed once: otherwise a compiler may compute it again at each use.
template <class T>
PENSTOCK_DEVICE T* computed_once(T* at) {
#if defined(__NVCC__) && defined(__CUDA_ARCH__)
  asm("" : "+l"(at));
#endif
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(at));
#endif
  return at;
}

/// Sets `word` to `value` if that is higher, in any order of the lanes.
PENSTOCK_DEVICE void keep_highest(std::uint32_t& word, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(&word, value);
#else
  if (word < value) word = value;
#endif
}

/// Adds to `word`, in any order of the lanes.
PENSTOCK_DEVICE void add_to(std::uint32_t& word, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&word, value);
#else
  word += value;
#endif
}

/// Sets the bits of `bits` in `word`, in any order of the lanes.
PENSTOCK_DEVICE void set_bits(std::uint32_t& word, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(&word, bits);
#else
  word |= bits;
#endif
}

/// Stores the first failure reported for a chunk. If there are several, which one is first can vary between runs, but a
/// failed chunk always has a failure.
PENSTOCK_DEVICE void report(std::uint64_t statuses, std::uint32_t chunk, chunk_status status) {
  auto* const word = pointer<std::uint32_t>(statuses) + chunk;
#if defined(__CUDA_ARCH__)
  atomicCAS(word, 0u, static_cast<std::uint32_t>(status));
#else
  std::uint32_t none = 0;
  __atomic_compare_exchange_n(word, &none, static_cast<std::uint32_t>(status), false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
#endif
}

PENSTOCK_DEVICE bool failed(std::uint64_t statuses, std::uint32_t chunk) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<volatile const std::uint32_t*>(pointer<const std::uint32_t>(statuses) + chunk) != 0;
#else
  return __atomic_load_n(pointer<const std::uint32_t>(statuses) + chunk, __ATOMIC_RELAXED) != 0;
#endif
}

}  // namespace penstock::inline v0::device
