#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// One axis of a data set of samples. All in elements.
struct sample_axis {
  std::uint64_t extent = 0;             ///< extent of the arrays
  std::uint64_t crop = 1;               ///< elements of one sample
  std::uint64_t stride = 1;             ///< of a grid: from one sample's first element to the next one's
  std::uint64_t before = 0, after = 0;  ///< how far samples may extend beyond the ends
  std::uint64_t block = 1;              ///< the maximum length of the arrays' chunks
  std::string name;                     ///< for errors; empty: the number in the list
};

/// The positions of the samples of a data set: crops of one shape, identified by their number. A sample belongs to the
/// block, of the arrays' largest chunks, in which it begins.
class sample_space {
 public:
  /// The most samples of an epoch: its order has a number for each.
  static constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 40;
  static error too_many_samples(std::uint64_t count);

  /// Crops at equal distances.
  /// \error invalid_argument  A crop, stride or block of 0; a crop that fits nowhere; more than `kMostSamples`.
  static result<sample_space> grid(std::vector<sample_axis> axes);
  /// `count` crops at random positions, equally likely, drawn from `seed`.
  /// \error  As above.
  static result<sample_space> random(std::vector<sample_axis> axes, std::uint64_t count, std::uint64_t seed);
  /// Crops that begin at `origins`, which has a number for each axis, sample by sample.
  /// \error out_of_range  One does not fit. \error  As above.
  static result<sample_space> listed(std::vector<sample_axis> axes, std::vector<std::int64_t> origins);

  const std::vector<sample_axis>& axes() const noexcept { return axes_; }
  std::uint64_t samples() const noexcept { return samples_; }
  /// First element of a sample along each axis; negative if it extends before the beginning.
  void origin(std::uint64_t sample, std::span<std::int64_t> out) const noexcept;
  /// The longest part of an axis that a sample's chunks can cover, in blocks of `length`.
  static std::uint64_t most_blocks(const sample_axis& of, std::uint64_t length) noexcept;

  /// Blocks in which a sample begins.
  std::uint64_t blocks() const noexcept { return blocks_; }
  std::uint64_t samples_in(std::uint64_t which) const noexcept;
  /// Adds the samples of block `which` < blocks() to `out`, in ascending order.
  void samples_of(std::uint64_t which, std::vector<std::uint64_t>& out) const;

 private:
  explicit sample_space(std::vector<sample_axis> axes) noexcept : axes_(std::move(axes)) {}
  void group_by_block();

  std::vector<sample_axis> axes_;
  std::uint64_t samples_ = 0, blocks_ = 0;
  // For a grid: how many samples, and the first of each block and the end of all, along each axis.
  std::vector<std::uint64_t> counts_;
  std::vector<std::vector<std::uint64_t>> starts_;
  // For others: where samples begin; their numbers, block by block.
  std::vector<std::int64_t> origins_;
  std::vector<std::uint64_t> members_, begins_;
};

}  // namespace penstock::inline v0
