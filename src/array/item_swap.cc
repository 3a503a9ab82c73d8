#include "array/item_swap.h"

#include "array/strided_copy.h"

namespace penstock::inline v0 {
namespace {

void swap_one(std::byte* items, std::uint64_t count, const dtype& type, const std::vector<bool>& leaves,
              std::size_t& leaf) noexcept {
  if (type.fields().empty()) {
    const std::size_t mine = leaf++;
    const std::uint32_t unit = type.swap_bytes();
    if (unit > 1 && (leaves.empty() || leaves[mine])) swap_contiguous(items, items, count * type.item_bytes(), unit);
    return;
  }
  if (count == 0) leaf += leaf_count(type);
  const std::size_t first = leaf;
  for (std::uint64_t i = 0; i < count; ++i, items += type.item_bytes()) {
    leaf = first;
    for (const dtype_field& each : type.fields()) {
      std::uint64_t block = 1;
      for (const std::uint64_t length : each.shape) block *= length;
      swap_one(items + each.offset, block, each.type, leaves, leaf);
    }
  }
}

}  // namespace

std::size_t leaf_count(const dtype& type) noexcept {
  if (type.fields().empty()) return 1;
  std::size_t count = 0;
  for (const dtype_field& each : type.fields()) count += leaf_count(each.type);
  return count;
}

void swap_items(std::byte* items, std::uint64_t count, const dtype& type, const std::vector<bool>& leaves) noexcept {
  std::size_t leaf = 0;
  swap_one(items, count, type, leaves, leaf);
}

}  // namespace penstock::inline v0
