#include "format/hdf5/hdf5_mappings.h"

#include <fmt/format.h>
#include <penstock/shape.h>

#include "base/checked.h"
#include "base/lookup3.h"
#include "format/hdf5/hdf5_heaps.h"

namespace penstock::inline v0 {
namespace {

/// Parses a virtual dataset's object in the global heap.
class mapping_parser {
 public:
  mapping_parser(hdf5_file& file, std::span<const std::byte> bytes) noexcept : file_(file), cursor_(bytes) {}

  result<std::vector<hdf5_mapping>> parse() {
    const std::uint64_t version = cursor_.number(1);
    if (version > 1) return hdf5_unknown(fmt::format("mappings of a virtual dataset of version {}", version));
    const std::uint64_t count = cursor_.number(file_.length_bytes());
    std::vector<hdf5_mapping> out;
    for (std::uint64_t i = 0; i < count; ++i) {
      hdf5_mapping each;
      PENSTOCK_TRY(parse_names(version, out, each));
      PENSTOCK_ASSIGN(each.from, parse_selection());
      PENSTOCK_ASSIGN(each.to, parse_selection());
      out.push_back(std::move(each));
    }
    return out;
  }

  result<hdf5_selection> parse_selection() {
    hdf5_selection out;
    const std::uint64_t type = cursor_.number(4), version = cursor_.number(4);
    switch (type) {
      case 0:
      case 3:
        out.what = type == 0 ? hdf5_selection::kind::none : hdf5_selection::kind::all;
        cursor_.skip(8);  // reserved, length
        break;
      case 1:
        PENSTOCK_TRY(parse_points(version, out));
        break;
      case 2:
        PENSTOCK_TRY(parse_hyperslab(version, out));
        break;
      default:
        return cursor_.ok() ? hdf5_unknown(fmt::format("a selection of kind {}", type))
                            : hdf5_damaged("the mappings of a virtual dataset are truncated");
    }
    if (!cursor_.ok()) return hdf5_damaged("the mappings of a virtual dataset are truncated");
    return out;
  }

 private:
  // In version 1, a name may be the number of an earlier mapping that has the same name.
  result<> parse_names(std::uint64_t version, const std::vector<hdf5_mapping>& earlier, hdf5_mapping& out) {
    enum : std::uint64_t { kSharedFile = 1, kSharedDataset = 2, kThisFile = 4 };
    const std::uint64_t flags = version == 0 ? 0 : cursor_.number(1);
    if ((flags & kThisFile) != 0) {
      out.file = ".";
    } else {
      PENSTOCK_ASSIGN(out.file, parse_name((flags & kSharedFile) != 0, earlier, &hdf5_mapping::file));
    }
    PENSTOCK_ASSIGN(out.dataset, parse_name((flags & kSharedDataset) != 0, earlier, &hdf5_mapping::dataset));
    return {};
  }

  result<std::string> parse_name(bool is_shared, const std::vector<hdf5_mapping>& earlier,
                                 std::string hdf5_mapping::* which) {
    if (is_shared) {
      const std::uint64_t number = cursor_.number(file_.length_bytes());
      if (!cursor_.ok() || number >= earlier.size())
        return hdf5_damaged("a mapping refers to the name of a mapping that does not exist");
      const std::string& name = earlier[static_cast<std::size_t>(number)].*which;
      PENSTOCK_TRY(file_.spend(name.size()));
      return name;
    }
    std::string name;
    for (;;) {
      const auto one = cursor_.bytes(1);
      if (one.empty()) return hdf5_damaged("the mappings of a virtual dataset are truncated");
      if (one[0] == std::byte{0}) return name;
      name.push_back(static_cast<char>(one[0]));
    }
  }

  result<> parse_rank(hdf5_selection& out) {
    const std::uint64_t rank = cursor_.number(4);
    if (rank == 0 || rank > kMaxRank) return hdf5_damaged(fmt::format("a selection of {} dimensions", rank));
    out.rank = static_cast<std::size_t>(rank);
    return {};
  }

