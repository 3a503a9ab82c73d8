#include "format/hdf5/hdf5_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {
namespace {

/// Links in a B-tree of version 1, whose names are in a local heap.
class symbol_table {
 public:
  /// \param wanted  Reads only the part of the tree that may have this name. Empty: all of it.
  symbol_table(hdf5_file& file, std::vector<hdf5_link>& to, std::string_view wanted = {}) noexcept
      : file_(file), to_(to), wanted_(wanted) {}

  result<> list(const hdf5_message& message) {
    hdf5_cursor cursor(message.body);
    const std::uint64_t tree = cursor.number(file_.offset_bytes()), heap = cursor.number(file_.offset_bytes());
    if (!cursor.ok()) return hdf5_damaged("a group's symbol table is truncated");
    auto names = hdf5_local_heap::read(file_, heap);
    if (!names.ok() && !file_.waiting()) return std::move(names).error();
    has_names_ = names.ok();
    if (has_names_) names_ = std::move(*names);
    return walk(tree);
  }

  /// Whether the tree has so many leaves that all of them should not be fetched for one link.
  bool is_large() const noexcept { return large_; }

 private:
  struct subtree {
    std::uint64_t address, above;
  };
  static constexpr std::uint64_t kAnyLevel = 256;
  /// The most nodes above the leaves of a tree that is not large. Each has up to 32 leaves.
  static constexpr std::uint64_t kFewNodes = 8;

  result<> walk(std::uint64_t root) {
    std::vector<subtree> todo{{root, kAnyLevel}};
    while (!todo.empty()) {
      const subtree next = todo.back();
      todo.pop_back();
      auto read = read_node(next, todo);
      if (!read.ok() && !file_.waiting()) return read;
    }
    return {};
  }

  result<> read_node(const subtree& from, std::vector<subtree>& todo) {
    const std::uint64_t prefix = 8 + 2 * file_.offset_bytes();
    constexpr std::uint64_t kLikely = 32;  // children of a full node
    const std::uint64_t one = file_.length_bytes() + file_.offset_bytes();
    PENSTOCK_ASSIGN(const auto begin, file_.begin_of(from.address, prefix, prefix + kLikely * one));
    hdf5_cursor head(begin);
    if (!head.is("TREE") || head.number(1) != 0)
      return hdf5_damaged(fmt::format("no node of a group's B-tree is at address {}", from.address));
    const std::uint64_t level = head.number(1), used = head.number(2);
    if (from.above != kAnyLevel && level + 1 != from.above)
      return hdf5_damaged(fmt::format("a node of level {} below one of level {}", level, from.above));
    const bool is_root = from.above == kAnyLevel;
    if (is_root) large_ = level > 1 || (level == 1 && used > kFewNodes);
    PENSTOCK_ASSIGN(const auto node, file_.at(from.address, prefix + used * one));  // without the last key
    // Names decide which child is read. Until they are fetched, all children of the root are fetched with them.
    const bool chooses = !wanted_.empty() && has_names_;
    if (!wanted_.empty() && !has_names_ && (level == 0 || !is_root)) return {};
    hdf5_cursor cursor(node);
    cursor.skip(prefix + file_.length_bytes());
    std::vector<std::uint64_t> children;
    for (std::uint64_t i = 0; i < used; ++i) {
      const std::uint64_t child = cursor.number(file_.offset_bytes());
      // The key after a child is the last name in it.
      const bool has_key = i + 1 < used;
      if (chooses && has_key) {
        PENSTOCK_ASSIGN(const std::string_view last, names_.text(cursor.number(file_.length_bytes())));
        PENSTOCK_TRY(file_.spend(last.size()));
        if (last < wanted_) continue;
      } else {
        cursor.skip(file_.length_bytes());
      }
      children.push_back(child);
      if (chooses) break;
    }
    if (level != 0) {
      std::for_each(children.rbegin(), children.rend(), [&](std::uint64_t child) { todo.push_back({child, level}); });
      return {};
    }
    for (const std::uint64_t child : children) {
      auto read = read_leaf(child);
      if (!read.ok() && !file_.waiting()) return read;
    }
    return {};
  }

