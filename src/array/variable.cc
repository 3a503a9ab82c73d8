#include <penstock/variable.h>

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kSharedBlock = 64 << 10;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;

error no_memory(std::uint64_t bytes) {
  return {errc::resource_exhausted, fmt::format("the system has no memory for {} bytes of items", bytes)};
}

}  // namespace

result<std::span<std::byte>> item_arena::allocate(std::uint64_t bytes) {
  if (bytes == 0) return std::span<std::byte>();
  if (bytes > kMostBytes) return no_memory(bytes);
  const auto size = static_cast<std::size_t>(bytes);
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  if (size <= rest_.size()) {
    const std::span<std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  const bool shared = size < kSharedBlock / 4;
  const std::size_t block = shared ? kSharedBlock : size;
  std::unique_ptr<std::byte[]> made(new (std::nothrow) std::byte[block]);
  if (made == nullptr) return no_memory(bytes);
  const std::span<std::byte> all(made.get(), block);
  blocks_.push_back(std::move(made));
  if (shared) rest_ = all.subspan(size);
  return all.first(size);
}

result<variable_item> item_arena::copy(std::span<const std::byte> bytes) {
  if (bytes.empty()) return variable_item();
  PENSTOCK_ASSIGN(const std::span<std::byte> room, allocate(bytes.size()));
  std::memcpy(room.data(), bytes.data(), bytes.size());
  return variable_item{room.data(), bytes.size()};
}

void item_arena::keep(std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(owner));
}

std::uint64_t item_arena::bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void item_arena::clear() noexcept {
  std::vector<std::shared_ptr<const void>> dropped;  // released after the lock: owners may run any code
  {
    const std::lock_guard lock(mutex_);
    blocks_.clear();
    dropped.swap(kept_);
    rest_ = {};
    bytes_ = 0;
  }
}

}  // namespace penstock::inline v0
