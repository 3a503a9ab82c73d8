// The library's exports: the driver's entry, and functions for tests.

#include "support/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

#include "support/fake_cuda/fake_driver.h"

namespace penstock::test::fake {

// Never destroyed: like the real driver, it handles remaining calls at the end of the process.
fake_driver& self() {
  static fake_driver* const made = new fake_driver;
  return *made;
}

}  // namespace penstock::test::fake

using namespace penstock::test::fake;
using penstock::test::fake_memory;

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

PENSTOCK_EXPORT int cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t, int* found) {
  *out = nullptr;
#define PENSTOCK_FAKE_ENTRY(member, text, number, ...)                                    \
  if (std::string_view(name) == #text && std::min(version, self().version) >= (number)) { \
    const std::add_pointer_t<__VA_ARGS__> entry = member;                                 \
    *out = reinterpret_cast<void*>(entry);                                                \
  }
  PENSTOCK_CUDA_DRIVER(PENSTOCK_FAKE_ENTRY)
  PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_FAKE_ENTRY)
#undef PENSTOCK_FAKE_ENTRY
  if (found != nullptr) *found = *out == nullptr ? 1 : 0;
  return *out == nullptr ? kNotFound : kSuccess;
}

PENSTOCK_EXPORT void penstock_fake_cuda_configure(std::uint64_t seed, int lazy, unsigned max_delay_us) {
  self().pump_at("");
  self().after("", nullptr);
  self().refuses_system_calls = false;
  {
    const std::lock_guard lock(self().mutex);
    self().attributes.clear();
  }
  self().streams.configure(seed, lazy != 0, max_delay_us);
}
PENSTOCK_EXPORT void penstock_fake_cuda_hold_kernels(int hold) {
  self().streams.hold_kernels(hold != 0 ? "" : nullptr);
}
PENSTOCK_EXPORT void penstock_fake_cuda_hold_kernel(const char* name) { self().streams.hold_kernels(name); }
PENSTOCK_EXPORT void penstock_fake_cuda_block_at_random(unsigned one_in) { self().streams.block_at_random(one_in); }
PENSTOCK_EXPORT void penstock_fake_cuda_after_kernel(const char* name, void (*then)(const void* parameters)) {
  self().after(name, then);
}
PENSTOCK_EXPORT int penstock_fake_cuda_pump(int most) { return self().streams.pump(most); }
PENSTOCK_EXPORT bool penstock_fake_cuda_pending() { return self().streams.pending(); }
PENSTOCK_EXPORT void penstock_fake_cuda_pump_at(const char* name) { self().pump_at(name); }

PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_count(const char* name) {
  const std::lock_guard lock(self().mutex);
  const auto found = self().counts.find(name);
  return found == self().counts.end() ? 0 : found->second;
}
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_calls() {
  const std::lock_guard lock(self().mutex);
  return self().calls;
}
PENSTOCK_EXPORT void penstock_fake_cuda_reset_counts() {
  const std::lock_guard lock(self().mutex);
  self().counts.clear();
  self().calls = 0;
}
PENSTOCK_EXPORT void penstock_fake_cuda_fail(const char* name, std::uint64_t after, int status) {
  const std::lock_guard lock(self().mutex);
  self().failures[name] = {after, status};
}
PENSTOCK_EXPORT void penstock_fake_cuda_fault(int status) {
  {
    const std::lock_guard lock(self().mutex);
    self().fault = status;
  }
  self().streams.discard(status != kSuccess);
}
PENSTOCK_EXPORT void penstock_fake_cuda_capture(int begins) {
  const std::lock_guard lock(self().mutex);
  self().captured = begins != 0;
}
PENSTOCK_EXPORT int penstock_fake_cuda_capture_on(void* stream, int begins) {
  const auto found = self().stream_of(static_cast<stream_ref>(stream));
  if (!found) return kInvalidHandle;
  found->captures = begins != 0;
  return kSuccess;
}
PENSTOCK_EXPORT void penstock_fake_cuda_refuse_system_calls(int refuse) { self().refuses_system_calls = refuse != 0; }
PENSTOCK_EXPORT void penstock_fake_cuda_foreign(std::uint64_t address, std::uint64_t bytes) {
  self().foreign = address;
  self().foreign_bytes = bytes;
}
PENSTOCK_EXPORT void penstock_fake_cuda_attribute(int which, int value, int status) {
  const std::lock_guard lock(self().mutex);
  self().attributes[which] = {value, status};
}
PENSTOCK_EXPORT void penstock_fake_cuda_engine(int formats, int most_bytes) {
  self().engine_formats = formats;
  self().engine_most_bytes = most_bytes;
}

PENSTOCK_EXPORT int penstock_fake_cuda_enqueue(void* stream, void (*run)(void*), void* argument) {
  return enqueue(
      static_cast<stream_ref>(stream),
      [run, argument] {
        const fake_memory::access open(self().memory);
        run(argument);
      },
      "of a library");
}
PENSTOCK_EXPORT int penstock_fake_cuda_retained() { return self().retained; }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_live_bytes() { return self().memory.live_bytes(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_peak_bytes() { return self().memory.take_peak_bytes(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_live_allocations() { return self().memory.live_allocations(); }
PENSTOCK_EXPORT std::uint64_t penstock_fake_cuda_page_locked_bytes() {
  const std::lock_guard lock(self().mutex);
  std::uint64_t bytes = 0;
  for (const auto& [address, each] : self().page_locked) bytes += each;
  return bytes;
}
PENSTOCK_EXPORT bool penstock_fake_cuda_peek(void* to, std::uint64_t from, std::uint64_t bytes) {
  if (self().memory.find(from, bytes) == nullptr) return false;
  const fake_memory::access open(self().memory, {pointer_to(from)}, bytes);
  std::memcpy(to, pointer_to(from), bytes);
  return true;
}
