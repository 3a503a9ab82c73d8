#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <penstock/config.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The most dimensions that an array may have; NumPy 1's limit.
inline constexpr std::size_t kMaxRank = 32;

/// One value for each dimension, stored inline; never allocates. Copying costs the rank, not the capacity.
template <class T>
class dim_vector {
 public:
  using value_type = T;

  dim_vector() noexcept = default;
  explicit dim_vector(std::size_t rank, T value = T{}) noexcept : size_(rank) {
    assert(rank <= kMaxRank);
    std::fill_n(values_.begin(), rank, value);
  }
  dim_vector(std::initializer_list<T> values) noexcept { assign(values.begin(), values.end()); }
  explicit dim_vector(std::span<const T> values) noexcept { assign(values.begin(), values.end()); }
  dim_vector(const dim_vector& other) noexcept { assign(other.begin(), other.end()); }
  dim_vector& operator=(const dim_vector& other) noexcept {
    assign(other.begin(), other.end());
    return *this;
  }

  template <class It>
  void assign(It first, It last) noexcept {
    size_ = static_cast<std::size_t>(last - first);
    assert(size_ <= kMaxRank);
    std::copy(first, last, values_.begin());
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }
  void resize(std::size_t rank, T value = T{}) noexcept {
    assert(rank <= kMaxRank);
    for (std::size_t d = size_; d < rank; ++d) values_[d] = value;
    size_ = rank;
  }
  void push_back(T value) noexcept {
    assert(size_ < kMaxRank);
    values_[size_++] = value;
  }

  T& operator[](std::size_t d) noexcept {
    assert(d < size_);
    return values_[d];
  }
  const T& operator[](std::size_t d) const noexcept {
    assert(d < size_);
    return values_[d];
  }
  T* data() noexcept { return values_.data(); }
  const T* data() const noexcept { return values_.data(); }
  T* begin() noexcept { return values_.data(); }
  T* end() noexcept { return values_.data() + size_; }
  const T* begin() const noexcept { return values_.data(); }
  const T* end() const noexcept { return values_.data() + size_; }

  friend bool operator==(const dim_vector& a, const dim_vector& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::size_t size_ = 0;
  std::array<T, kMaxRank> values_;  // only the first size_ are set
};

/// Sizes in elements, one for each dimension.
using extents = dim_vector<std::uint64_t>;
/// Distances in bytes between neighbours along each dimension; any sign, and 0.
using strides = dim_vector<std::int64_t>;

/// The elements `start + i * step` for `i` in [0, count) of one dimension. `step` is never 0; it may be negative.
struct axis_range {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::uint64_t count = 0;

  /// Index of element `i` in the dimension.
  std::int64_t at(std::uint64_t i) const noexcept { return start + static_cast<std::int64_t>(i) * step; }
  friend bool operator==(const axis_range&, const axis_range&) = default;
};

/// A strided box: one range for each dimension of the array that it selects from.
using strided_box = dim_vector<axis_range>;

/// A half-open box in elements.
struct box {
  dim_vector<std::uint64_t> origin;
  extents size;
  friend bool operator==(const box&, const box&) = default;
};

/// Number of elements.
/// \error out_of_range  It does not fit into 64 bits.
PENSTOCK_API result<std::uint64_t> element_count(const extents& shape);

/// `(2, 3, 4)`, `(5,)`, `()`, as Python writes a tuple.
PENSTOCK_API std::string to_string(const extents& shape);

/// Strides in bytes of a contiguous C-order array of `item_bytes` elements.
PENSTOCK_API strides c_order_strides(const extents& shape, std::uint64_t item_bytes) noexcept;

}  // namespace penstock::inline v0
