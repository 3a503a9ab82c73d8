#pragma once

// The names that CUDA C++ provides for a kernel's source, for g++. Included before the kernels, which are compiled with
// `__CUDA_ARCH__`.

#include <cstdint>
#include <type_traits>
#include <utility>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __builtin_assume(x) ((void)0)
// All kernels' shared memory in one section, so that the emulator finds it.
#define __shared__ static __attribute__((section("emulated_shared")))

namespace emulator {

struct index {
  unsigned x = 0, y = 0, z = 0;
};
extern index thread_index, block_index, block_size;

/// The first one is for all warps, the others are for one warp.
enum class collective_kind { block_barrier, barrier, ballot, from_lane, from_any_lane, from_lanes_before };
/// The lane's result once all have arrived. `argument`: the source lane, or the distance to an earlier lane.
std::uint64_t collective(collective_kind kind, unsigned mask, std::uint64_t value, unsigned argument, int line);

/// Accesses between these are atomic.
void begin_atomic();
void end_atomic();

/// Copies that bypass the registers. The current lane's are executed when it waits for them, or at once, alternating
/// from lane to lane: both are allowed. True: this one is executed now.
bool start_copy(unsigned* to, const unsigned* from);
void end_copies();
/// The next copy of a group that is not one of the last `groups`; false: there is none.
bool next_copy(unsigned groups, unsigned*& to, const unsigned*& from);

extern int swapped_line;  // see mutation

}  // namespace emulator

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#define EMULATED static inline __attribute__((always_inline))  // each use is a place of its own

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

EMULATED uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

EMULATED int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
EMULATED int __ffs(int x) { return __builtin_ffs(x); }
EMULATED int __ffsll(long long value) { return __builtin_ffsll(value); }
template <class T>
EMULATED bool __isGlobal(T) {
  return true;
}

/// PTX shf.l.clamp: the high word of `high:low << count`, where more than 32 count as 32.
EMULATED unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned count, int line = __builtin_LINE()) {
  if (line == emulator::swapped_line) std::swap(low, high);
  if (count >= 32) return low;
  return static_cast<unsigned>((static_cast<std::uint64_t>(high) << 32 | low) << count >> 32);
}
/// PTX shf.r.clamp: the low word of `high:low >> count`.
EMULATED unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned count, int line = __builtin_LINE()) {
  if (line == emulator::swapped_line) std::swap(low, high);
  if (count >= 32) return high;
  return static_cast<unsigned>((static_cast<std::uint64_t>(high) << 32 | low) >> count);
}
/// PTX shf.r.wrap and shf.l.wrap: as above, of the count's low five bits.
EMULATED unsigned __funnelshift_r(unsigned low, unsigned high, unsigned count, int line = __builtin_LINE()) {
  return __funnelshift_rc(low, high, count & 31, line);
}
EMULATED unsigned __funnelshift_l(unsigned low, unsigned high, unsigned count, int line = __builtin_LINE()) {
  return __funnelshift_lc(low, high, count & 31, line);
}
/// PTX prmt.b32 in its default mode: four of the bytes of `b:a`, or their signs.
EMULATED unsigned __byte_perm(unsigned a, unsigned b, unsigned selector, int line = __builtin_LINE()) {
  if (line == emulator::swapped_line) std::swap(a, b);
  const std::uint64_t bytes = static_cast<std::uint64_t>(b) << 32 | a;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 255;
    if ((pick & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
}
EMULATED void __pipeline_memcpy_async(unsigned* to, const void* from, std::size_t) {  // of 4 bytes
  const auto* const word = static_cast<const unsigned*>(from);
  if (emulator::start_copy(to, word)) *to = *word;
}
EMULATED void __pipeline_commit() { emulator::end_copies(); }
EMULATED void __pipeline_wait_prior(unsigned groups) {
  unsigned* to = nullptr;
  const unsigned* from = nullptr;
  while (emulator::next_copy(groups, to, from)) *to = *from;
}
EMULATED unsigned __popc(unsigned x) { return static_cast<unsigned>(__builtin_popcount(x)); }
/// PTX dp4a.u32.u32.
EMULATED unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
  return sum;
}
EMULATED unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (unsigned i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
  return out;
}

EMULATED void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  emulator::collective(emulator::collective_kind::barrier, mask, 0, 0, line);
}
EMULATED void __syncthreads(int line = __builtin_LINE()) {
  emulator::collective(emulator::collective_kind::block_barrier, 0xffffffffu, 0, 0, line);
}
EMULATED unsigned __ballot_sync(unsigned mask, int value, int line = __builtin_LINE()) {
  return static_cast<unsigned>(emulator::collective(emulator::collective_kind::ballot, mask, value != 0, 0, line));
}
template <class T>
EMULATED T shuffle_at(int line, unsigned mask, T value, int lane) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return static_cast<T>(emulator::collective(emulator::collective_kind::from_lane, mask,
                                             static_cast<std::uint64_t>(value), static_cast<unsigned>(lane), line));
}
/// With its width: each lane names its own source lane.
template <class T>
EMULATED T shuffle_at(int line, unsigned mask, T value, int lane, int) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return static_cast<T>(emulator::collective(emulator::collective_kind::from_any_lane, mask,
                                             static_cast<std::uint64_t>(value), static_cast<unsigned>(lane), line));
}
#define __shfl_sync(...) shuffle_at(__LINE__, __VA_ARGS__)
template <class T>
EMULATED T __shfl_up_sync(unsigned mask, T value, unsigned distance, int line = __builtin_LINE()) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return static_cast<T>(emulator::collective(emulator::collective_kind::from_lanes_before, mask,
                                             static_cast<std::uint64_t>(value), distance, line));
}

template <class T>
EMULATED T atomicCAS(T* at, T expected, T value) {
  emulator::begin_atomic();
  const T old = *at;
  if (old == expected) *at = value;
  emulator::end_atomic();
  return old;
}
template <class T>
EMULATED T atomicAdd(T* at, T value) {
  emulator::begin_atomic();
  const T old = *at;
  *at = old + value;
  emulator::end_atomic();
  return old;
}
template <class T>
EMULATED T atomicOr(T* at, T value) {
  emulator::begin_atomic();
  const T old = *at;
  *at = old | value;
  emulator::end_atomic();
  return old;
}
template <class T>
EMULATED T atomicMax(T* at, T value) {
  emulator::begin_atomic();
  const T old = *at;
  if (old < value) *at = value;
  emulator::end_atomic();
  return old;
}
// NOLINTEND(bugprone-reserved-identifier)
