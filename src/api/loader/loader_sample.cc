#include "api/loader/loader_sample.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "array/converted_copy.h"
#include "array/strided_copy.h"
#include "base/counted.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

std::int64_t as_signed(std::uint64_t value) noexcept { return static_cast<std::int64_t>(value); }

// value * scale + offset for a block of floats; `scale` and `offset` have one number, or one for each index of `along`.
template <class Float>
void scale_block(std::byte* to, const strides& steps, const extents& counts, std::size_t d, std::size_t along,
                 const double* scale, const double* offset, bool each) noexcept {
  if (d + 1 == counts.size() || counts.empty()) {
    const bool varies = each && d == along;
    const std::uint64_t count = counts.empty() ? 1 : counts[d];
    const std::int64_t step = counts.empty() ? 0 : steps[d];
    auto first = static_cast<Float>(*scale), second = static_cast<Float>(*offset);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (varies) {
        first = static_cast<Float>(scale[i]);
        second = static_cast<Float>(offset[i]);
      }
      std::byte* const at = to + as_signed(i) * step;
      Float value;
      std::memcpy(&value, at, sizeof(value));
      value = value * first + second;
      std::memcpy(at, &value, sizeof(value));
    }
    return;
  }
  for (std::uint64_t i = 0; i < counts[d]; ++i) {
    const std::uint64_t index = each && d == along ? i : 0;
    scale_block<Float>(to + as_signed(i) * steps[d], steps, counts, d + 1, along, scale + index, offset + index, each);
  }
}

// Writes `item` to all of a block except its inner part.
void fill_around(std::byte* to, const strides& steps, const extents& size, const dim_vector<std::uint64_t>& skipped,
                 const dim_vector<std::uint64_t>& inner, const std::byte* item, std::uint32_t item_bytes) noexcept {
  extents counts = size;
  for (std::size_t d = 0; d < size.size(); ++d) {
    const std::uint64_t before = skipped[d], after = size[d] - before - inner[d];
    counts[d] = before;
    if (before > 0) strided_fill(to, steps, counts, item, item_bytes);
    counts[d] = after;
    if (after > 0) strided_fill(to + as_signed(before + inner[d]) * steps[d], steps, counts, item, item_bytes);
    counts[d] = inner[d];  // the rest is between them
    to += as_signed(before) * steps[d];
  }
}

result<std::vector<double>> one_or_each(const std::vector<double>& given, double usual, const loader_array& of,
                                        const char* what) {
  if (given.empty()) return std::vector<double>{usual};
  const extents& shape = of.from.shape();
  if (given.size() == 1) return given;
  if (of.along >= shape.size() || given.size() != shape[of.along])
    return error(errc::invalid_argument,
                 fmt::format("{} has {} numbers: one, or one for each index of a dimension, of {}", what, given.size(),
                             to_string(shape)));
  return given;
}

}  // namespace

