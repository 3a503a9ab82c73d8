#pragma once

/// \file
/// A CUDA driver of the tests, on host memory: a shared library that is loaded in place of libcuda.so.1 (the
/// environment variable PENSTOCK_CUDA_DRIVER names it). Streams are real queues whose operations run later, on another
/// thread and out of order across streams; kernels run as their host form; "device" memory can only be accessed by the
/// driver's own operations.
///
/// The environment variables PENSTOCK_FAKE_CUDA_DEVICES and PENSTOCK_FAKE_CUDA_VERSION (12000: 12.0) set its
/// properties.
///
/// It shows that the engine orders its work, reuses buffers only when it may, and makes the documented calls. It does
/// not show anything about time, or about code that nvcc compiled.

#include <cstdint>

extern "C" {

/// How operations are run. `lazy`: only while a thread synchronises, or by `pump`, after everything queued earlier;
/// otherwise a thread runs them. `max_delay_us`: each operation of the thread is late by up to that. `seed` determines
/// the order of the streams.
void penstock_fake_cuda_configure(std::uint64_t seed, int lazy, unsigned max_delay_us);
/// Kernels do not begin until they are released, or until the next `configure`.
void penstock_fake_cuda_hold_kernels(int hold);
/// The same for kernels with that name only; the number of runs of a name is counted as "ran" and the name.
void penstock_fake_cuda_hold_kernel(const char* name);
/// Until the next `configure`, `then` is called after each kernel of that name, with its arguments: to change its
/// results. Device memory is accessible during the call.
void penstock_fake_cuda_after_kernel(const char* name, void (*then)(const void* parameters));
/// Until the next `configure` launches and copies wait, a random one in `one_in`, until their stream has finished its
/// work: as with a full queue of the driver.
void penstock_fake_cuda_block_at_random(unsigned one_in);
/// Runs at most `most` operations (lazy mode); returns how many ran.
int penstock_fake_cuda_pump(int most);
/// Whether an operation could run now.
bool penstock_fake_cuda_pending();
/// From now on, until the next `configure`, everything that can run does so whenever a function of that name begins
/// (lazy mode): completions of the device occur at exactly that point of the caller.
void penstock_fake_cuda_pump_at(const char* name);

/// How often a driver function was called since the last reset. In addition to the driver's names there are "legacy
/// stream" (an operation on stream 0 or 1), "pageable copy" (a copy from or to memory that is not page-locked),
/// "kernel", "broken capture", "page-locked near node 0" (an allocation by a thread that prefers this NUMA node).
std::uint64_t penstock_fake_cuda_count(const char* name);
/// The sum over all calls.
std::uint64_t penstock_fake_cuda_calls();
void penstock_fake_cuda_reset_counts();
/// The call of `name` after `after` further ones fails with `status`, once.
void penstock_fake_cuda_fail(const char* name, std::uint64_t after, int status);
/// Simulates a fault of a kernel: queued and later work ends without effect, and every call except those for the
/// current context returns `status`. 0: reset, except for work that was lost.
void penstock_fake_cuda_fault(int status);

/// Another thread, outside of the library, begins to capture a graph or ends it.
void penstock_fake_cuda_capture(int begins);

/// Until the next `configure`, the system cannot write to page-locked memory of 1 MiB or more (EFAULT).
void penstock_fake_cuda_refuse_system_calls(int refuse);
/// Memory from `address` on belongs to a context that is not primary. 0 bytes: none does.
void penstock_fake_cuda_foreign(std::uint64_t address, std::uint64_t bytes);

/// A stream of the current context captures a graph from now on, or no longer does. Returns a driver's status.
int penstock_fake_cuda_capture_on(void* stream, int begins);

/// Devices have a decompression engine from now on: the formats and the longest stream that their attributes report. 0:
/// no engine.
void penstock_fake_cuda_engine(int formats, int most_bytes);

/// Until the next `configure`, devices have that attribute; `status` other than 0: the driver does not support it.
void penstock_fake_cuda_attribute(int which, int value, int status);

/// Queues `run(argument)` on a stream of the current context, as a library's kernel: device memory is accessible during
/// the call. Returns a driver's status.
int penstock_fake_cuda_enqueue(void* stream, void (*run)(void*), void* argument);

/// How often primary contexts were retained and not released since, for example by engines that still exist.
int penstock_fake_cuda_retained();
/// Page-locked memory in use, in bytes.
std::uint64_t penstock_fake_cuda_page_locked_bytes();
/// Device memory in use, in bytes; allocations that are live.
std::uint64_t penstock_fake_cuda_live_bytes();
std::uint64_t penstock_fake_cuda_live_allocations();
/// The most that was in use at once since the last call of this function.
std::uint64_t penstock_fake_cuda_peak_bytes();
/// Copies device memory to the host at once, bypassing all streams: its current content. False: no such memory.
bool penstock_fake_cuda_peek(void* to, std::uint64_t from, std::uint64_t bytes);
}
