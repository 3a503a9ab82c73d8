#pragma once

// The warps of one thread block that work together.
//
// Code for them is a sequence of steps, as code for a warp is (warp.h): a step over warps runs a function once for each
// of them, a step over lanes once for each lane of all. A barrier of the block follows, unless the name excludes it.
// Everything between steps is the same in all lanes. On the host a step over warps is a loop in an order that tests
// change, so a step in which one warp reads what another writes gives other bytes there.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

/// A variable that has a separate value in every warp.
template <class T, int kWarps>
struct per_warp {
#if defined(__CUDA_ARCH__)
  T value;
  PENSTOCK_DEVICE T& operator[](int) { return value; }
#else
  T value[kWarps];
  PENSTOCK_DEVICE T& operator[](int number) { return value[number]; }
#endif
};

/// Up to `kWarps` warps.
///
/// Every lane of the device's thread block calls the same members in the same order.
template <int kWarps>
class warp_group {
 public:
  /// \param lanes  Number of lanes in all warps: the threads of a block.
  PENSTOCK_DEVICE explicit warp_group(std::uint32_t lanes) : lanes_(static_cast<int>(lanes)) {
#if defined(__CUDA_ARCH__)
    // By a shuffle, so that the compiler knows that all lanes have the same number: a branch that depends on it does
    // not diverge, and needs no second path for collectives.
    number_ = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kLanes, 0);
#endif
  }

  /// The number of lanes in all warps together, and the number of warps.
  PENSTOCK_DEVICE std::uint32_t lanes() const { return static_cast<std::uint32_t>(lanes_); }
  PENSTOCK_DEVICE int warps() const { return lanes_ / kLanes; }
  static constexpr bool kSeveral = kWarps > 1;

  /// Runs `step(number, lanes)` in every warp; all warps see its writes afterwards.
  template <class Step>
  PENSTOCK_DEVICE void each_warp(Step&& step) const {
    each_warp_alone(step);
    sync();
  }

  /// The same for a step after which a warp reads only its own writes, and which writes nothing that another warp reads
  /// in this step: no barrier follows.
  template <class Step>
  PENSTOCK_DEVICE void each_warp_alone(Step&& step) const {
#if defined(__CUDA_ARCH__)
    step(number_, warp{});
#else
    for (int i = 0; i < warps(); ++i) step(host_turn(i, warps()), warp{});
#endif
  }

  /// Runs `step(lane)` in every lane of all warps, 0 to `lanes()` - 1; all lanes see its writes afterwards.
  template <class Step>
  PENSTOCK_DEVICE void each(Step&& step) const {
    each_alone(step);
    sync();
  }

  /// The same without a barrier, like `warp::each_alone`.
  template <class Step>
  PENSTOCK_DEVICE void each_alone(Step&& step) const {
#if defined(__CUDA_ARCH__)
    step(static_cast<int>(threadIdx.x));
#else
    for (int i = 0; i < lanes_; ++i) step(host_turn(i, lanes_));
#endif
  }

  /// Runs `step()` in one lane; all lanes see its writes afterwards.
  template <class Step>
  PENSTOCK_DEVICE void once(Step&& step) const {
    once_alone(step);
    sync();
  }

  /// Runs `step()` in one lane; the other lanes do not read its writes.
  template <class Step>
  PENSTOCK_DEVICE void once_alone(Step&& step) const {
#if defined(__CUDA_ARCH__)
    if (threadIdx.x == 0) step();
#else
    step();
#endif
  }

  /// Completes the reads and publishes the writes of all warps.
  PENSTOCK_DEVICE void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  /// Tells the compiler that all lanes continue together. Otherwise it may treat those that skipped a step as diverged,
  /// and give every later collective a second path. Memory accesses of the lanes need no barrier here.
  PENSTOCK_DEVICE void converge() const {
#if defined(__NVCC__) && defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

 private:
  int lanes_;
#if defined(__CUDA_ARCH__)
  int number_;
#endif
};

}  // namespace penstock::inline v0::device
