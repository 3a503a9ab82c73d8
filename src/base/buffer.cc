#include "base/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kAlignment = 64;
/// More than a process can address: refused before it is rounded or allocated.
constexpr std::uint64_t kAddressableBytes = std::uint64_t{1} << 47;

// The next of 1, 1.25, 1.5, 1.75 times a power of two: sizes that differ a little between uses become equal.
std::uint64_t roomy(std::uint64_t bytes) noexcept {
  if (bytes <= 4 * kAlignment) return round_up(bytes, kAlignment);
  const std::uint64_t power = std::uint64_t{1} << (63 - __builtin_clzll(bytes));
  return round_up(round_up(bytes, power / 4), kAlignment);
}

}  // namespace

buffer& buffer::operator=(buffer&& other) noexcept {
  if (this == &other) return *this;
  free();
  block_ = std::exchange(other.block_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  ledger_ = other.ledger_;
  use_ = other.use_;
  return *this;
}

result<std::span<std::byte>> buffer::reserve(std::uint64_t bytes) {
  if (bytes <= capacity_) return std::span(data_, static_cast<std::size_t>(bytes));
  const auto refuse = [bytes] {
    return error(errc::resource_exhausted, fmt::format("the system has no memory for a buffer of {} bytes", bytes));
  };
  if (bytes >= kAddressableBytes) return refuse();

  // The contents are not kept, so the old memory is released first: the peak is the new size, not the sum of both.
  free();
  std::uint64_t size = roomy(bytes);
  if (ledger_ != nullptr) {
    if (!ledger_->take(use_, size).ok()) {
      size = round_up(bytes, kAlignment);  // close to the limit the exact size may still fit
      PENSTOCK_TRY(ledger_->take(use_, size));
    }
  }
  // Not aligned_alloc: after glibc frees its memory, the gap is too small for the next block of the same size.
  block_ = std::malloc(static_cast<std::size_t>(size + kAlignment));
  if (block_ == nullptr) {
    if (ledger_ != nullptr) ledger_->give(use_, size);
    return refuse();
  }
  data_ = static_cast<std::byte*>(block_);
  data_ += round_up(reinterpret_cast<std::uintptr_t>(data_), kAlignment) - reinterpret_cast<std::uintptr_t>(data_);
  capacity_ = size;
  return std::span(data_, static_cast<std::size_t>(bytes));
}

result<std::span<std::byte>> buffer::extend(std::uint64_t kept, std::uint64_t bytes) {
  if (bytes <= capacity_) return std::span(data_, static_cast<std::size_t>(bytes));
  buffer larger(ledger_, use_);
  PENSTOCK_ASSIGN(const std::span<std::byte> out, larger.reserve(bytes));
  kept = std::min(kept, capacity_);
  if (kept > 0) std::memcpy(out.data(), data_, static_cast<std::size_t>(kept));
  *this = std::move(larger);
  return out;
}

void buffer::free() noexcept {
  if (data_ == nullptr) return;
  std::free(std::exchange(block_, nullptr));
  if (ledger_ != nullptr) ledger_->give(use_, capacity_);
  data_ = nullptr;
  capacity_ = 0;
}

}  // namespace penstock::inline v0