  result<> read_leaf(std::uint64_t leaf) {
    const std::uint64_t one = file_.length_bytes() + file_.offset_bytes() + 24;
    constexpr std::uint64_t kLikely = 8;  // links of a full leaf
    PENSTOCK_ASSIGN(const auto begin, file_.begin_of(leaf, 8, 8 + kLikely * one));
    hdf5_cursor head(begin);
    if (!head.is("SNOD")) return hdf5_damaged(fmt::format("no links of a group are at address {}", leaf));
    head.skip(2);
    const std::uint64_t count = head.number(2);
    PENSTOCK_ASSIGN(const auto node, file_.at(leaf, 8 + count * one));
    hdf5_cursor cursor(node);
    cursor.skip(8);
    for (std::uint64_t i = 0; i < count; ++i) PENSTOCK_TRY(take(cursor));
    return {};
  }

  result<> take(hdf5_cursor& cursor) {
    constexpr std::uint64_t kSoft = 2;
    hdf5_link link;
    const std::uint64_t name = cursor.number(file_.length_bytes());
    link.object = cursor.number(file_.offset_bytes());
    const std::uint64_t cached = cursor.number(4);
    cursor.skip(4);
    hdf5_cursor scratch(cursor.bytes(16));
    PENSTOCK_ASSIGN(const std::string_view text, names_.text(name));
    PENSTOCK_TRY(file_.spend(text.size()));
    link.name = text;
    if (cached == kSoft) {
      PENSTOCK_ASSIGN(const std::string_view target, names_.text(scratch.number(4)));
      PENSTOCK_TRY(file_.spend(target.size()));
      link.what = hdf5_link::kind::soft;
      link.target = target;
    }
    to_.push_back(std::move(link));
    return {};
  }

