#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/dtype.h>
#include <penstock/variable.h>

namespace penstock::inline v0 {

/// Whether elements are lists whose items have variable length, or are arrays. Zarr does not store them.
inline bool is_nested_list(const dtype& type) noexcept {
  return type.item() != nullptr && (type.item()->variable_length() || !type.item_shape().empty());
}

/// Items of variable length within a list: each has the number of its bytes before it.
inline constexpr std::size_t kListLengthBytes = 4;
inline constexpr std::uint64_t kMostListItemBytes = ~std::uint32_t{0};

/// Takes the next item from the beginning of `left`; nullopt: the bytes are none, or are not an item.
inline std::optional<std::span<const std::byte>> take_list_item(std::span<const std::byte>& left) noexcept {
  if (left.size() < kListLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = kListLengthBytes; i-- > 0;) length = length << 8 | static_cast<std::size_t>(left[i]);
  if (left.size() - kListLengthBytes < length) return std::nullopt;
  const auto item = left.subspan(kListLengthBytes, length);
  left = left.subspan(kListLengthBytes + length);
  return item;
}

/// The items of a list whose items have variable length. They refer to the memory of `list`. Ends at bytes that are not
/// an item, which no read produces.
inline std::vector<variable_item> split_list(const variable_item& list) {
  std::vector<variable_item> out;
  std::span<const std::byte> left(list.data, static_cast<std::size_t>(list.size));
  while (const auto item = take_list_item(left)) out.push_back({item->data(), item->size()});
  return out;
}

/// Writes the number of an item's bytes. \pre `length` is at most kMostListItemBytes.
inline void store_list_length(std::uint64_t length, std::byte* to) noexcept {
  for (std::size_t i = 0; i < kListLengthBytes; ++i) to[i] = static_cast<std::byte>(length >> (8 * i));
}

}  // namespace penstock::inline v0
