#include <fmt/format.h>

#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kHeapIdBytes = 8;

// The heap of shared messages of a type, from the file's table of them.
result<std::uint64_t> heap_of_shared(hdf5_file& file, std::uint16_t type) {
  constexpr std::uint64_t kMostIndexes = 8;
  if (file.undefined(file.extension())) return hdf5_damaged("a shared message in a file without a table of them");
  PENSTOCK_ASSIGN(const auto extension, read_hdf5_object(file, file.extension()));
  const hdf5_message* const found = find_message(extension, hdf5_message::shared_table);
  if (found == nullptr) return hdf5_damaged("a shared message in a file without a table of them");
  hdf5_cursor message(found->body);
  message.skip(1);
  const std::uint64_t address = message.number(file.offset_bytes()), count = message.number(1);
  if (!message.ok() || count > kMostIndexes) return hdf5_damaged("the table of shared messages is damaged");
  const std::uint64_t one = 1 + 1 + 2 + 4 + 3 * 2 + 2 * file.offset_bytes();
  PENSTOCK_ASSIGN(const auto table,
                  file.checked(address, 4 + count * one + kHdf5ChecksumBytes, "the table of shared messages"));
  hdf5_cursor cursor(table);
  if (!cursor.is("SMTB")) return hdf5_damaged(fmt::format("no table of shared messages is at address {}", address));
  for (std::uint64_t i = 0; i < count; ++i) {
    cursor.skip(2);
    const std::uint64_t types = cursor.number(2);
    cursor.skip(4 + 3 * 2 + file.offset_bytes());
    const std::uint64_t heap = cursor.number(file.offset_bytes());
    if ((types >> type & 1) != 0) return heap;
  }
  return hdf5_damaged(fmt::format("no table has shared messages of type {}", type));
}

}  // namespace

result<std::vector<std::byte>> read_hdf5_shared(hdf5_file& file, std::uint16_t type, std::span<const std::byte> body) {
  enum : std::uint64_t { kInHeap = 1, kCommitted = 2, kInHeader = 3 };
  hdf5_cursor cursor(body);
  const std::uint64_t version = cursor.number(1), stored = cursor.number(1);
  if (version < 1 || version > 3) return hdf5_unknown(fmt::format("a shared message of version {}", version));
  const std::uint64_t how = version == 3 ? stored : kCommitted;
  if (version == 1) cursor.skip(6 + file.length_bytes());
  if (how == kInHeap) {
    const auto id = cursor.bytes(kHeapIdBytes);
    if (!cursor.ok()) return hdf5_damaged("a shared message is truncated");
    PENSTOCK_ASSIGN(const std::uint64_t address, heap_of_shared(file, type));
    PENSTOCK_ASSIGN(hdf5_fractal_heap heap, hdf5_fractal_heap::read(file, address));
    return heap.object(id);
  }
  if (how != kCommitted && how != kInHeader)
    return hdf5_unknown(fmt::format("a shared message of unknown kind {}", how));
  const std::uint64_t address = cursor.number(file.offset_bytes());
  if (!cursor.ok()) return hdf5_damaged("a shared message is truncated");
  PENSTOCK_ASSIGN(auto header, read_hdf5_object(file, address));
  for (hdf5_message& each : header)
    if (each.type == type && !each.shared) return std::move(each.body);
  return hdf5_damaged(fmt::format("the object at address {} has no message of type {} to share", address, type));
}

result<> resolve_hdf5_shared(hdf5_file& file, std::vector<hdf5_message>& header) {
  for (hdf5_message& each : header) {
    if (!each.shared) continue;
    auto body = read_hdf5_shared(file, each.type, each.body);
    if (!body.ok()) {
      if (file.waiting()) continue;
      return std::move(body).error();
    }
    each.body = std::move(*body);
    each.shared = false;
  }
  return {};
}

}  // namespace penstock::inline v0
