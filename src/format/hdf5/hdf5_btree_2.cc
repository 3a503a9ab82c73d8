// Chunks in a B-tree of version 2. Source: HDF5 File Format Specification 3.0, III.A.2.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_columns.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kPrefixBytes = 6;
constexpr std::uint64_t kPlain = 10, kFiltered = 11;
/// A tree of nodes with two children each that is deeper would not fit into any file.
constexpr std::uint64_t kMostDepth = 64;

// Bytes that numbers up to `most` take.
std::uint64_t width_of(std::uint64_t most) noexcept {
  return most == 0 ? 1 : (static_cast<std::uint64_t>(std::bit_width(most)) - 1) / 8 + 1;
}

class btree {
 public:
  btree(hdf5_file& file, hdf5_chunk_columns& to) noexcept : file_(file), to_(to) {}

  result<> list(std::uint64_t address) {
    const std::uint64_t bytes = 16 + file_.offset_bytes() + 2 + file_.length_bytes() + kHdf5ChecksumBytes;
    PENSTOCK_ASSIGN(const auto header, file_.checked(address, bytes, "a B-tree's header"));
    hdf5_cursor cursor(header);
    if (!cursor.is("BTHD") || cursor.number(1) != 0)
      return hdf5_damaged(fmt::format("no B-tree stands at address {}", address));
    type_ = cursor.number(1);
    const std::uint64_t node_bytes = cursor.number(4);
    record_bytes_ = cursor.number(2);
    const std::uint64_t depth = cursor.number(2);
    cursor.skip(2);
    const std::uint64_t root = cursor.number(file_.offset_bytes()), count = cursor.number(2);
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
    const std::uint64_t plain = file_.offset_bytes() + 8 * to_.rank();
    const bool sound = type_ == kPlain ? record_bytes_ == plain
                                       : type_ == kFiltered && record_bytes_ > plain + 4 && record_bytes_ <= plain + 12;
    if (!sound) return hdf5_damaged(fmt::format("a B-tree of kind {} with records of {} bytes", type_, record_bytes_));
    if (type_ == kFiltered) length_bytes_ = static_cast<std::size_t>(record_bytes_ - plain - 4);
    if (depth > kMostDepth) return hdf5_damaged(fmt::format("a B-tree of depth {}", depth));
    constexpr std::uint64_t kAround = kPrefixBytes + kHdf5ChecksumBytes;
    if (node_bytes < kAround + record_bytes_) return hdf5_damaged("a B-tree whose nodes have no room");
    most_.push_back((node_bytes - kAround) / record_bytes_);
    std::uint64_t below = most_[0];  // records in a whole tree of that depth
    total_width_.push_back(0);
    count_width_ = static_cast<std::size_t>(width_of(most_[0]));
    for (std::uint64_t d = 1; d <= depth; ++d) {
      const std::uint64_t pointer = file_.offset_bytes() + count_width_ + total_width_.back();
      if (node_bytes < kAround + pointer) return hdf5_damaged("a B-tree whose nodes have no room");
      const std::uint64_t most = (node_bytes - kAround - pointer) / (record_bytes_ + pointer);
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
    PENSTOCK_ASSIGN(
        const auto node,
        file_.checked(address, kPrefixBytes + count * record_bytes_ + pointers * pointer + kHdf5ChecksumBytes,
                      "a B-tree's node"));
    hdf5_cursor cursor(node);
    if (!cursor.is(depth == 0 ? "BTLF" : "BTIN") || cursor.number(1) != 0 || cursor.number(1) != type_)
      return hdf5_damaged(fmt::format("no node of this B-tree stands at address {}", address));
    for (std::uint64_t i = 0; i < count; ++i) take(cursor);
    std::vector<child> children;
    for (std::uint64_t i = 0; i < pointers; ++i) {
      children.push_back({cursor.number(file_.offset_bytes()), cursor.number(count_width_)});
      cursor.skip(total);
    }
    for (const child& each : children) PENSTOCK_TRY(read(each.address, each.count, depth - 1));
    return {};
  }

  void take(hdf5_cursor& cursor) {
    const std::uint64_t address = cursor.number(file_.offset_bytes());
    const std::uint64_t length = length_bytes_ == 0 ? to_.chunk_bytes() : cursor.number(length_bytes_);
    const std::uint64_t mask = length_bytes_ == 0 ? 0 : cursor.number(4);
    std::array<std::uint64_t, kMaxRank> place{};
    for (std::size_t d = 0; d < to_.rank(); ++d) place[d] = cursor.number(8);
    if (!file_.undefined(address)) to_.add(std::span(place).first(to_.rank()), address, length, mask);
  }

  hdf5_file& file_;
  hdf5_chunk_columns& to_;
  std::uint64_t type_ = 0, record_bytes_ = 0;
  std::size_t length_bytes_ = 0, count_width_ = 0;
  std::vector<std::uint64_t> most_;       // records of a node of each depth
  std::vector<std::size_t> total_width_;  // of the count of a tree of each depth
};

}  // namespace

result<> list_hdf5_btree_2(hdf5_file& file, std::uint64_t address, hdf5_chunk_columns& to) {
  return btree(file, to).list(address);
}

}  // namespace penstock::inline v0
