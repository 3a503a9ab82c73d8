#include "format/hdf5/hdf5_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {
namespace {

using found = std::optional<std::uint64_t>;

/// One link of a group.
struct group_link {
  std::string_view name;
  std::uint64_t object;
  bool hard;
};
/// False: no more of them.
using link_visitor = std::function<bool(const group_link&)>;

/// A group of links in a B-tree of version 1, whose names are in a heap.
class symbol_table {
 public:
  explicit symbol_table(hdf5_file& file) noexcept : file_(file) {}

  result<> visit(const hdf5_message& message, const link_visitor& each) {
    hdf5_cursor cursor(message.body);
    const std::uint64_t tree = cursor.number(file_.offset_bytes()), heap = cursor.number(file_.offset_bytes());
    if (!cursor.ok()) return hdf5_damaged("a group's symbol table is cut off");
    PENSTOCK_TRY(read_heap(heap));
    return walk(tree, each);
  }

 private:
  result<> read_heap(std::uint64_t address) {
    const std::uint64_t bytes = 8 + 2 * file_.length_bytes() + file_.offset_bytes();
    PENSTOCK_ASSIGN(const auto header, file_.at(address, bytes));
    hdf5_cursor cursor(header);
    if (!cursor.is("HEAP")) return hdf5_damaged(fmt::format("no heap of names stands at address {}", address));
    cursor.skip(4);
    const std::uint64_t length = cursor.number(file_.length_bytes());
    const std::uint64_t free = cursor.number(file_.length_bytes());
    PENSTOCK_ASSIGN(const auto names, file_.at(cursor.number(file_.offset_bytes()), length));
    names_.assign(names.begin(), names.end());
    return check_free_blocks(free);
  }

  // Nothing here needs them, but the library follows them wherever they lead.
  result<> check_free_blocks(std::uint64_t at) const {
    constexpr std::uint64_t kNone = 1;
    const std::size_t width = file_.length_bytes();
    for (std::size_t left = names_.size() / (2 * width); at != kNone && !file_.unlimited(at); --left) {
      if (left == 0 || at > names_.size() || names_.size() - at < 2 * width)
        return hdf5_damaged("a heap of names whose free blocks lead astray");
      at = hdf5_cursor(std::span(names_).subspan(static_cast<std::size_t>(at))).number(width);
    }
    return {};
  }

  result<> walk(std::uint64_t root, const link_visitor& each) {
    struct subtree {
      std::uint64_t address, above;
    };
    constexpr std::uint64_t kAnyLevel = 256;
    std::vector<subtree> todo{{root, kAnyLevel}};
    const std::uint64_t prefix = 8 + 2 * file_.offset_bytes();
    while (!todo.empty()) {
      const subtree next = todo.back();
      todo.pop_back();
      PENSTOCK_ASSIGN(const auto begin, file_.at(next.address, prefix));
      hdf5_cursor head(begin);
      if (!head.is("TREE") || head.number(1) != 0)
        return hdf5_damaged(fmt::format("no node of a group's B-tree stands at address {}", next.address));
      const std::uint64_t level = head.number(1), used = head.number(2);
      if (next.above != kAnyLevel && level + 1 != next.above)
        return hdf5_damaged(fmt::format("a node of level {} below one of level {}", level, next.above));
      const std::uint64_t one = file_.length_bytes() + file_.offset_bytes();
      PENSTOCK_ASSIGN(const auto node, file_.at(next.address, prefix + used * one));
      hdf5_cursor cursor(node);
      cursor.skip(prefix);
      std::vector<std::uint64_t> children;
      for (std::uint64_t i = 0; i < used; ++i) {
        cursor.skip(file_.length_bytes());
        children.push_back(cursor.number(file_.offset_bytes()));
      }
      for (const std::uint64_t child : children) {
        if (level != 0) {
          todo.push_back({child, level});
          continue;
        }
        PENSTOCK_ASSIGN(const bool more, look(child, each));
        if (!more) return {};
      }
    }
    return {};
  }