  result<> parse_width(std::size_t& out) {
    const std::uint64_t width = cursor_.number(1);
    if (width != 2 && width != 4 && width != 8)
      return hdf5_damaged(fmt::format("a selection with numbers of {} bytes", width));
    out = static_cast<std::size_t>(width);
    return {};
  }

  result<> parse_points(std::uint64_t version, hdf5_selection& out) {
    out.what = hdf5_selection::kind::points;
    std::size_t width = 4;
    if (version == 1)
      cursor_.skip(8);  // reserved, length
    else if (version == 2)
      PENSTOCK_TRY(parse_width(width));
    else
      return hdf5_unknown(fmt::format("a selection of points of version {}", version));
    PENSTOCK_TRY(parse_rank(out));
    return parse_corners(cursor_.number(width), 1, width, out);
  }

  result<> parse_corners(std::uint64_t count, std::uint64_t corners, std::size_t width, hdf5_selection& out) {
    const std::uint64_t numbers = saturating_mul(saturating_mul(count, corners), out.rank);
    if (saturating_mul(numbers, width) > cursor_.left())
      return hdf5_damaged("the mappings of a virtual dataset are truncated");
    for (std::uint64_t i = 0; i < numbers; ++i) out.corners.push_back(cursor_.number(width));
    return {};
  }

  result<> parse_hyperslab(std::uint64_t version, hdf5_selection& out) {
    if (version < 1 || version > 3) return hdf5_unknown(fmt::format("a hyperslab selection of version {}", version));
    std::size_t width = version == 2 ? 8 : 4;
    bool regular = false;
    if (version == 1) {
      cursor_.skip(8);  // reserved, length
    } else {
      regular = (cursor_.number(1) & 1) != 0;
      if (version == 2)
        cursor_.skip(4);  // length
      else
        PENSTOCK_TRY(parse_width(width));
    }
    PENSTOCK_TRY(parse_rank(out));
    if (!regular) {
      out.what = hdf5_selection::kind::boxes;
      return parse_corners(cursor_.number(width), 2, width, out);
    }
    out.what = hdf5_selection::kind::regular;
    const std::uint64_t unlimited = ~std::uint64_t{0} >> (64 - 8 * width);
    const auto limited = [&](std::uint64_t number) { return number == unlimited ? byte_range::kAll : number; };
    for (std::size_t d = 0; d < out.rank; ++d) {
      hdf5_selection::axis axis;
      axis.start = cursor_.number(width);
      axis.stride = cursor_.number(width);
      axis.count = limited(cursor_.number(width));
      axis.block = limited(cursor_.number(width));
      out.axes.push_back(axis);
    }
    return {};
  }

  hdf5_file& file_;
  hdf5_cursor cursor_;
};

}  // namespace

result<hdf5_selection> parse_hdf5_selection(hdf5_file& file, std::span<const std::byte> from) {
  return mapping_parser(file, from).parse_selection();
}

result<std::vector<hdf5_mapping>> read_hdf5_mappings(hdf5_file& file, const hdf5_layout& layout) {
  if (layout.what != hdf5_layout::kind::mapped || file.undefined(layout.address)) return std::vector<hdf5_mapping>();
  hdf5_global_heap heap(file);
  PENSTOCK_ASSIGN(const auto object, heap.object(layout.address, layout.heap_index));
  if (object.size() < kHdf5ChecksumBytes) return hdf5_damaged("the mappings of a virtual dataset are truncated");
  const auto covered = object.first(object.size() - kHdf5ChecksumBytes);
  hdf5_cursor stored(object.last(kHdf5ChecksumBytes));
  if (file.checksums() == hdf5_checksums::verified && lookup3(covered, 0) != stored.number(kHdf5ChecksumBytes))
    return hdf5_damaged("the mappings of a virtual dataset have a wrong checksum");
  return mapping_parser(file, covered).parse();
}

}  // namespace penstock::inline v0
