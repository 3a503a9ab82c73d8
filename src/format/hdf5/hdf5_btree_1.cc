// Chunks in a B-tree of version 1. Source: HDF5 File Format Specification 3.0, III.A.1.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "format/hdf5/hdf5_index_forms.h"

namespace penstock::inline v0 {
namespace {

struct subtree {
  std::uint64_t address;
  std::uint64_t level;
};

constexpr std::uint64_t kAnyLevelOfChunks = 256;

/// Adds the chunks of one node, or the subtrees below it in reverse order.
result<> read_chunk_node(hdf5_file& file, const subtree& from, hdf5_chunk_columns& to, std::vector<subtree>& todo) {
  const hdf5_chunk_grid& grid = to.grid();
  const hdf5_btree_1_form form(file.offset_bytes(), grid.rank());
  PENSTOCK_ASSIGN(const auto begin, file.begin_of(from.address, form.prefix_bytes, form.likely_bytes()));
  hdf5_cursor head(begin);
  auto read = hdf5_btree_1_form::read_prefix(head);
  if (!read.ok()) return std::move(read).error().note(fmt::format("at address {}", from.address));
  const auto [level, used] = *read;
  if (from.level != kAnyLevelOfChunks && level + 1 != from.level)
    return hdf5_damaged(fmt::format("a node of level {} below one of level {}", level, from.level));
  PENSTOCK_ASSIGN(const auto node, file.at(from.address, form.prefix_bytes + used * form.entry_bytes));
  hdf5_cursor cursor(node);
  cursor.skip(form.prefix_bytes);
  hdf5_chunk_coordinates place{};
  const std::size_t first = todo.size();
  if (level == 0) to.reserve(static_cast<std::size_t>(used));
  for (std::uint64_t i = 0; i < used; ++i) {
    const std::uint64_t length = cursor.number(4), mask = cursor.number(4);
    for (std::size_t d = 0; d < grid.rank(); ++d) place[d] = cursor.number(8) / grid.chunk_elements(d);
    cursor.skip(8);
    const std::uint64_t child = cursor.number(file.offset_bytes());
    if (level == 0)
      to.add(std::span(place).first(grid.rank()), child, length, mask);
    else
      todo.push_back({child, level});
  }
  std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
  return {};
}

}  // namespace

result<hdf5_btree_1_form::node> hdf5_btree_1_form::read_prefix(hdf5_cursor& cursor) {
  if (!cursor.is("TREE") || cursor.number(1) != 1) return hdf5_damaged("a block is not a node of a B-tree of chunks");
  node out;
  out.level = cursor.number(1);
  out.used = cursor.number(2);
  return out;
}

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
