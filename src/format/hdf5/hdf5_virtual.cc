#include "format/hdf5/hdf5_virtual.h"

#include <fmt/format.h>
#include <penstock/shape.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {
namespace {

/// The most runs of one dimension of a mapping, and the most rows of one that is divided into rows.
constexpr std::uint64_t kMostRuns = std::uint64_t{1} << 20, kMostRows = std::uint64_t{1} << 17;

error too_many() {
  return {errc::unsupported,
          fmt::format("virtual HDF5 datasets with a mapping of more than {} runs, or {} rows, are not readable",
                      kMostRuns, kMostRows)};
}

struct interval {
  std::uint64_t start = 0, count = 0;
};

/// A selection as the intervals of each dimension.
using axis_intervals = std::vector<std::vector<interval>>;

result<> check_end(std::uint64_t end, std::span<const std::uint64_t> shape, std::size_t d, const char* of) {
  if (end <= shape[d]) return {};
  return hdf5_damaged(
      fmt::format("a mapping ends at {} of dimension {} of the {}, which has {}", end, d, of, shape[d]));
}

result<> check_rank(const hdf5_selection& which, std::span<const std::uint64_t> shape, const char* of) {
  if (which.rank == shape.size()) return {};
  return hdf5_damaged(fmt::format("a mapping has {} dimensions of the {}, which has {}", which.rank, of, shape.size()));
}

// Adjacent blocks are one interval.
result<std::vector<interval>> intervals_of(const hdf5_selection::axis& axis) {
  std::vector<interval> out;
  if (axis.count == 0 || axis.block == 0) return out;
  if ((axis.count == 1 || axis.stride == axis.block) && axis.most == byte_range::kAll) {
    out.push_back({axis.start, saturating_mul(axis.count, axis.block)});
    return out;
  }
  if (axis.stride < axis.block) return hdf5_damaged("blocks of a mapping overlap");
  if (axis.count > kMostRuns) return too_many();
  std::uint64_t left = axis.most;
  for (std::uint64_t i = 0; i < axis.count && left != 0; ++i) {
    const std::uint64_t count = std::min(axis.block, left);
    out.push_back({saturating_add(axis.start, saturating_mul(i, axis.stride)), count});
    left -= count;
  }
  return out;
}

/// The elements of one selection: intervals of each dimension, or rows in their order.
class taken_elements {
 public:
  static result<taken_elements> make(const hdf5_selection& which, std::span<const std::uint64_t> shape,
                                     const char* of) {
    taken_elements out;
    out.shape_.assign(shape.begin(), shape.end());
    switch (which.what) {
      case hdf5_selection::kind::none:
        return out;
      case hdf5_selection::kind::all:
        out.axes_.emplace();
        for (const std::uint64_t each : shape) out.axes_->push_back({{0, each}});
        return out;
      case hdf5_selection::kind::regular: {
        PENSTOCK_TRY(check_rank(which, shape, of));
        out.axes_.emplace();
        for (std::size_t d = 0; d < shape.size(); ++d) {
          PENSTOCK_ASSIGN(auto taken, intervals_of(which.axes[d]));
          if (!taken.empty())
            PENSTOCK_TRY(check_end(saturating_add(taken.back().start, taken.back().count), shape, d, of));
          out.axes_->push_back(std::move(taken));
        }
        return out;
      }
      case hdf5_selection::kind::points:
        PENSTOCK_TRY(check_rank(which, shape, of));
        PENSTOCK_TRY(out.take_points(which, of));
        return out;
      case hdf5_selection::kind::boxes:
        PENSTOCK_TRY(check_rank(which, shape, of));
        PENSTOCK_TRY(out.take_boxes(which, of));
        return out;
    }
    return out;
  }

  /// Null if it is a list of rows.
  const axis_intervals* axes() const noexcept { return axes_ ? &*axes_ : nullptr; }

  std::uint64_t along(std::size_t d) const noexcept {
    std::uint64_t sum = 0;
    for (const interval& each : (*axes_)[d]) sum = saturating_add(sum, each.count);
    return sum;
  }

