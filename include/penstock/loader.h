#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/dtype.h>
#include <penstock/owned_tensor.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

class loader_state;  // src/api/loader_pass.h

/// Leaves the state alone that a fork took from another process: its thread is not here.
struct PENSTOCK_API loader_state_deleter {
  void operator()(loader_state* state) const noexcept;
};

/// One of the axes along which samples are crops.
struct loader_axis {
  std::uint64_t crop = 1;               ///< elements of a sample
  bool keeps = true;                    ///< whether batches have it as a dimension; else crop is 1
  std::uint64_t stride = 0;             ///< of a grid, from sample to sample; 0: the crop
  std::uint64_t before = 0, after = 0;  ///< elements beyond the ends that samples may reach
};

/// One of the arrays that a sample has a crop of.
struct loader_array {
  array from;
  /// Which dimension of `from` each axis is; none: the array does not have it. Dimensions that are no axis are whole in
  /// each sample.
  std::vector<std::optional<std::size_t>> dims;
  std::optional<dtype> type;  ///< of the batches, as `read_options::type`
  /// A value becomes value * scale + offset, in the batch's type, a float of 32 or 64 bits. Empty: 1 and 0; one for
  /// all, or one for each index of dimension `along`.
  std::vector<double> scale, offset;
  std::size_t along = 0;
  std::vector<std::byte> padding;  ///< one element of the batch's type, for what lies beyond the ends; empty: zeros
};

struct loader_options {
  std::optional<std::uint64_t> random_samples;  ///< so many crops anywhere, others in each epoch; else a grid of crops
  std::vector<std::int64_t> origins;            ///< or crops that begin here: a number for each axis, sample by sample
  std::uint64_t batch = 8;                      ///< samples
  bool drop_last = false;                       ///< no batch that is not full, and as many for every rank
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::uint64_t window_bytes = 0;  ///< decoded chunks of all ranks together; 0: a quarter of the context's limit
  std::uint64_t depth = 2;         ///< batches that are made before they are asked for
  bool mask = false;               ///< batches also say which places lie inside of the arrays
};

/// From where to where one rank goes.
struct loader_position {
  std::uint64_t epoch = 0;
  std::uint64_t first_batch = 0;  ///< counted over all ranks
  std::uint64_t rank = 0, ranks = 1;
};

struct loader_batch {
  std::uint64_t number = 0;          ///< in the epoch, over all ranks
  std::uint64_t samples = 0;         ///< fewer than a batch's only in the last one
  std::vector<owned_tensor> values;  ///< of each array, then the mask
};

struct loader_counts {
  std::uint64_t chunks_read = 0, bytes_read = 0;  ///< decoded
  std::uint64_t chunks_again = 0;                 ///< of these, the ones that were decoded before in the same epoch
  std::uint64_t window_bytes = 0, peak_window_bytes = 0;
  std::uint64_t blocks_open = 0,
                lanes = 0;  ///< from how many blocks of chunks, and in how many parts, samples are mixed
};

/// Batches of crops, for training: each chunk is read and decoded once an epoch.
///
/// Shuffling goes in two steps: blocks of chunks come in random order, and samples are drawn from those of a window.
/// The order of the batches of an epoch depends on the options and the epoch alone, whatever the number of ranks; batch
/// j is that of rank j % ranks. The order being known, each chunk is read before it is needed and kept, within the
/// window's bytes, until its last sample has it; where that is not possible, the one goes that is needed last.
///
/// Reads go on by themselves on the context's threads, and batches are put together on one more. One caller at a time.
class PENSTOCK_API loader {
 public:
  /// \error invalid_argument  Arrays whose axes differ in length; crops that do not fit; types that do not go together;
  ///                          a window that does not hold the chunks of one sample.
  /// \error unsupported       Items of variable length.
  static result<loader> make(std::vector<loader_array> arrays, std::vector<loader_axis> axes, loader_options options);
  /// Destroying it cancels what is under way. After a fork the child makes one of its own.

  /// Samples of an epoch, and batches of all ranks together.
  std::uint64_t samples() const noexcept;
  std::uint64_t batches() const noexcept;
  /// Batches of one rank from there to the end.
  std::uint64_t batches_of(const loader_position& from) const noexcept;
  /// Shape of a full batch of array `which`; of the mask, one past the last.
  extents batch_shape(std::size_t which) const;
  const dtype& batch_type(std::size_t which) const noexcept;

  /// Begins an epoch, or goes on within one. What was under way is cancelled; chunks in the window stay.
  /// \error invalid_argument  A rank that is not below `ranks`.
  result<> start(const loader_position& from);
  /// The next batch; nullopt at the end. \error  What failed in reading its chunks; the epoch is over then.
  result<std::optional<loader_batch>> next();
  loader_counts counts() const;

 private:
  explicit loader(std::unique_ptr<loader_state, loader_state_deleter> state) noexcept;
  std::unique_ptr<loader_state, loader_state_deleter> state_;
};

}  // namespace penstock::inline v0