result<loader_sample> loader_sample::make(const loader_array& of, std::span<const loader_axis> axes) {
  loader_sample made;
  const extents& shape = of.from.shape();
  made.grid_ = &of.from.state().layout->grid();
  made.type_ = of.type.value_or(of.from.type());
  made.from_bytes_ = of.from.type().item_bytes();
  if (of.from.type().variable_length())
    return error(errc::unsupported, fmt::format("items of {} have no fixed length", of.from.type().name()));
  PENSTOCK_ASSIGN(made.how_, conversion_of(of.from.type(), made.type_));
  if (of.dims.size() != axes.size())
    return error(errc::invalid_argument,
                 fmt::format("{}, and dimensions of {}", counted(axes.size(), "axis", "axes"), of.dims.size()));
  made.axis_ = dim_vector<std::int32_t>(shape.size(), -1);
  made.size_ = shape;
  dim_vector<bool> keeps(shape.size(), true);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (!of.dims[a]) continue;
    const std::size_t d = *of.dims[a];
    if (d >= shape.size() || made.axis_[d] >= 0)
      return error(errc::invalid_argument,
                   fmt::format("dimension {} is not an axis of its own in an array of {}", d, to_string(shape)));
    made.axis_[d] = static_cast<std::int32_t>(a);
    made.size_[d] = axes[a].crop;
    keeps[d] = axes[a].keeps;
    if (!axes[a].keeps && axes[a].crop != 1)
      return error(errc::invalid_argument, fmt::format("an axis with crops of {} stays a dimension", axes[a].crop));
  }
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (keeps[d]) made.shape_.push_back(made.size_[d]);
  if (made.shape_.size() == kMaxRank)
    return error(errc::invalid_argument, fmt::format("a crop has at most {} dimensions", kMaxRank - 1));
  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(made.shape_));
  const std::uint32_t item = made.type_.item_bytes();
  if (elements > (std::uint64_t{1} << 62) / item)
    return error(errc::resource_exhausted, fmt::format("a sample of {} exceeds 2^62 bytes", to_string(made.shape_)));
  made.bytes_ = elements * item;
  made.strides_ = c_order_strides(made.size_, item);

  made.along_ = of.along;
  PENSTOCK_ASSIGN(made.scale_, one_or_each(of.scale, 1, of, "scale"));
  PENSTOCK_ASSIGN(made.offset_, one_or_each(of.offset, 0, of, "offset"));
  const std::size_t most = std::max(made.scale_.size(), made.offset_.size());
  made.scale_.resize(most, made.scale_[0]);
  made.offset_.resize(most, made.offset_[0]);
  if (of.scale.empty() && of.offset.empty()) {
    made.scale_.clear();
  } else if (made.type_.kind() != dtype_kind::floating || (item != 4 && item != 8)) {
    return error(errc::invalid_argument,
                 fmt::format("scaled values are of float32 or float64, not of {}", made.type_.name()));
  }
  if (!of.padding.empty() && of.padding.size() != item)
    return error(errc::invalid_argument, fmt::format("padding of {} bytes for items of {}", of.padding.size(), item));
  made.padding_ = of.padding.empty() ? std::vector<std::byte>(item) : of.padding;
  return made;
}

loader_sample::place loader_sample::place_of(std::span<const std::int64_t> origin) const noexcept {
  place out;
  for (std::size_t d = 0; d < size_.size(); ++d) {
    const std::int64_t begin = axis_[d] < 0 ? 0 : origin[static_cast<std::size_t>(axis_[d])];
    const std::int64_t end = begin + as_signed(size_[d]);
    const std::int64_t extent = as_signed(grid_->axis(d).extent());
    const std::int64_t first = std::clamp<std::int64_t>(begin, 0, extent),
                       last = std::clamp<std::int64_t>(end, 0, extent);
    out.begin.push_back(begin);
    out.end.push_back(end);
    out.first.push_back(static_cast<std::uint64_t>(first));
    out.count.push_back(static_cast<std::uint64_t>(last - first));
    out.empty = out.empty || last <= first;
  }
  return out;
}