  std::uint64_t size() const noexcept {
    std::uint64_t sum = axes_ ? 1 : 0;
    if (axes_)
      for (std::size_t d = 0; d < axes_->size(); ++d) sum = saturating_mul(sum, along(d));
    for (const interval& each : rows_) sum = saturating_add(sum, each.count);
    return sum;
  }

  /// Elements by their numbers in C order of the shape, in ranges within one row each.
  result<std::vector<interval>> rows() const {
    if (!axes_) return rows_;
    std::uint64_t count = 1;
    for (std::size_t d = 0; d < axes_->size(); ++d)
      count = saturating_mul(count, d + 1 == axes_->size() ? (*axes_)[d].size() : along(d));
    if (count > kMostRows) return too_many();
    std::vector<interval> out;
    if (size() != 0) add_rows(0, 0, out);
    return out;
  }

 private:
  void add_rows(std::size_t d, std::uint64_t before, std::vector<interval>& out) const {
    if (d == axes_->size()) {  // without dimensions
      out.push_back({before, 1});
      return;
    }
    const std::uint64_t first = before * shape_[d];
    for (const interval& each : (*axes_)[d]) {
      if (d + 1 == axes_->size()) {
        out.push_back({first + each.start, each.count});
        continue;
      }
      for (std::uint64_t i = 0; i < each.count; ++i) add_rows(d + 1, first + each.start + i, out);
    }
  }

  result<> take_points(const hdf5_selection& which, const char* of) {
    const std::size_t rank = which.rank;
    for (std::size_t i = 0; i + rank <= which.corners.size(); i += rank) {
      std::uint64_t number = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        PENSTOCK_TRY(check_end(saturating_add(which.corners[i + d], 1), shape_, d, of));
        number = number * shape_[d] + which.corners[i + d];
      }
      add(number, 1);
    }
    return rows_.size() > kMostRows ? result<>(too_many()) : result<>();
  }

  // Elements of all boxes are ordered by rows, regardless of their box.
  result<> take_boxes(const hdf5_selection& which, const char* of) {
    const std::size_t rank = which.rank, step = 2 * rank;
    if (which.corners.size() == step) {  // one box is a product
      axes_.emplace();
      for (std::size_t d = 0; d < rank; ++d) {
        const std::uint64_t first = which.corners[d], last = which.corners[rank + d];
        if (last < first) return hdf5_damaged("a box of a mapping ends before it begins");
        PENSTOCK_TRY(check_end(saturating_add(last, 1), shape_, d, of));
        axes_->push_back({{first, last - first + 1}});
      }
      return {};
    }
    std::vector<interval> all;
    for (std::size_t i = 0; i + step <= which.corners.size(); i += step) {
      taken_elements one;
      one.shape_ = shape_;
      hdf5_selection box;
      box.what = hdf5_selection::kind::boxes;
      box.rank = rank;
      box.corners.assign(which.corners.begin() + static_cast<std::ptrdiff_t>(i),
                         which.corners.begin() + static_cast<std::ptrdiff_t>(i + step));
      PENSTOCK_TRY(one.take_boxes(box, of));
      PENSTOCK_ASSIGN(const auto rows, one.rows());
      all.insert(all.end(), rows.begin(), rows.end());
      if (all.size() > kMostRows) return too_many();
    }
    std::sort(all.begin(), all.end(), [](const interval& a, const interval& b) { return a.start < b.start; });
    std::uint64_t end = 0;
    for (const interval& each : all) {
      if (each.start < end) return hdf5_damaged("boxes of a mapping overlap");
      end = each.start + each.count;
      add(each.start, each.count);
    }
    return {};
  }

  // A range never crosses the end of its row.
  void add(std::uint64_t number, std::uint64_t count) {
    const std::uint64_t row = shape_.back();
    if (!rows_.empty() && rows_.back().start + rows_.back().count == number && number % row != 0)
      rows_.back().count += count;
    else
      rows_.push_back({number, count});
  }

