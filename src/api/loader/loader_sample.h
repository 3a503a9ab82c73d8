#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <penstock/extend/chunk_grid.h>
#include <penstock/loader.h>
#include "array/conversion.h"

namespace penstock::inline v0 {

/// How an array's part of a sample is assembled from its chunks.
class loader_sample {
 public:
  /// \error  As `loader::make`, of one array.
  static result<loader_sample> make(const loader_array& of, std::span<const loader_axis> axes);

  const dtype& type() const noexcept { return type_; }
  /// Shape of one sample in a batch.
  const extents& shape() const noexcept { return shape_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Adds the chunks of the sample at `origin`.
  void chunks_of(std::span<const std::int64_t> origin, std::vector<chunk_id>& out) const;
  /// Assembles the sample at `origin`. `values_of` has each of its chunks.
  void put(std::span<const std::int64_t> origin, const std::function<const std::byte*(chunk_id)>& values_of,
           std::byte* to) const;

 private:
  // The box of a sample in the array; it may extend beyond the array.
  struct place {
    dim_vector<std::int64_t> begin, end;     // the whole sample
    dim_vector<std::uint64_t> first, count;  // the part inside
    bool empty = false;
  };
  place place_of(std::span<const std::int64_t> origin) const noexcept;
  template <class Each>
  void for_each_chunk(const place& of, const Each& each) const;
  void scale(const place& of, std::byte* to) const noexcept;
  void pad(const place& of, std::byte* to) const noexcept;

  const chunk_grid* grid_ = nullptr;
  dtype type_;
  std::uint32_t from_bytes_ = 0;
  conversion how_;
  dim_vector<std::int32_t> axis_;  ///< the loader's axis for a dimension; -1: the dimension is complete
  extents size_;                   ///< of a sample along each dimension
  extents shape_;
  strides strides_;  ///< strides of a sample in a batch, for each dimension
  std::uint64_t bytes_ = 0;
  std::vector<double> scale_, offset_;
  std::size_t along_ = 0;
  std::vector<std::byte> padding_;
};

/// Elements of a sample that are inside of the arrays, as bytes of 0 and 1.
void put_valid_places(std::span<const std::int64_t> origin, std::span<const std::uint64_t> lengths,
                      std::span<const loader_axis> axes, std::byte* to) noexcept;

}  // namespace penstock::inline v0