// Calls each(cell, coordinates) for the cells that contain elements of a box.
template <class Each>
void loader_sample::for_each_chunk(const place& of, const Each& each) const {
  if (of.empty) return;
  const std::size_t rank = size_.size();
  dim_vector<std::uint64_t> low(rank), high(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    low[d] = grid_->axis(d).cell_of(of.first[d]);
    high[d] = grid_->axis(d).cell_of(of.first[d] + of.count[d] - 1);
  }
  dim_vector<std::uint64_t> at = low;
  while (true) {
    each(grid_->id(at), at);
    std::size_t d = rank;
    while (d > 0) {
      --d;
      if (++at[d] <= high[d]) break;
      at[d] = low[d];
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

void loader_sample::chunks_of(std::span<const std::int64_t> origin, std::vector<chunk_id>& out) const {
  for_each_chunk(place_of(origin), [&](chunk_id id, const dim_vector<std::uint64_t>&) { out.push_back(id); });
}

void loader_sample::put(std::span<const std::int64_t> origin,
                        const std::function<const std::byte*(chunk_id)>& values_of, std::byte* to) const {
  const place of = place_of(origin);
  const std::size_t rank = size_.size();
  for_each_chunk(of, [&](chunk_id id, const dim_vector<std::uint64_t>& at) {
    extents cell, counts;
    std::int64_t into = 0;
    dim_vector<std::uint64_t> skipped;
    for (std::size_t d = 0; d < rank; ++d) {
      const grid_axis& axis = grid_->axis(d);
      const std::uint64_t begin = axis.origin(at[d]), length = axis.valid_length(at[d]);
      const std::uint64_t first = std::max(begin, of.first[d]);
      const std::uint64_t last = std::min(begin + length, of.first[d] + of.count[d]);
      cell.push_back(length);
      counts.push_back(last - first);
      skipped.push_back(first - begin);
      into += (as_signed(first) - of.begin[d]) * strides_[d];
    }
    const strides steps = c_order_strides(cell, from_bytes_);
    const std::byte* from = values_of(id);
    for (std::size_t d = 0; d < rank; ++d) from += as_signed(skipped[d]) * steps[d];
    if (how_.converts()) {
      strided_convert(to + into, strides_, from, steps, counts, how_, 1);
    } else {
      strided_copy(to + into, strides_, from, steps, counts, from_bytes_, 1);
    }
  });
  if (!scale_.empty()) scale(of, to);
  pad(of, to);
}

void loader_sample::scale(const place& of, std::byte* to) const noexcept {
  if (of.empty) return;
  for (std::size_t d = 0; d < size_.size(); ++d) to += (as_signed(of.first[d]) - of.begin[d]) * strides_[d];
  const bool each = scale_.size() > 1;
  const std::size_t index = each ? static_cast<std::size_t>(of.first[along_]) : 0;
  const auto run = [&]<class Float>(Float) {
    scale_block<Float>(to, strides_, of.count, 0, along_, scale_.data() + index, offset_.data() + index, each);
  };
  if (type_.item_bytes() == 4) {
    run(float{});
  } else {
    run(double{});
  }
}

void loader_sample::pad(const place& of, std::byte* to) const noexcept {
  if (of.empty) {
    strided_fill(to, strides_, size_, padding_.data(), type_.item_bytes());
    return;
  }
  dim_vector<std::uint64_t> skipped;
  bool whole = true;
  for (std::size_t d = 0; d < size_.size(); ++d) {
    skipped.push_back(static_cast<std::uint64_t>(as_signed(of.first[d]) - of.begin[d]));
    whole = whole && of.count[d] == size_[d];
  }
  if (!whole) fill_around(to, strides_, size_, skipped, of.count, padding_.data(), type_.item_bytes());
}

void put_valid_places(std::span<const std::int64_t> origin, std::span<const std::uint64_t> lengths,
                      std::span<const loader_axis> axes, std::byte* to) noexcept {
  extents size, counts;
  dim_vector<std::uint64_t> skipped;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::int64_t end = origin[a] + as_signed(axes[a].crop), length = as_signed(lengths[a]);
    const std::int64_t first = std::clamp<std::int64_t>(origin[a], 0, length);
    const std::int64_t last = std::clamp<std::int64_t>(end, 0, length);
    size.push_back(axes[a].crop);
    skipped.push_back(
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(first - origin[a], 0, as_signed(axes[a].crop))));
    counts.push_back(static_cast<std::uint64_t>(last - first));
  }
  const strides steps = c_order_strides(size, 1);
  const std::byte none{0}, all{1};
  strided_fill(to, steps, size, &none, 1);
  for (std::size_t a = 0; a < axes.size(); ++a) to += as_signed(skipped[a]) * steps[a];
  strided_fill(to, steps, counts, &all, 1);
}

}  // namespace penstock::inline v0
