#include "format/zarr/object_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/checked.h"

namespace penstock::inline v0 {

result<object_shapes> object_shapes::make(const zarr_grid& grid, const chunk_grid& objects) {
  object_shapes out;
  const std::size_t rank = objects.rank();
  out.lengths_.resize(rank);
  out.place_.resize(rank);
  out.strides_.resize(rank);
  std::uint64_t count = 1;
  for (std::size_t d = rank; d-- > 0;) {
    std::vector<std::uint64_t>& lengths = out.lengths_[d];
    const grid_axis& axis = objects.axis(d);
    if (axis.is_uniform() || axis.cells() == 0) {
      lengths.push_back(grid.chunk[d]);
    } else {
      for (std::uint64_t i = 0; i < axis.cells(); ++i) lengths.push_back(axis.codec_length(i));
      std::sort(lengths.begin(), lengths.end(), std::greater<>());
      lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
      out.place_[d].reserve(static_cast<std::size_t>(axis.cells()));
      for (std::uint64_t i = 0; i < axis.cells(); ++i) {
        const auto found = std::lower_bound(lengths.begin(), lengths.end(), axis.codec_length(i), std::greater<>());
        out.place_[d].push_back(static_cast<std::uint32_t>(found - lengths.begin()));
      }
    }
    out.strides_[d] = static_cast<std::uint32_t>(count);
    if (!checked_mul(count, lengths.size(), count) || count > kMost) {
      return error(errc::unsupported,
                   fmt::format("a 'rectilinear' chunk grid with more than {} different chunk shapes", kMost));
    }
  }
  out.count_ = static_cast<std::size_t>(count);
  return out;
}

extents object_shapes::shape(std::size_t number) const {
  extents out(lengths_.size());
  for (std::size_t d = 0; d < out.size(); ++d) out[d] = lengths_[d][number / strides_[d] % lengths_[d].size()];
  return out;
}

std::size_t object_shapes::of(const dim_vector<std::uint64_t>& at) const noexcept {
  if (count_ == 1) return 0;
  std::size_t number = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (!place_[d].empty()) number += std::size_t{place_[d][at[d]]} * strides_[d];
  }
  return number;
}

}  // namespace penstock::inline v0
