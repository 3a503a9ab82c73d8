// The fake driver: memory of devices and of the host, and copies.

#include <sys/mman.h>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_node.h"
#include "base/system_calls.h"
#include "support/fake_cuda/fake_driver.h"

namespace penstock::test::fake {

namespace {

constexpr std::uint64_t kHostAlignment = 4096;
constexpr std::size_t kLongHostMemory = std::size_t{1} << 20;

// Copies while exactly that memory is accessible; if it was freed in the meantime, the copy faults, as it should.
std::function<void()> copying(void* to, const void* from, std::size_t bytes) {
  return [to, from, bytes] {
    const fake_memory::access open(self().memory, {to, from}, bytes);
    std::memmove(to, from, bytes);
  };
}

// Counts an allocation of host memory by a thread that prefers a NUMA node.
void count_preferred_node() {
  constexpr int kPreferred = 1;
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  int mode = 0;
  unsigned long nodes[preferred_node::kMostNodes / kBits] = {};
  if (!get_memory_policy(mode, nodes) || mode != kPreferred) return;
  for (unsigned word = 0; word < std::size(nodes); ++word) {
    if (nodes[word] == 0) continue;
    const unsigned node = word * kBits + static_cast<unsigned>(std::countr_zero(nodes[word]));
    self().count(("page-locked near node " + std::to_string(node)).c_str());
    return;
  }
}

}  // namespace

driver_status mem_alloc(device_address* out, std::size_t bytes) {
  PENSTOCK_CALLED("cuMemAlloc");
  const int device = fake_driver::current_device_number();
  if (device < 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *out = self().memory.allocate(bytes, device);
  return *out == 0 ? kOutOfMemory : kSuccess;
}

driver_status mem_free(device_address address) {
  PENSTOCK_CALLED("cuMemFree");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();  // as the driver does
  return self().memory.free(address) ? kSuccess : kInvalidValue;
}

driver_status mem_get_info(std::size_t* free, std::size_t* total) {
  PENSTOCK_CALLED("cuMemGetInfo");
  *total = std::size_t{1} << 32;
  *free = *total - std::min<std::size_t>(*total, self().memory.live_bytes());
  return kSuccess;
}

driver_status mem_host_alloc(void** out, std::size_t bytes, unsigned) {
  PENSTOCK_CALLED("cuMemHostAlloc");
  count_preferred_node();
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  const std::size_t whole = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  if (self().refuses_system_calls && bytes >= kLongHostMemory) {
    *out = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::lock_guard lock(self().mutex);
    self().page_locked[reinterpret_cast<std::uintptr_t>(*out)] = bytes;
    self().mapped[*out] = whole;
    return kSuccess;
  }
  *out = std::aligned_alloc(kHostAlignment, whole);
  if (*out == nullptr) return kOutOfMemory;
  const std::lock_guard lock(self().mutex);
  self().page_locked[reinterpret_cast<std::uintptr_t>(*out)] = bytes;
  return kSuccess;
}

driver_status mem_free_host(void* memory) {
  PENSTOCK_CALLED("cuMemFreeHost");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  {
    const std::lock_guard lock(self().mutex);
    if (self().page_locked.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return kInvalidValue;
    if (const auto mapped = self().mapped.find(memory); mapped != self().mapped.end()) {
      munmap(memory, mapped->second);
      self().mapped.erase(mapped);
      return kSuccess;
    }
  }
  std::free(memory);
  return kSuccess;
}

driver_status mem_host_register(void* memory, std::size_t bytes, unsigned) {
  PENSTOCK_CALLED("cuMemHostRegister");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  const std::lock_guard lock(self().mutex);
  self().page_locked[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return kSuccess;
}

driver_status mem_host_unregister(void* memory) {
  PENSTOCK_CALLED("cuMemHostUnregister");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  self().streams.synchronize_all();
  const std::lock_guard lock(self().mutex);
  return self().page_locked.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0 ? kInvalidValue : kSuccess;
}

driver_status copy_to_device(device_address to, const void* from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyHtoDAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr) return kInvalidValue;
  if (self().is_page_locked(from, bytes)) return enqueue(stream, copying(pointer_to(to), from, bytes));
  self().count("pageable copy");
  if (self().reads_ordinary_memory()) return enqueue(stream, copying(pointer_to(to), from, bytes));
  // The driver stages memory that is not page-locked before it returns.
  const auto* const bytes_of = static_cast<const std::byte*>(from);
  auto staged = std::make_shared<std::vector<std::byte>>(bytes_of, bytes_of + bytes);
  return enqueue(stream, [to, staged] { copying(pointer_to(to), staged->data(), staged->size())(); });
}

// In any order, as the driver may.
driver_status copy_batch(device_address* to, device_address* from, std::size_t* bytes, std::size_t count,
                         copy_attributes* attributes, std::size_t* first, std::size_t attribute_count,
                         std::size_t* failed_at, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyBatchAsync");
  *failed_at = std::numeric_limits<std::size_t>::max();
  if (count == 0 || attribute_count != 1 || first[0] != 0 || attributes[0].source_order != 1) return kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    *failed_at = i;
    if (bytes[i] == 0 || self().memory.find(to[i], bytes[i]) == nullptr ||
        !self().is_page_locked(pointer_to(from[i]), bytes[i]))
      return kInvalidValue;
  }
  for (std::size_t i = count; i-- > 0;) {
    const driver_status queued = enqueue(stream, copying(pointer_to(to[i]), pointer_to(from[i]), bytes[i]));
    if (queued != kSuccess) return queued;
  }
  return kSuccess;
}

driver_status copy_to_host(void* to, device_address from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyDtoHAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(from, bytes) == nullptr) return kInvalidValue;
  const bool page_locked = self().is_page_locked(to, bytes);
  if (!page_locked) self().count("pageable copy");
  const driver_status queued = enqueue(stream, copying(to, pointer_to(from), bytes));
  if (queued == kSuccess && !page_locked) self().streams.synchronize(*self().stream_of(stream));  // as the driver does
  return queued;
}

driver_status copy_on_device(device_address to, device_address from, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemcpyDtoDAsync");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr || self().memory.find(from, bytes) == nullptr) return kInvalidValue;
  return enqueue(stream, copying(pointer_to(to), pointer_to(from), bytes));
}

driver_status set_bytes(device_address to, unsigned char value, std::size_t bytes, stream_ref stream) {
  PENSTOCK_CALLED("cuMemsetD8Async");
  if (bytes == 0) return kSuccess;
  if (self().memory.find(to, bytes) == nullptr) return kInvalidValue;
  return enqueue(stream, [to, value, bytes] {
    const fake_memory::access open(self().memory, {pointer_to(to)}, bytes);
    std::memset(pointer_to(to), value, bytes);
  });
}

driver_status pointer_get_attribute(void* out, int which, device_address address) {
  PENSTOCK_CALLED("cuPointerGetAttribute");
  const fake_memory::block* const found = self().memory.find(address, 1);
  const bool page_locked = found == nullptr && self().is_page_locked(pointer_to(address), 1);
  if (found == nullptr && !page_locked) return kInvalidValue;
  if (which == kPointerContext) {
    const bool is_foreign = address >= self().foreign && address - self().foreign < self().foreign_bytes;
    const context_ref owner = fake_driver::context_of(is_foreign         ? kForeignContext
                                                      : found == nullptr ? 0
                                                                         : found->device);
    std::memcpy(out, &owner, sizeof owner);
    return kSuccess;
  }
  if (which == kPointerIsManaged) {
    std::memset(out, 0, sizeof(unsigned));
    return kSuccess;
  }
  const unsigned value = which == kPointerMemoryType ? (found != nullptr ? kMemoryTypeDevice : kMemoryTypeHost)
                         : found != nullptr          ? static_cast<unsigned>(found->device)
                                                     : 0;
  std::memcpy(out, &value, sizeof value);
  return kSuccess;
}

}  // namespace penstock::test::fake
