#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/config.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// An element of variable length in memory: a reference to its bytes.
///
/// variable_utf8: UTF-8; variable_bytes: bytes; `data` may be null if `size` is 0. object: `data` is a PyObject*,
/// `size` is 0. variable_list: the bytes of the items, in this machine's byte order, not aligned; before each item of
/// variable length its size (4 bytes, little-endian). All zeros are the empty string or list.
struct variable_item {
  const std::byte* data = nullptr;
  std::uint64_t size = 0;

  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data), size}; }
};
static_assert(sizeof(variable_item) == 16);

/// Owns the bytes of variable items: those of a read's result, or of a cell that will be encoded. Thread-safe.
///
/// Blocks never move and live until the arena is cleared or destroyed.
class PENSTOCK_API item_arena {
 public:
  item_arena() noexcept = default;
  item_arena(const item_arena&) = delete;

  /// Uninitialised memory.
  /// \error resource_exhausted  The system has too little memory.
  result<std::span<std::byte>> allocate(std::uint64_t bytes);
  /// A copy of `bytes`, as an item.
  result<variable_item> copy(std::span<const std::byte> bytes);
  /// Keeps another object alive that items point into.
  void keep(std::shared_ptr<const void> owner);

  /// Total number of bytes.
  std::uint64_t bytes() const noexcept;
  /// Drops all items.
  void clear() noexcept;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::span<std::byte> rest_;  // of the last block that small items share
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::inline v0
