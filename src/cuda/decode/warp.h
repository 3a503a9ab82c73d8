#pragma once

// Thirty-two lanes that run steps together: a warp on the device, a loop on the host.
//
// Code for a warp is a sequence of steps: `each` runs a function once for every lane, a collective combines a value of
// all lanes, and everything between them is the same in all lanes. Within one `each`, a lane must not read what another
// writes: on the host the lanes run one after the other, in an order that tests change, so a step that depends on the
// order gives different bytes there.

#include <cstdint>

#include "cuda/decode/device.h"

namespace penstock::inline v0::device {

inline constexpr int kLanes = 32;

/// A variable that has a separate value in every lane.
template <class T>
struct per_lane {
#if defined(__CUDA_ARCH__)
  T value;
  PENSTOCK_DEVICE T& operator[](int) { return value; }
  PENSTOCK_DEVICE const T& operator[](int) const { return value; }
#else
  T value[kLanes];
  PENSTOCK_DEVICE T& operator[](int lane) { return value[lane]; }
  PENSTOCK_DEVICE const T& operator[](int lane) const { return value[lane]; }
#endif
};

/// The order in which the host's lanes run a step.
enum class lane_order : int { forward = 0, backward = 1, strided = 2 };

#if !defined(__CUDACC__)
inline thread_local lane_order host_lane_order = lane_order::forward;  ///< tests set it
#endif

#if !defined(__CUDA_ARCH__)
/// The lane or warp of `count` (a power of two) that runs at the host's turn `step`.
inline int host_turn(int step, int count) {
#if defined(__CUDACC__)
  static_cast<void>(count);
  return step;
#else
  switch (host_lane_order) {
    case lane_order::backward:
      return count - 1 - step;
    case lane_order::strided:
      return step * 13 % count;
    default:
      return step;
  }
#endif
}
#endif

/// The lanes. Has no state; every lane of the device's warp calls the same members in the same order.
class warp {
 public:
  PENSTOCK_DEVICE static constexpr std::uint32_t lanes() { return kLanes; }
  static constexpr bool kSeveral = false;  ///< warps

  /// Runs `step(lane)` in every lane; all lanes see its writes afterwards.
  template <class Step>
  PENSTOCK_DEVICE void each(Step&& step) const {
#if defined(__CUDA_ARCH__)
    step(static_cast<int>(threadIdx.x) & (kLanes - 1));
    __syncwarp();
#else
    for (int i = 0; i < kLanes; ++i) step(host_lane(i));
#endif
  }

  /// The same for a step that writes only values of its own lane, and reads no memory that the next step writes: no
  /// barrier follows.
  template <class Step>
  PENSTOCK_DEVICE void each_alone(Step&& step) const {
#if defined(__CUDA_ARCH__)
    step(static_cast<int>(threadIdx.x) & (kLanes - 1));
#else
    for (int i = 0; i < kLanes; ++i) step(host_lane(i));
#endif
  }

  /// Runs `step()` in one lane; all lanes see its writes afterwards.
  template <class Step>
  PENSTOCK_DEVICE void once(Step&& step) const {
#if defined(__CUDA_ARCH__)
    if ((threadIdx.x & (kLanes - 1)) == 0) step();
    __syncwarp();
#else
    step();
#endif
  }

  /// Runs `step()` in one lane; the others do not read its results.
  template <class Step>
  PENSTOCK_DEVICE void once_alone(Step&& step) const {
#if defined(__CUDA_ARCH__)
    if ((threadIdx.x & (kLanes - 1)) == 0) step();
#else
    step();
#endif
  }

  /// Completes the reads and publishes the writes of all lanes. Needed between reading shared memory outside of a step
  /// and the next step that writes it.
  PENSTOCK_DEVICE void sync() const {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }

  /// Bit i is lane i's value.
  PENSTOCK_DEVICE std::uint32_t ballot(const per_lane<bool>& values) const {
#if defined(__CUDA_ARCH__)
    return __ballot_sync(kAll, values.value);
#else
    std::uint32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<std::uint32_t>(values[lane]) << lane;
    return bits;
#endif
  }

  /// The value of one lane, in all lanes. `T` has 4 or 8 bytes.
  template <class T>
  PENSTOCK_DEVICE T from(const per_lane<T>& values, int lane) const {
#if defined(__CUDA_ARCH__)
    return __shfl_sync(kAll, values.value, lane);
#else
    return values[lane];
#endif
  }

  /// In each lane, the value of the lane with the index in `from`, 0 to 31.
  template <class T>
  PENSTOCK_DEVICE per_lane<T> pick(const per_lane<T>& values, const per_lane<int>& which) const {
#if defined(__CUDA_ARCH__)
    return {__shfl_sync(kAll, values.value, which.value, kLanes)};
#else
    per_lane<T> out;
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = values[which[lane]];
    return out;
#endif
  }

  /// Each lane's value becomes that of the lane before it; lane 0's becomes `first`.
  template <class T>
  PENSTOCK_DEVICE void shift_up(per_lane<T>& values, T first) const {
#if defined(__CUDA_ARCH__)
    const T before = __shfl_up_sync(kAll, values.value, 1);
    values.value = (threadIdx.x & (kLanes - 1)) == 0 ? first : before;
#else
    for (int lane = kLanes - 1; lane > 0; --lane) values[lane] = values[lane - 1];
    values[0] = first;
#endif
  }

  /// Inclusive prefix sums, in place.
  PENSTOCK_DEVICE void sum_up(per_lane<std::uint32_t>& values) const {
    scan(values, [](std::uint32_t before, std::uint32_t own) { return before + own; });
  }

  /// Inclusive scan, in place: `join(before, own)` is associative. `T` has 4 or 8 bytes, or a member `shuffled_up`.
  template <class T, class Join>
  PENSTOCK_DEVICE void scan(per_lane<T>& values, Join&& join) const {
    for (int distance = 1; distance < kLanes; distance *= 2) {
#if defined(__CUDA_ARCH__)
      const T before = shuffle_up(values.value, distance);
      if ((threadIdx.x & (kLanes - 1)) >= static_cast<unsigned>(distance)) values.value = join(before, values.value);
#else
      for (int lane = kLanes - 1; lane >= distance; --lane) values[lane] = join(values[lane - distance], values[lane]);
#endif
    }
  }

 private:
#if defined(__CUDA_ARCH__)
  static constexpr unsigned kAll = 0xffffffffu;
  PENSTOCK_DEVICE static std::uint32_t shuffle_up(std::uint32_t value, int distance) {
    return __shfl_up_sync(kAll, value, static_cast<unsigned>(distance));
  }
  PENSTOCK_DEVICE static std::uint64_t shuffle_up(std::uint64_t value, int distance) {
    return __shfl_up_sync(kAll, value, static_cast<unsigned>(distance));
  }
  template <class T>
  PENSTOCK_DEVICE static T shuffle_up(const T& value, int distance) {
    return value.shuffled_up(distance);
  }
#else
  static int host_lane(int step) { return host_turn(step, kLanes); }
#endif
};

/// Whether `chunk` has failed, read by one lane for all: another warp may report a failure at the same time, and lanes
/// that saw different values would diverge at the next collective.
PENSTOCK_DEVICE bool failed(std::uint64_t statuses, std::uint32_t chunk, warp lanes) {
  per_lane<std::uint32_t> stopped;
  lanes.each_alone([&](int lane) { stopped[lane] = failed(statuses, chunk) ? 1 : 0; });
  return lanes.from(stopped, 0) != 0;
}

}  // namespace penstock::inline v0::device
