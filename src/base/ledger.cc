#include "base/ledger.h"

#include <fmt/format.h>

namespace penstock::inline v0 {
namespace {

constexpr std::string_view name_of(memory_use use) noexcept {
  switch (use) {
    case memory_use::scratch:
      return "scratch";
    case memory_use::encoded:
      return "encoded";
    case memory_use::index:
      return "index";
    case memory_use::cells:
      return "cell cache";
    case memory_use::output_pool:
      return "output pool";
    case memory_use::page_locked:
      return "page-locked";
    case memory_use::device:
      return "device";
  }
  return "unnamed";
}

constexpr bool shares_memory_limit(memory_use use) noexcept {
  return use == memory_use::scratch || use == memory_use::encoded || use == memory_use::index;
}

// Adds unless the sum would exceed `limit`; the compare-and-swap makes the limit exact among threads.
bool add_within(std::atomic<std::uint64_t>& account, std::uint64_t bytes, std::uint64_t limit) noexcept {
  std::uint64_t now = account.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || now > limit - bytes) return false;
  } while (!account.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace

result<> ledger::take(memory_use use, std::uint64_t bytes) noexcept {
  std::atomic<std::uint64_t>& mine = held_[index(use)];
  if (shares_memory_limit(use)) {
    if (!add_within(limited_, bytes, memory_limit_)) {
      return error(errc::resource_exhausted,
                   fmt::format("{} bytes of {} memory exceed the memory limit: {} of {} bytes are in use", bytes,
                               name_of(use), limited_.load(std::memory_order_relaxed), memory_limit_));
    }
    mine.fetch_add(bytes, std::memory_order_relaxed);
  } else {
    const std::uint64_t limit = use == memory_use::output_pool ? output_limit_ : ~std::uint64_t{0};
    if (!add_within(mine, bytes, limit)) {
      return error(errc::resource_exhausted,
                   fmt::format("{} bytes exceed the limit of the {}: {} of {} bytes are in use", bytes, name_of(use),
                               held(use), limit));
    }
  }
  std::atomic<std::uint64_t>& peak = peak_[index(use)];
  const std::uint64_t now = mine.load(std::memory_order_relaxed);
  std::uint64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return {};
}

void ledger::give(memory_use use, std::uint64_t bytes) noexcept {
  held_[index(use)].fetch_sub(bytes, std::memory_order_relaxed);
  if (shares_memory_limit(use)) limited_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace penstock::inline v0