  result<bool> look(std::uint64_t leaf, const link_visitor& each) {
    const std::uint64_t one = 2 * file_.offset_bytes() + 24;
    PENSTOCK_ASSIGN(const auto begin, file_.at(leaf, 8));
    hdf5_cursor head(begin);
    if (!head.is("SNOD")) return hdf5_damaged(fmt::format("no links of a group stand at address {}", leaf));
    head.skip(2);
    const std::uint64_t count = head.number(2);
    PENSTOCK_ASSIGN(const auto node, file_.at(leaf, 8 + count * one));
    hdf5_cursor cursor(node);
    cursor.skip(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t name = cursor.number(file_.offset_bytes()), object = cursor.number(file_.offset_bytes());
      const std::uint64_t kind = cursor.number(4);
      cursor.skip(20);
      PENSTOCK_ASSIGN(const std::string_view text, name_at(name));
      if (!each({text, object, kind != 2})) return false;
    }
    return true;
  }

  result<std::string_view> name_at(std::uint64_t offset) const {
    const auto begin = names_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, names_.size()));
    const auto end = std::find(begin, names_.end(), std::byte{0});
    if (end == names_.end()) return hdf5_damaged(fmt::format("a name at {} of a heap of {}", offset, names_.size()));
    return std::string_view(reinterpret_cast<const char*>(&*begin), static_cast<std::size_t>(end - begin));
  }

  hdf5_file& file_;
  std::vector<std::byte> names_;
};

result<group_link> parse_link(const hdf5_file& file, const hdf5_message& message) {
  hdf5_cursor cursor(message.body);
  if (cursor.number(1) != 1) return hdf5_unknown("a link of an unknown version");
  const std::uint64_t flags = cursor.number(1);
  const std::uint64_t kind = (flags & 0x08) != 0 ? cursor.number(1) : 0;
  if ((flags & 0x04) != 0) cursor.skip(8);  // when it was made
  if ((flags & 0x10) != 0) cursor.skip(1);  // how its name is encoded
  const auto name = cursor.bytes(cursor.number(std::size_t{1} << (flags & 3)));
  const std::uint64_t object = kind == 0 ? cursor.number(file.offset_bytes()) : 0;
  if (!cursor.ok()) return hdf5_damaged("a link is cut off");
  return group_link{{reinterpret_cast<const char*>(name.data()), name.size()}, object, kind == 0};
}

bool keeps_links_in_heap(const hdf5_file& file, const hdf5_message& message) noexcept {
  hdf5_cursor cursor(message.body);
  cursor.skip(1);
  if ((cursor.number(1) & 1) != 0) cursor.skip(8);
  const std::uint64_t heap = cursor.number(file.offset_bytes());
  return cursor.ok() && !file.undefined(heap);
}

result<> visit_links(hdf5_file& file, std::uint64_t group, const link_visitor& each) {
  PENSTOCK_ASSIGN(const std::vector<hdf5_message> header, read_hdf5_object(file, group));
  for (const hdf5_message& message : header) {
    if (message.shared) continue;
    if (message.type == hdf5_message::link) {
      PENSTOCK_ASSIGN(const group_link link, parse_link(file, message));
      if (!each(link)) return {};
    } else if (message.type == hdf5_message::symbol_table) {
      PENSTOCK_TRY(symbol_table(file).visit(message, each));
    } else if (message.type == hdf5_message::link_info && keeps_links_in_heap(file, message)) {
      return hdf5_unknown("a group whose links lie in a heap");
    }
  }
  return {};
}

result<std::uint64_t> child_of(hdf5_file& file, std::uint64_t group, std::string_view name) {
  found object;
  bool hard = true;
  PENSTOCK_TRY(visit_links(file, group, [&](const group_link& each) {
    if (each.name != name) return true;
    object = each.object;
    hard = each.hard;
    return false;
  }));
  if (!object) return error(errc::not_found, fmt::format("the file has no '{}'", name));
  if (!hard) return hdf5_unknown(fmt::format("'{}' is no hard link", name));
  return *object;
}

}  // namespace

result<std::uint64_t> find_hdf5_object(hdf5_file& file, std::string_view path) {
  std::uint64_t at = file.root();
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    PENSTOCK_ASSIGN(at, child_of(file, at, name));
  }
  return at;
}

result<> check_hdf5_group(hdf5_file& file, std::uint64_t group) {
  return visit_links(file, group, [](const group_link&) { return true; });
}

}  // namespace penstock::inline v0
