// Chunks in a B-tree of version 1. Source: HDF5 File Format Specification 3.0, III.A.1.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
namespace {

struct subtree {
  std::uint64_t address;
  std::uint64_t level;
};

constexpr std::uint64_t kAnyLevelOfChunks = 256;

/// Adds the chunks of one node, or the subtrees below it in reverse order.
result<> read_chunk_node(hdf5_file& file, const subtree& from, hdf5_chunk_columns& to, std::vector<subtree>& todo) {
  const std::uint64_t prefix = 8 + 2 * file.offset_bytes();
  const std::uint64_t key = 8 + 8 * (to.rank() + 1);
  constexpr std::uint64_t kLikely = 64;  // children of a full node
  PENSTOCK_ASSIGN(const auto begin,
                  file.begin_of(from.address, prefix, prefix + kLikely * (key + file.offset_bytes())));
  hdf5_cursor head(begin);
  if (!head.is("TREE") || head.number(1) != 1)
    return hdf5_damaged(fmt::format("no node of a chunk's B-tree stands at address {}", from.address));
  const std::uint64_t level = head.number(1), used = head.number(2);
  if (from.level != kAnyLevelOfChunks && level + 1 != from.level)
    return hdf5_damaged(fmt::format("a node of level {} below one of level {}", level, from.level));
  PENSTOCK_ASSIGN(const auto node, file.at(from.address, prefix + used * (key + file.offset_bytes())));
  hdf5_cursor cursor(node);
  cursor.skip(prefix);
  std::array<std::uint64_t, kMaxRank> place{};
  const std::size_t first = todo.size();
  for (std::uint64_t i = 0; i < used; ++i) {
    const std::uint64_t length = cursor.number(4), mask = cursor.number(4);
    for (std::size_t d = 0; d < to.rank(); ++d) place[d] = cursor.number(8) / to.chunk_elements(d);
    cursor.skip(8);
    const std::uint64_t child = cursor.number(file.offset_bytes());
    if (level == 0)
      to.add(std::span(place).first(to.rank()), child, length, mask);
    else
      todo.push_back({child, level});
  }
  std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
  return {};
}

}  // namespace

result<> list_hdf5_btree_1(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  std::vector<subtree> todo{{address, kAnyLevelOfChunks}};
  while (!todo.empty()) {
    const subtree next = todo.back();
    todo.pop_back();
    auto read = read_chunk_node(file, next, to, todo);
    if (!read.ok() && !file.waiting()) return read;
  }
  return {};
}

}  // namespace penstock::inline v0
