#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// The stages of a read and of a write. `decode` writes directly into the result if it can; otherwise `scatter` is the
/// strided copy; `transfer` copies to a device, or encoded bytes back. `encode` gathers the values, and decodes chunks
/// that it changes; `commit` assembles an object and stores it; `fetch` includes the reads of a write. `compute` is the
/// caller's work on a device, as far as it is reported: from the return of a tile on its stream to the end of the work
/// that the caller queued there. Device work is timed by the device's events: copies one by one, kernels wave by wave.
enum class stage : std::uint8_t { plan, index, fetch, decode, scatter, fill, transfer, encode, commit, compute };
inline constexpr std::size_t kStages = 10;
PENSTOCK_API std::string_view to_string(stage which) noexcept;  ///< `plan`, `index`, ...
/// Events of devices have worker numbers from here on: one for each decode stream, one for the copy stream, two for the
/// streams of a write that the device encodes, and one for each stream that the caller computes on.
inline constexpr std::uint32_t kDeviceWorker = 1000;
inline constexpr std::uint32_t kCopyWorker = kDeviceWorker + 50;
inline constexpr std::uint32_t kComputeWorker = kDeviceWorker + 100;

/// One timed operation of one worker.
struct profile_event {
  stage what = stage::plan;
  std::uint32_t worker = 0;
  std::uint32_t read = 0;       ///< number of the read or write within the profile
  std::uint64_t operation = 0;  ///< fetch or decode position in its plan batch; of a write, the cell or the object
  std::uint64_t begin_ns = 0;   ///< steady clock, since the profile began
  std::uint64_t end_ns = 0;
  std::uint64_t bytes_in = 0;   ///< input: encoded bytes of a read, decoded bytes of `encode`
  std::uint64_t bytes_out = 0;  ///< output: decoded bytes of a read, encoded bytes of `encode` and `commit`
  std::int32_t device = -1;     ///< the ordinal of the device, for its events
};

struct profile_stage {
  stage what = stage::plan;
  std::uint64_t busy_ns = 0;  ///< summed over workers
  std::uint64_t operations = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

/// A kernel of this library, or a call of another library, on a device. Timed by the device's events, from the end of
/// the work that it had to wait for.
struct profile_kernel {
  std::string_view name;
  std::uint64_t busy_ns = 0;
  std::uint64_t launches = 0;
};

/// How devices spent `wall_ns`: the time in which at least one of their streams had such work. Kernels (also the
/// caller's, as far as they are reported) and copies may overlap. `waiting`: no stream had work; the device waited for
/// storage, the host or the caller. `storage`: the part of `waiting` in which the host was reading from storage. Events
/// that were dropped count too.
struct profile_device {
  std::int32_t ordinal = -1;  ///< -1: all devices together
  std::uint64_t computing_ns = 0, copying_ns = 0, waiting_ns = 0, storage_ns = 0;
};

/// What a context did between `start` and `stop`. The number of recorded events is limited; sums are always exact.
struct profile_report {
  std::uint64_t wall_ns = 0;  ///< first begin to last end
  std::uint32_t workers = 0;
  std::vector<profile_stage> stages;
  std::vector<profile_event> events;
  std::uint64_t dropped_events = 0;
  std::uint64_t store_requests = 0, store_bytes = 0;
  std::uint64_t reads = 0, writes = 0;
  std::vector<profile_kernel> kernels;
  profile_device device;                ///< if no device was read to, `waiting_ns` is the whole time
  std::vector<profile_device> devices;  ///< each device that had work, in the order of the ordinals
};

}  // namespace penstock::inline v0
