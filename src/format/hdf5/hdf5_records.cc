#include "format/hdf5/hdf5_records.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <vector>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kPrefixBytes = 6;
/// A deeper tree of nodes with two children each would not fit in any file.
constexpr std::uint64_t kMostDepth = 64;

// The width in bytes of numbers up to `most`.
std::uint64_t width_of(std::uint64_t most) noexcept {
  return most == 0 ? 1 : (static_cast<std::uint64_t>(std::bit_width(most)) - 1) / 8 + 1;
}

}  // namespace

result<hdf5_record_tree> hdf5_record_tree::read(hdf5_file& file, std::uint64_t address,
                                                const std::function<result<>(const hdf5_record_form&)>& check) {
  const std::uint64_t bytes = 16 + file.offset_bytes() + 2 + file.length_bytes() + kHdf5ChecksumBytes;
  PENSTOCK_ASSIGN(const auto header, file.checked(address, bytes, "a B-tree's header"));
  hdf5_cursor cursor(header);
  if (!cursor.is("BTHD") || cursor.number(1) != 0)
    return hdf5_damaged(fmt::format("no B-tree is at address {}", address));
  hdf5_record_tree made;
  made.offset_bytes_ = file.offset_bytes();
  made.form_.type = cursor.number(1);
  const std::uint64_t node_bytes = cursor.number(4);
  made.form_.bytes = cursor.number(2);
  made.depth_ = cursor.number(2);
  cursor.skip(2);
  made.root_ = cursor.number(file.offset_bytes());
  made.root_count_ = cursor.number(2);
  PENSTOCK_TRY(check(made.form_));
  PENSTOCK_TRY(made.measure(node_bytes));
  return made;
}

// The largest number of records in nodes of each depth determines the width of the counts in their parents.
result<> hdf5_record_tree::measure(std::uint64_t node_bytes) {
  if (form_.bytes == 0) return hdf5_damaged("a B-tree with records of 0 bytes");
  if (depth_ > kMostDepth) return hdf5_damaged(fmt::format("a B-tree of depth {}", depth_));
  constexpr std::uint64_t kAround = kPrefixBytes + kHdf5ChecksumBytes;
  if (node_bytes < kAround + form_.bytes) return hdf5_damaged("a B-tree whose nodes have no room");
  most_.push_back((node_bytes - kAround) / form_.bytes);
  std::uint64_t below = most_[0];  // number of records in a full tree of that depth
  total_width_.push_back(0);
  count_width_ = static_cast<std::size_t>(width_of(most_[0]));
  for (std::uint64_t d = 1; d <= depth_; ++d) {
    const std::uint64_t pointer = offset_bytes_ + count_width_ + total_width_.back();
    if (node_bytes < kAround + pointer) return hdf5_damaged("a B-tree whose nodes have no room");
    const std::uint64_t most = (node_bytes - kAround - pointer) / (form_.bytes + pointer);
    if (!checked_mul(most + 1, below, below) || !checked_add(below, most, below))
      below = std::numeric_limits<std::uint64_t>::max();
    most_.push_back(most);
    total_width_.push_back(static_cast<std::size_t>(width_of(below)));
  }
  return {};
}

std::uint64_t hdf5_record_tree::pointer_bytes(std::uint64_t depth) const noexcept {
  return depth == 0 ? 0 : offset_bytes_ + count_width_ + total_width_[static_cast<std::size_t>(depth - 1)];
}

result<std::uint64_t> hdf5_record_tree::node_bytes(std::uint64_t count, std::uint64_t depth) const {
  if (count > most_[static_cast<std::size_t>(depth)])
    return hdf5_damaged(fmt::format("a B-tree's node of {} records", count));
  const std::uint64_t pointers = depth == 0 ? 0 : count + 1;
  return kPrefixBytes + count * form_.bytes + pointers * pointer_bytes(depth) + kHdf5ChecksumBytes;
}

result<> hdf5_record_tree::check_prefix(hdf5_cursor& cursor, std::uint64_t depth) const {
  if (cursor.is(depth == 0 ? "BTLF" : "BTIN") && cursor.number(1) == 0 && cursor.number(1) == form_.type) return {};
  return hdf5_damaged("a block is not a node of this B-tree");
}

hdf5_record_tree::child hdf5_record_tree::take_child(hdf5_cursor& cursor, std::uint64_t depth) const noexcept {
  child out;
  out.address = cursor.number(offset_bytes_);
  out.count = cursor.number(count_width_);
  cursor.skip(total_width_[static_cast<std::size_t>(depth - 1)]);
  return out;
}

namespace {

class visitor {
 public:
  using call = std::function<result<>(std::span<const std::byte>)>;

  visitor(hdf5_file& file, const hdf5_record_tree& tree, const call& each) noexcept
      : file_(file), tree_(tree), each_(each) {}

  result<> visit(const hdf5_record_tree::child& at, std::uint64_t depth) {
    PENSTOCK_ASSIGN(const std::uint64_t bytes, tree_.node_bytes(at.count, depth));
    PENSTOCK_ASSIGN(const auto node, file_.checked(at.address, bytes, "a B-tree's node"));
    hdf5_cursor cursor(node);
    auto right = tree_.check_prefix(cursor, depth);
    if (!right.ok()) return std::move(right).error().note(fmt::format("at address {}", at.address));
    for (std::uint64_t i = 0; i < at.count; ++i) PENSTOCK_TRY(each_(cursor.bytes(tree_.form().bytes)));
    if (depth == 0) return {};
    std::vector<hdf5_record_tree::child> children;
    for (std::uint64_t i = 0; i <= at.count; ++i) children.push_back(tree_.take_child(cursor, depth));
    for (const hdf5_record_tree::child& each : children) {
      auto done = visit(each, depth - 1);
      if (!done.ok() && !file_.waiting()) return done;
    }
    return {};
  }

 private:
  hdf5_file& file_;
  const hdf5_record_tree& tree_;
  const call& each_;
};

}  // namespace

result<> visit_hdf5_records(hdf5_file& file, std::uint64_t address,
                            const std::function<result<>(const hdf5_record_form&)>& check, const visitor::call& each) {
  PENSTOCK_ASSIGN(const hdf5_record_tree tree, hdf5_record_tree::read(file, address, check));
  if (file.undefined(tree.root())) return {};
  return visitor(file, tree, each).visit({tree.root(), tree.root_count()}, tree.depth());
}

}  // namespace penstock::inline v0
