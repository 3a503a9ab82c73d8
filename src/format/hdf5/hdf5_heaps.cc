#include "format/hdf5/hdf5_heaps.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

/// In the headers of a global heap's collections and objects, which are padded to a multiple of 8 bytes.
constexpr std::uint64_t kBytesBeforeLength = 8;

std::uint64_t heap_header_bytes(const hdf5_file& file) noexcept {
  return round_up(kBytesBeforeLength + file.length_bytes(), 8);
}

}  // namespace

result<hdf5_local_heap> hdf5_local_heap::read(hdf5_file& file, std::uint64_t address) {
  const std::size_t width = file.length_bytes();
  constexpr std::uint64_t kLikely = 512;  // the names of a small group follow
  PENSTOCK_ASSIGN(const auto header, file.begin_of(address, 8 + 2 * width + file.offset_bytes(), kLikely));
  hdf5_cursor cursor(header);
  if (!cursor.is("HEAP")) return hdf5_damaged(fmt::format("no heap of names is at address {}", address));
  cursor.skip(4);
  const std::uint64_t length = cursor.number(width);
  std::uint64_t free = cursor.number(width);
  PENSTOCK_ASSIGN(const auto names, file.at(cursor.number(file.offset_bytes()), length));
  hdf5_local_heap out;
  out.bytes_.assign(names.begin(), names.end());
  // Readers do not need the free blocks, but libhdf5 follows them to any address.
  constexpr std::uint64_t kNone = 1;
  for (std::size_t left = out.bytes_.size() / (2 * width); free != kNone && !file.unlimited(free); --left) {
    if (left == 0 || free > out.bytes_.size() || out.bytes_.size() - free < 2 * width)
      return hdf5_damaged("a heap of names whose list of free blocks leaves it");
    free = hdf5_cursor(std::span(out.bytes_).subspan(static_cast<std::size_t>(free))).number(width);
  }
  return out;
}

result<std::string_view> hdf5_local_heap::text(std::uint64_t offset) const {
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, bytes_.size()));
  const auto end = std::find(begin, bytes_.end(), std::byte{0});
  if (end == bytes_.end()) return hdf5_damaged(fmt::format("a name at {} of a heap of {}", offset, bytes_.size()));
  return std::string_view(reinterpret_cast<const char*>(&*begin), static_cast<std::size_t>(end - begin));
}

result<std::uint64_t> hdf5_global_heap::length_of(std::uint64_t collection) {
  const std::uint64_t prefix = heap_header_bytes(file_);
  constexpr std::uint64_t kLikely = 4096;  // the least size of a collection
  PENSTOCK_ASSIGN(const auto head, file_.begin_of(collection, prefix, kLikely));
  hdf5_cursor cursor(head);
  if (!cursor.is("GCOL") || cursor.number(1) != 1)
    return hdf5_damaged(fmt::format("no global heap collection is at address {}", collection));
  cursor.skip(3);
  const std::uint64_t length = cursor.number(file_.length_bytes());
  if (length < prefix) return hdf5_damaged(fmt::format("a global heap collection of {} bytes", length));
  return length;
}

// The object of a collection that has, apart from free space, only that; nullopt: the collection is not of this kind.
result<std::optional<std::span<const std::byte>>> hdf5_global_heap::long_object(std::uint64_t collection,
                                                                                std::uint64_t index) {
  constexpr std::uint64_t kLongBytes = std::uint64_t{64} << 10;
  const std::uint64_t prefix = heap_header_bytes(file_);
  const std::optional<std::span<const std::byte>> none;
  PENSTOCK_ASSIGN(const std::uint64_t length, length_of(collection));
  if (length <= kLongBytes) return none;
  std::uint64_t at = 0;
  if (!checked_add(collection, 2 * prefix, at)) return none;
  PENSTOCK_ASSIGN(const auto head, file_.at(collection + prefix, prefix));
  hdf5_cursor cursor(head);
  const std::uint64_t number = cursor.number(2);
  cursor.skip(6);
  const std::uint64_t bytes = cursor.number(file_.length_bytes());
  if (number != index || bytes <= kLongBytes || bytes > length - 2 * prefix) return none;
  PENSTOCK_ASSIGN(const auto object, file_.at(at, bytes));
  return std::optional(object);
}

result<hdf5_global_heap::contents> hdf5_global_heap::parse(std::uint64_t collection) {
  const std::uint64_t prefix = heap_header_bytes(file_);
  PENSTOCK_ASSIGN(const std::uint64_t length, length_of(collection));
  PENSTOCK_ASSIGN(const auto block, file_.at(collection, length));
  contents made;
  made.address = collection;
  made.bytes.assign(block.begin(), block.end());
  hdf5_cursor inside(made.bytes);
  inside.skip(prefix);
  while (inside.left() >= prefix) {
    const std::uint64_t index = inside.number(2);
    inside.skip(6);
    const std::uint64_t bytes = inside.number(file_.length_bytes());
    if (index == 0) break;  // the rest is free
    inside.skip(prefix - kBytesBeforeLength - file_.length_bytes());
    const auto object = inside.bytes(bytes);
    if (!inside.ok()) return hdf5_damaged(fmt::format("object {} exceeds its global heap collection", index));
    inside.skip(std::min<std::uint64_t>((8 - bytes % 8) % 8, inside.left()));
    made.objects.push_back({index, object});
  }
  std::stable_sort(made.objects.begin(), made.objects.end(),
                   [](const entry& a, const entry& b) { return a.index < b.index; });
  return made;
}

result<const hdf5_global_heap::contents*> hdf5_global_heap::read(std::uint64_t collection) {
  if (last_ != nullptr && last_->address == collection) return last_;
  auto known = collections_.find(collection);
  if (known == collections_.end()) {
    PENSTOCK_ASSIGN(contents made, parse(collection));
    known = collections_.emplace(collection, std::move(made)).first;
  }
  last_ = &known->second;
  return last_;
}

result<std::span<const std::byte>> hdf5_global_heap::object(std::uint64_t collection, std::uint64_t index) {
  if (collection == 0 || file_.undefined(collection)) return std::span<const std::byte>();
  if (!keeps_long_ && !collections_.contains(collection)) {
    PENSTOCK_ASSIGN(const auto found, long_object(collection, index));
    if (found) return *found;
  }
  PENSTOCK_ASSIGN(const contents* const in, read(collection));
  const auto found = std::lower_bound(in->objects.begin(), in->objects.end(), index,
                                      [](const entry& each, std::uint64_t wanted) { return each.index < wanted; });
  if (found == in->objects.end() || found->index != index)
    return hdf5_damaged(fmt::format("the global heap collection at {} has no object {}", collection, index));
  return found->bytes;
}

}  // namespace penstock::inline v0
