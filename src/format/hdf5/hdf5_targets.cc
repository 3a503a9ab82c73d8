#include "format/hdf5/hdf5_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMostBoxes = std::uint64_t{1} << 16;

std::string range_text(std::uint64_t start, std::uint64_t stride, std::uint64_t count, std::uint64_t block) {
  if (stride == block || count == 1) return fmt::format("{}:{}", start, start + count * block);
  return fmt::format("{}:{}:{}", start, start + (count - 1) * stride + 1, stride);  // blocks of one element
}

result<std::string> regular_text(const hdf5_selection& of) {
  // Blocks of several elements at distances are a box each. Along the other dimensions, one range is enough.
  std::vector<std::string> boxes{std::string()};
  for (const hdf5_selection::axis& axis : of.axes) {
    if (axis.count == byte_range::kAll || axis.block == byte_range::kAll)
      return hdf5_unknown("references to regions without a limit");
    std::vector<std::string> ranges;
    const bool one = axis.count == 1 || axis.block == 1 || axis.stride == axis.block;
    if (saturating_mul(boxes.size(), one ? 1 : axis.count) > kMostBoxes)
      return hdf5_unknown(fmt::format("references to regions of more than {} boxes", kMostBoxes));
    if (one) ranges.push_back(range_text(axis.start, axis.stride, axis.count, axis.block));
    for (std::uint64_t i = 0; !one && i < axis.count; ++i)
      ranges.push_back(range_text(axis.start + i * axis.stride, 1, 1, axis.block));
    std::vector<std::string> more;
    for (const std::string& before : boxes)
      for (const std::string& each : ranges) more.push_back(before.empty() ? each : before + ", " + each);
    boxes = std::move(more);
  }
  return fmt::format("[{}]", fmt::join(boxes, "] + ["));
}

std::string boxes_text(const hdf5_selection& of) {
  std::vector<std::string> boxes;
  for (std::size_t at = 0; at + 2 * of.rank <= of.corners.size(); at += 2 * of.rank) {
    std::vector<std::string> ranges;
    for (std::size_t d = 0; d < of.rank; ++d)
      ranges.push_back(fmt::format("{}:{}", of.corners[at + d], saturating_add(of.corners[at + of.rank + d], 1)));
    boxes.push_back(fmt::format("{}", fmt::join(ranges, ", ")));
  }
  return fmt::format("[{}]", fmt::join(boxes, "] + ["));
}

std::string points_text(const hdf5_selection& of) {
  std::vector<std::string> points;
  const std::span<const std::uint64_t> corners(of.corners);
  for (std::size_t at = 0; at + of.rank <= corners.size(); at += of.rank)
    points.push_back(fmt::format("({})", fmt::join(corners.subspan(at, of.rank), ", ")));
  return fmt::format("[{}]", fmt::join(points, ", "));
}

}  // namespace

bool hdf5_path_search::run(std::uint64_t wanted, std::size_t most) {
  if (found_.empty()) {
    found_.emplace(file_.root(), "/");
    next_.push_back(file_.root());
  }
  for (; !found_.contains(wanted) && !next_.empty(); next_.pop_front()) {
    if (ended_ || found_.size() >= most) return false;
    const auto header = tree_.header(next_.front());
    if (!header.ok() || !is_hdf5_group(**header)) continue;
    const auto links = tree_.links(next_.front());
    if (!links.ok()) continue;
    const std::string path = found_.at(next_.front());
    for (const hdf5_link& each : **links) {
      if (each.what != hdf5_link::kind::hard || found_.contains(each.object)) continue;
      std::string name = (path == "/" ? path : path + "/") + hdf5_text(each.name);
      // Groups may be nested so deeply that their paths exceed the file.
      ended_ = ended_ || !file_.spend(name.size()).ok();
      if (ended_) break;
      found_.emplace(each.object, std::move(name));
      next_.push_back(each.object);
    }
  }
  return true;
}

hdf5_paths find_hdf5_paths(hdf5_file& file, hdf5_tree& tree) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  hdf5_path_search search(file, tree);
  search.run(kNone, ~std::size_t{0});
  return search.found();
}

std::string hdf5_path_of(const hdf5_paths& paths, std::uint64_t object) {
  const auto found = paths.find(object);
  return found != paths.end() ? found->second : fmt::format("<object without a path at {}>", object);
}

result<std::string> hdf5_region_text(hdf5_file& file, std::span<const std::byte> stored, const hdf5_path_finder& find) {
  hdf5_cursor in(stored);
  const std::uint64_t object = in.number(file.offset_bytes());
  PENSTOCK_ASSIGN(const hdf5_selection which, parse_hdf5_selection(file, in.bytes(in.left())));
  return hdf5_region_text(object == 0 || file.undefined(object) ? std::string() : find(object), which);
}

result<std::string> hdf5_region_text(const std::string& path, const hdf5_selection& of) {
  switch (of.what) {
    case hdf5_selection::kind::none:
      return path + "[]";
    case hdf5_selection::kind::all:
      return path + "[...]";
    case hdf5_selection::kind::points:
      return path + points_text(of);
    case hdf5_selection::kind::boxes:
      return path + boxes_text(of);
    case hdf5_selection::kind::regular:
      break;
  }
  PENSTOCK_ASSIGN(const std::string boxes, regular_text(of));
  return path + boxes;
}

result<std::string> hdf5_reference_text(hdf5_file& file, hdf5_global_heap& heap, std::span<const std::byte> stored,
                                        const hdf5_path_finder& find) {
  // H5R_type_t, and H5R_IS_EXTERNAL.
  enum : std::uint64_t { kObject = 2, kRegion = 3, kAttribute = 4, kOtherFile = 1 };
  constexpr std::size_t kNameBytes = 2;  // the length before a name
  hdf5_cursor head(stored);
  const std::uint64_t what = head.number(1), flags = head.number(1);
  if (what == 0) return std::string();
  if (what < kObject || what > kAttribute) return hdf5_unknown(fmt::format("references of kind {}", what));
  std::span<const std::byte> body = head.bytes(head.left());
  if (what != kObject || (flags & kOtherFile) != 0) {  // the rest is in a heap
    hdf5_cursor place(body);
    const std::uint64_t length = place.number(4), collection = place.number(file.offset_bytes());
    PENSTOCK_ASSIGN(body, heap.object(collection, place.number(4)));
    if (!place.ok() || body.size() < length)
      return hdf5_damaged(fmt::format("a reference of {} bytes in an object of {}", length, body.size()));
    body = body.first(static_cast<std::size_t>(length));
  }
  hdf5_cursor in(body);
  const std::uint64_t width = in.number(1);
  if (width == 0 || width > 8) return hdf5_damaged(fmt::format("a reference with an address of {} bytes", width));
  const std::uint64_t object = in.number(static_cast<std::size_t>(width));
  const auto name = [&] {
    const auto bytes = in.bytes(in.number(kNameBytes));
    return hdf5_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  std::string text;
  if ((flags & kOtherFile) != 0)
    text = fmt::format("<object at {} of {}>", object, name());
  else if (in.ok() && object != 0 && !file.undefined(object))
    text = find(object);
  if (what == kAttribute) text += "@" + name();
  if (!in.ok()) return hdf5_damaged("a reference is truncated");
  if (what != kRegion) return text;
  constexpr std::uint64_t kSizeAndRank = 8;
  in.skip(kSizeAndRank);
  PENSTOCK_ASSIGN(const hdf5_selection which, parse_hdf5_selection(file, in.bytes(in.left())));
  return hdf5_region_text(text, which);
}

}  // namespace penstock::inline v0
