#pragma once

// Small selections of HDF5 from a fuzzer's bytes, and the elements that parts show, one by one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "codec_fuzz.h"
#include "format/hdf5/hdf5_virtual.h"

namespace penstock::inline v0 {

inline std::vector<std::uint64_t> small_shape(fuzz_input& input) {
  std::vector<std::uint64_t> out(1 + input.below(3));
  for (std::uint64_t& each : out) each = input.below(7);
  return out;
}

inline hdf5_selection small_selection(fuzz_input& input, std::size_t rank) {
  constexpr std::uint32_t kMostPlaces = 6;
  hdf5_selection out;
  out.what = static_cast<hdf5_selection::kind>(input.below(5));
  using kind = hdf5_selection::kind;
  if (out.what == kind::none || out.what == kind::all) return out;
  out.rank = input.below(16) == 15 ? 1 + rank % 3 : rank;
  if (out.what == kind::regular) {
    for (std::size_t d = 0; d < out.rank; ++d) {
      hdf5_selection::axis& axis = out.axes.emplace_back();
      axis.start = input.below(7);
      axis.stride = input.below(5);
      axis.count = input.below(5);
      axis.block = input.below(5);
    }
    return out;
  }
  const std::size_t each = out.what == kind::boxes ? 2 * out.rank : out.rank;
  for (std::size_t i = each * input.below(kMostPlaces); i != 0; --i) out.corners.push_back(input.below(7));
  return out;
}

/// All positions of a shape, in C order.
inline std::vector<std::vector<std::uint64_t>> all_positions(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t each : shape) count *= each;
  std::vector<std::vector<std::uint64_t>> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::uint64_t>& at = out.emplace_back(shape.size());
    std::uint64_t left = i;
    for (std::size_t d = shape.size(); d-- > 0; left /= shape[d]) at[d] = left % shape[d];
  }
  return out;
}

/// The elements that parts show, as pairs of numbers in C order of the dataset's shape and of the source's.
inline std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs_of(std::span<const hdf5_part> parts,
                                                                     const std::vector<std::uint64_t>& to_shape,
                                                                     const std::vector<std::uint64_t>& from_shape) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  for (const hdf5_part& shown : parts) {
    require(shown.origin.size() == from_shape.size() && shown.runs.size() == to_shape.size() &&
            shown.axes.size() == to_shape.size());
    std::vector<std::uint64_t> lengths;  // of the positions along each dimension
    for (const auto& runs : shown.runs) {
      std::uint64_t& sum = lengths.emplace_back(0);
      for (const hdf5_run& each : runs) sum += each.count;
    }
    for (const std::vector<std::uint64_t>& which : all_positions(lengths)) {
      std::vector<std::uint64_t> from = shown.origin;
      std::uint64_t to_number = 0, from_number = 0;
      for (std::size_t d = 0; d < to_shape.size(); ++d) {
        std::uint64_t left = which[d];
        std::size_t run = 0;
        while (left >= shown.runs[d][run].count) left -= shown.runs[d][run++].count;
        const std::uint64_t to = shown.runs[d][run].to + left;
        require(to < to_shape[d]);
        to_number = to_number * to_shape[d] + to;
        if (shown.axes[d]) from[*shown.axes[d]] = shown.runs[d][run].from + left;
      }
      for (std::size_t d = 0; d < from_shape.size(); ++d) {
        require(from[d] < from_shape[d]);
        from_number = from_number * from_shape[d] + from[d];
      }
      out.emplace_back(to_number, from_number);
    }
  }
  return out;
}

/// A file that consists of a superblock of version 2: for parsers that do not read it.
class empty_hdf5_file final : public hdf5_source {
 public:
  empty_hdf5_file() {
    constexpr unsigned char kHead[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 2, 8, 8, 0};
    for (const unsigned char each : kHead) bytes_.push_back(std::byte{each});
    bytes_.resize(512);
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    return std::span<const std::byte>(bytes_).subspan(offset, length);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// Stores a selection in all versions of its form, and reads it again.
/// Source: HDF5 File Format Specification 4.0, VIII.A.
inline void check_stored(const hdf5_selection& which) {
  using kind = hdf5_selection::kind;
  empty_hdf5_file source;
  auto file = hdf5_file::open(source, hdf5_checksums::ignored);
  require(file.ok());
  std::vector<std::byte> out;
  const auto put = [&](std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  struct form {
    std::uint64_t version;
    std::size_t width;
  };
  std::vector<form> forms{{1, 4}};
  if (which.what == kind::points)
    forms.insert(forms.end(), {{2, 2}, {2, 4}, {2, 8}});
  else if (which.what == kind::regular)
    forms = {{2, 8}, {3, 2}, {3, 4}, {3, 8}};
  else if (which.what == kind::boxes)
    forms.insert(forms.end(), {{3, 2}, {3, 4}, {3, 8}});
  for (const auto& [version, width] : forms) {
    out.clear();
    const bool is_list = which.what == kind::points || which.what == kind::boxes;
    put(which.what == kind::none ? 0 : which.what == kind::points ? 1 : which.what == kind::all ? 3 : 2, 4);
    put(version, 4);
    if (version == 1) put(0, 8);  // reserved, length
    if (version != 1 && which.what != kind::points) put(which.what == kind::regular ? 1 : 0, 1);
    if (version == 2 && which.what == kind::regular) put(0, 4);
    if ((version == 2 && which.what == kind::points) || version == 3) put(width, 1);
    if (is_list || which.what == kind::regular) put(which.rank, 4);
    if (is_list) put(which.corners.size() / (which.what == kind::points ? which.rank : 2 * which.rank), width);
    for (const std::uint64_t each : which.corners) put(each, width);
    for (const hdf5_selection::axis& each : which.axes) {
      put(each.start, width);
      put(each.stride, width);
      put(each.count, width);
      put(each.block, width);
    }
    const auto again = parse_hdf5_selection(*file, out);
    require(again.ok() && again->what == which.what && again->rank == which.rank && again->corners == which.corners &&
            again->axes.size() == which.axes.size());
    for (std::size_t d = 0; d < which.axes.size(); ++d) {
      const hdf5_selection::axis &a = again->axes[d], &b = which.axes[d];
      require(a.start == b.start && a.stride == b.stride && a.count == b.count && a.block == b.block);
    }
    for (const std::size_t length : {std::size_t{0}, out.size() / 2, out.size() - 1})
      require(!parse_hdf5_selection(*file, std::span(out).first(length)).ok());
  }
}

}  // namespace penstock::inline v0