  hdf5_file& file_;
  std::vector<hdf5_link>& to_;
  std::string_view wanted_;
  hdf5_local_heap names_;
  bool has_names_ = false, large_ = false;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A byte of flags, then the file's name and the path, each with a zero at its end.
result<> parse_external(std::span<const std::byte> value, hdf5_link& out) {
  const std::string both = text_of(value.subspan(std::min<std::size_t>(1, value.size())));
  const std::size_t first = both.find('\0');
  if (first == std::string::npos) return hdf5_damaged(fmt::format("the external link '{}' is truncated", out.name));
  out.file = both.substr(0, first);
  out.target = both.substr(first + 1, both.find('\0', first + 1) - first - 1);
  return {};
}

result<hdf5_link> parse_link(const hdf5_file& file, std::span<const std::byte> body) {
  enum : std::uint64_t { kHard = 0, kSoft = 1, kExternal = 64 };
  hdf5_cursor cursor(body);
  if (cursor.number(1) != 1) return hdf5_unknown("a link of an unknown version");
  hdf5_link out;
  const std::uint64_t flags = cursor.number(1);
  const std::uint64_t what = (flags & 0x08) != 0 ? cursor.number(1) : kHard;
  out.ordered = (flags & 0x04) != 0;
  if (out.ordered) out.order = cursor.number(8);
  if ((flags & 0x10) != 0) cursor.skip(1);  // the character set of its name
  out.name = text_of(cursor.bytes(cursor.number(std::size_t{1} << (flags & 3))));
  if (what == kHard) {
    out.object = cursor.number(file.offset_bytes());
  } else {
    const auto value = cursor.bytes(cursor.number(2));
    if (!cursor.ok()) return hdf5_damaged("a link is truncated");
    out.what = what == kSoft       ? hdf5_link::kind::soft
               : what == kExternal ? hdf5_link::kind::external
                                   : hdf5_link::kind::user;
    out.user_class = what;
    if (what == kSoft) out.target = text_of(value);
    if (what == kExternal) PENSTOCK_TRY(parse_external(value, out));
  }
  if (!cursor.ok()) return hdf5_damaged("a link is truncated");
  return out;
}

/// The heap of a group with many links.
struct dense_links {
  std::uint64_t heap = 0, by_name = 0;
};

result<dense_links> parse_link_info(const hdf5_file& file, const hdf5_message& message) {
  hdf5_cursor cursor(message.body);
  if (cursor.number(1) != 0) return hdf5_unknown("a group of an unknown version");
  if ((cursor.number(1) & 1) != 0) cursor.skip(8);
  dense_links out;
  out.heap = cursor.number(file.offset_bytes());
  out.by_name = cursor.number(file.offset_bytes());
  if (!cursor.ok()) return hdf5_damaged("a group's description of its links is truncated");
  return out;
}

result<> list_dense(hdf5_file& file, const dense_links& from, std::vector<hdf5_link>& to) {
  constexpr std::uint64_t kByName = 5, kHashBytes = 4;
  std::vector<std::vector<std::byte>> ids;
  auto heap = hdf5_fractal_heap::read(file, from.heap);
  if (!heap.ok() && !file.waiting()) return std::move(heap).error();
  PENSTOCK_TRY(visit_hdf5_records(
      file, from.by_name,
      [](const hdf5_record_form& form) -> result<> {
        if (form.type == kByName && form.bytes > kHashBytes) return {};
        return hdf5_damaged(fmt::format("links in a B-tree of kind {}", form.type));
      },
      [&](std::span<const std::byte> record) -> result<> {
        const auto id = record.subspan(kHashBytes);
        ids.emplace_back(id.begin(), id.end());
        return {};
      }));
  if (!heap.ok()) return std::move(heap).error();
  for (const std::vector<std::byte>& id : ids) {
    auto body = heap->object(id);
    if (!body.ok()) {
      if (file.waiting()) continue;
      return std::move(body).error();
    }
    PENSTOCK_ASSIGN(hdf5_link link, parse_link(file, *body));
    to.push_back(std::move(link));
  }
  return {};
}

}  // namespace

bool is_hdf5_group(const std::vector<hdf5_message>& header) noexcept {
  return find_message(header, hdf5_message::symbol_table) != nullptr ||
         find_message(header, hdf5_message::link_info) != nullptr ||
         find_message(header, hdf5_message::link) != nullptr;
}

result<std::vector<hdf5_link>> list_hdf5_links(hdf5_file& file, const std::vector<hdf5_message>& header) {
  std::vector<hdf5_link> out;
  for (const hdf5_message& message : header) {
    if (message.shared) continue;
    if (message.type == hdf5_message::link) {
      PENSTOCK_ASSIGN(hdf5_link link, parse_link(file, message.body));
      out.push_back(std::move(link));
    } else if (message.type == hdf5_message::symbol_table) {
      PENSTOCK_TRY(symbol_table(file, out).list(message));
    } else if (message.type == hdf5_message::link_info) {
      PENSTOCK_ASSIGN(const dense_links dense, parse_link_info(file, message));
      if (!file.undefined(dense.heap)) PENSTOCK_TRY(list_dense(file, dense, out));
    }
  }
  const bool ordered = std::all_of(out.begin(), out.end(), [](const hdf5_link& each) { return each.ordered; });
  std::sort(out.begin(), out.end(), [&](const hdf5_link& a, const hdf5_link& b) {
    return ordered && a.order != b.order ? a.order < b.order : a.name < b.name;
  });
  return out;
}

result<std::optional<hdf5_link>> look_up_hdf5_link(hdf5_file& file, const std::vector<hdf5_message>& header,
                                                   std::string_view name) {
  const hdf5_message* const table = find_message(header, hdf5_message::symbol_table);
  if (table == nullptr || table->shared || name.empty()) return std::optional<hdf5_link>();
  std::vector<hdf5_link> found;
  symbol_table links(file, found, name);
  PENSTOCK_TRY(links.list(*table));
  for (hdf5_link& each : found)
    if (each.name == name) return std::optional(std::move(each));
  // The links of a small group are fetched in the same rounds, because the names of dimensions need all of them.
  if (file.waiting() && links.is_large()) return error(errc::io_error, "HDF5: the link is not fetched yet");
  return std::optional<hdf5_link>();
}

}  // namespace penstock::inline v0