  std::vector<std::uint64_t> shape_;
  std::optional<axis_intervals> axes_;
  std::vector<interval> rows_;
};

// Divides both lists into runs that are contiguous in each.
result<std::vector<hdf5_run>> pair_up(const std::vector<interval>& to, const std::vector<interval>& from) {
  std::vector<hdf5_run> out;
  std::uint64_t into = 0, read = 0;  // how much of the current intervals is paired
  for (std::size_t i = 0, j = 0; i < to.size() && j < from.size();) {
    const std::uint64_t count = std::min(to[i].count - into, from[j].count - read);
    if (count != 0) out.push_back({to[i].start + into, from[j].start + read, count});
    if (out.size() > kMostRuns) return too_many();
    into += count;
    read += count;
    if (into == to[i].count) {
      ++i;
      into = 0;
    }
    if (read == from[j].count) {
      ++j;
      read = 0;
    }
  }
  return out;
}

// Dimensions with more than one position.
std::vector<std::size_t> long_axes(const taken_elements& of) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < of.axes()->size(); ++d)
    if (of.along(d) != 1) out.push_back(d);
  return out;
}

bool same_lengths(const taken_elements& a, const taken_elements& b) {
  if (a.axes() == nullptr || b.axes() == nullptr) return false;
  const std::vector<std::size_t> of_a = long_axes(a), of_b = long_axes(b);
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (a.along(of_a[i]) != b.along(of_b[i])) return false;
  return true;
}

result<std::vector<hdf5_part>> match_axes(const taken_elements& to, const taken_elements& from) {
  const std::vector<std::size_t> wide = long_axes(to), read = long_axes(from);
  hdf5_part part;
  for (const auto& each : *from.axes()) part.origin.push_back(each[0].start);
  part.axes.resize(to.axes()->size());
  part.runs.resize(to.axes()->size());
  for (std::size_t d = 0; d < to.axes()->size(); ++d) part.runs[d] = {{(*to.axes())[d][0].start, 0, 1}};
  for (std::size_t i = 0; i < wide.size(); ++i) {
    part.axes[wide[i]] = read[i];
    PENSTOCK_ASSIGN(part.runs[wide[i]], pair_up((*to.axes())[wide[i]], (*from.axes())[read[i]]));
  }
  std::vector<hdf5_part> out;
  out.push_back(std::move(part));
  return out;
}

std::vector<std::uint64_t> position(std::uint64_t number, std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> out(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) out[d] = number % shape[d];
  return out;
}

