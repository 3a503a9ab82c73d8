#include "format/hdf5/hdf5_records.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <vector>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kPrefixBytes = 6;
/// A tree of nodes with two children each that is deeper would not fit into any file.
constexpr std::uint64_t kMostDepth = 64;

// Bytes that numbers up to `most` take.
std::uint64_t width_of(std::uint64_t most) noexcept {
  return most == 0 ? 1 : (static_cast<std::uint64_t>(std::bit_width(most)) - 1) / 8 + 1;
}

class record_tree {
 public:
  using checker = std::function<result<>(const hdf5_record_form&)>;
  using visitor = std::function<result<>(std::span<const std::byte>)>;

  record_tree(hdf5_file& file, const visitor& each) noexcept : file_(file), each_(each) {}

  result<> visit(std::uint64_t address, const checker& check) {
    const std::uint64_t bytes = 16 + file_.offset_bytes() + 2 + file_.length_bytes() + kHdf5ChecksumBytes;
    PENSTOCK_ASSIGN(const auto header, file_.checked(address, bytes, "a B-tree's header"));
    hdf5_cursor cursor(header);
    if (!cursor.is("BTHD") || cursor.number(1) != 0)
      return hdf5_damaged(fmt::format("no B-tree is at address {}", address));
    form_.type = cursor.number(1);
    const std::uint64_t node_bytes = cursor.number(4);
    form_.bytes = cursor.number(2);
    const std::uint64_t depth = cursor.number(2);
    cursor.skip(2);
    const std::uint64_t root = cursor.number(file_.offset_bytes()), count = cursor.number(2);
    PENSTOCK_TRY(check(form_));
    PENSTOCK_TRY(measure(node_bytes, depth));
    if (file_.undefined(root)) return {};
    return read(root, count, depth);
  }

 private:
  struct child {
    std::uint64_t address, count;
  };

  // How many records nodes of each depth may have decides how wide the counts in their parents are.
  result<> measure(std::uint64_t node_bytes, std::uint64_t depth) {
    if (form_.bytes == 0) return hdf5_damaged("a B-tree with records of 0 bytes");
    if (depth > kMostDepth) return hdf5_damaged(fmt::format("a B-tree of depth {}", depth));
    constexpr std::uint64_t kAround = kPrefixBytes + kHdf5ChecksumBytes;
    if (node_bytes < kAround + form_.bytes) return hdf5_damaged("a B-tree whose nodes have no room");
    most_.push_back((node_bytes - kAround) / form_.bytes);
    std::uint64_t below = most_[0];  // records in a whole tree of that depth
    total_width_.push_back(0);
    count_width_ = static_cast<std::size_t>(width_of(most_[0]));
    for (std::uint64_t d = 1; d <= depth; ++d) {
      const std::uint64_t pointer = file_.offset_bytes() + count_width_ + total_width_.back();
      if (node_bytes < kAround + pointer) return hdf5_damaged("a B-tree whose nodes have no room");
      const std::uint64_t most = (node_bytes - kAround - pointer) / (form_.bytes + pointer);
      if (!checked_mul(most + 1, below, below) || !checked_add(below, most, below))
        below = std::numeric_limits<std::uint64_t>::max();
      most_.push_back(most);
      total_width_.push_back(static_cast<std::size_t>(width_of(below)));
    }
    return {};
  }

  result<> read(std::uint64_t address, std::uint64_t count, std::uint64_t depth) {
    if (count > most_[static_cast<std::size_t>(depth)])
      return hdf5_damaged(fmt::format("a B-tree's node of {} records", count));
    const std::size_t total = depth == 0 ? 0 : total_width_[static_cast<std::size_t>(depth - 1)];
    const std::uint64_t pointer = depth == 0 ? 0 : file_.offset_bytes() + count_width_ + total;
    const std::uint64_t pointers = depth == 0 ? 0 : count + 1;
    PENSTOCK_ASSIGN(const auto node,
                    file_.checked(address, kPrefixBytes + count * form_.bytes + pointers * pointer + kHdf5ChecksumBytes,
                                  "a B-tree's node"));
    hdf5_cursor cursor(node);
    if (!cursor.is(depth == 0 ? "BTLF" : "BTIN") || cursor.number(1) != 0 || cursor.number(1) != form_.type)
      return hdf5_damaged(fmt::format("no node of this B-tree is at address {}", address));
    for (std::uint64_t i = 0; i < count; ++i) PENSTOCK_TRY(each_(cursor.bytes(form_.bytes)));
    std::vector<child> children;
    for (std::uint64_t i = 0; i < pointers; ++i) {
      children.push_back({cursor.number(file_.offset_bytes()), cursor.number(count_width_)});
      cursor.skip(total);
    }
    for (const child& each : children) {
      auto done = read(each.address, each.count, depth - 1);
      if (!done.ok() && !file_.waiting()) return done;
    }
    return {};
  }

  hdf5_file& file_;
  const visitor& each_;
  hdf5_record_form form_;
  std::size_t count_width_ = 0;
  std::vector<std::uint64_t> most_;       // records of a node of each depth
  std::vector<std::size_t> total_width_;  // of the count of a tree of each depth
};

}  // namespace

result<> visit_hdf5_records(hdf5_file& file, std::uint64_t address, const record_tree::checker& check,
                            const record_tree::visitor& each) {
  return record_tree(file, each).visit(address, check);
}

}  // namespace penstock::inline v0