result<std::vector<hdf5_part>> match_rows(const taken_elements& to, std::span<const std::uint64_t> shape,
                                          const taken_elements& from, std::span<const std::uint64_t> source_shape) {
  PENSTOCK_ASSIGN(const auto into, to.rows());
  PENSTOCK_ASSIGN(const auto read, from.rows());
  PENSTOCK_ASSIGN(const auto pieces, pair_up(into, read));
  std::vector<hdf5_part> out;
  out.reserve(pieces.size());
  for (const hdf5_run& each : pieces) {
    hdf5_part part;
    part.origin = position(each.from, source_shape);
    const std::vector<std::uint64_t> first = position(each.to, shape);
    part.axes.resize(shape.size());
    for (const std::uint64_t at : first) part.runs.push_back({{at, 0, 1}});
    if (each.count > 1) {  // along the last dimension of both
      part.axes.back() = source_shape.size() - 1;
      part.runs.back() = {{first.back(), part.origin.back(), each.count}};
    }
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

result<std::vector<hdf5_part>> match_hdf5_selections(const hdf5_selection& to, std::span<const std::uint64_t> shape,
                                                     const hdf5_selection& from,
                                                     std::span<const std::uint64_t> source_shape) {
  PENSTOCK_ASSIGN(const taken_elements into, taken_elements::make(to, shape, "dataset"));
  PENSTOCK_ASSIGN(const taken_elements read, taken_elements::make(from, source_shape, "source"));
  if (into.size() != read.size())
    return hdf5_damaged(fmt::format("a mapping shows {} elements as {}", read.size(), into.size()));
  if (into.size() == 0) return std::vector<hdf5_part>();
  return same_lengths(into, read) ? match_axes(into, read) : match_rows(into, shape, read, source_shape);
}

std::optional<std::size_t> unlimited_axis(const hdf5_selection& which) noexcept {
  for (std::size_t d = 0; d < which.axes.size(); ++d)
    if (which.axes[d].count == byte_range::kAll || which.axes[d].block == byte_range::kAll) return d;
  return std::nullopt;
}

std::uint64_t hdf5_positions_below(const hdf5_selection::axis& pattern, std::uint64_t extent) noexcept {
  if (extent <= pattern.start) return 0;
  const std::uint64_t room = extent - pattern.start;
  if (pattern.block == byte_range::kAll || pattern.stride <= pattern.block)
    return std::min(room, saturating_mul(pattern.count, pattern.block));
  const std::uint64_t blocks = std::min(room / pattern.stride, pattern.count);
  const std::uint64_t rest = blocks < pattern.count ? std::min(room % pattern.stride, pattern.block) : 0;
  return saturating_add(saturating_mul(blocks, pattern.block), rest);
}

std::uint64_t hdf5_extent_for(const hdf5_selection::axis& pattern, std::uint64_t positions) noexcept {
  if (positions == 0) return 0;
  if (pattern.block == byte_range::kAll || pattern.stride <= pattern.block || pattern.block == 0)
    return saturating_add(pattern.start, positions);
  const std::uint64_t before = (positions - 1) / pattern.block;  // whole blocks before the last position's
  return saturating_add(saturating_add(pattern.start, saturating_mul(before, pattern.stride)),
                        positions - before * pattern.block);
}

hdf5_selection limit_hdf5_selection(const hdf5_selection& which, std::size_t axis, std::uint64_t positions) {
  hdf5_selection out = which;
  hdf5_selection::axis& pattern = out.axes[axis];
  if (pattern.block == byte_range::kAll || pattern.stride <= pattern.block) {
    pattern = {pattern.start, 1, 1, positions};
  } else {
    pattern.count = pattern.block == 0 ? 0 : ceil_div(positions, pattern.block);
    pattern.most = positions;
  }
  return out;
}

hdf5_selection hdf5_block(const hdf5_selection& which, std::size_t axis, std::uint64_t number) {
  hdf5_selection out = which;
  const hdf5_selection::axis& pattern = which.axes[axis];
  out.axes[axis] = {saturating_add(pattern.start, saturating_mul(number, pattern.stride)), 1, 1, pattern.block};
  return out;
}

std::vector<std::uint64_t> hdf5_ends(const hdf5_selection& which, std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> out(shape.size(), 0);
  switch (which.what) {
    case hdf5_selection::kind::none:
      break;
    case hdf5_selection::kind::all:
      out.assign(shape.begin(), shape.end());
      break;
    case hdf5_selection::kind::regular:
      for (std::size_t d = 0; d < std::min(out.size(), which.axes.size()); ++d) {
        const hdf5_selection::axis& axis = which.axes[d];
        if (axis.count == 0 || axis.block == 0) continue;
        out[d] = saturating_add(saturating_add(axis.start, saturating_mul(axis.count - 1, axis.stride)), axis.block);
      }
      break;
    case hdf5_selection::kind::points:
    case hdf5_selection::kind::boxes:
      for (std::size_t i = 0; i < which.corners.size() && which.rank == out.size(); ++i) {
        std::uint64_t& end = out[i % which.rank];
        end = std::max(end, saturating_add(which.corners[i], 1));
      }
      break;
  }
  return out;
}

bool is_hdf5_pattern(std::string_view name) noexcept {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != '%') continue;
    if (name[i + 1] == 'b') return true;
    if (name[i + 1] == '%') ++i;
  }
  return false;
}

std::string hdf5_block_name(std::string_view pattern, std::uint64_t number) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] == '%' && (next == 'b' || next == '%')) {
      out += next == 'b' ? std::to_string(number) : "%";
      ++i;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

}  // namespace penstock::inline v0
