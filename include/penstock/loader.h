#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/device.h>
#include <penstock/dtype.h>
#include <penstock/owned_tensor.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

class loader_state;  // src/api/loader/loader_pass.h

/// Drops the state that was inherited through a fork without touching it: its thread does not exist here.
struct PENSTOCK_API loader_state_deleter {
  void operator()(loader_state* state) const noexcept;
};

/// One of the axes along which samples are crops.
struct loader_axis {
  std::uint64_t crop = 1;               ///< elements of a sample
  bool keeps = true;                    ///< whether batches have it as a dimension; otherwise crop is 1
  std::uint64_t stride = 0;             ///< for a grid: elements from sample to sample; 0: the crop
  std::uint64_t before = 0, after = 0;  ///< elements outside the array that samples may include
};

/// One of the arrays from which each sample has a crop.
struct loader_array {
  array from;
  /// The dimension of `from` for each axis; none: the array does not have the axis. Dimensions that are not an axis are
  /// complete in each sample.
  std::vector<std::optional<std::size_t>> dims;
  std::optional<dtype> type;  ///< the type of the batches, as `read_options::type`
  /// A value becomes value * scale + offset, in the batch's type, a float of 32 or 64 bits. Empty: 1 and 0; one for
  /// all, or one for each index of dimension `along`.
  std::vector<double> scale, offset;
  std::size_t along = 0;
  std::vector<std::byte> padding;  ///< one element of the batch's type, for elements beyond the ends; empty: zeros
};

struct loader_options {
  std::optional<std::uint64_t> random_samples;  ///< the number of random crops in each epoch; else a grid of crops
  std::vector<std::int64_t> origins;            ///< or crops with these starts: a number for each axis, by sample
  std::uint64_t batch = 8;                      ///< samples
  bool drop_last = false;                       ///< no incomplete batches, and the same number for every rank
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::uint64_t window_bytes = 0;  ///< chunks of all ranks together; 0: a quarter of the context's limit
  std::uint64_t depth = 2;         ///< batches that are prepared in advance
  bool mask = false;               ///< batches also report which elements are inside of the arrays
  std::optional<int> device;       ///< batches are in the memory of this CUDA device; else in host memory
};

/// The range of one rank.
struct loader_position {
  std::uint64_t epoch = 0;
  std::uint64_t first_batch = 0;  ///< counted over all ranks
  std::uint64_t rank = 0, ranks = 1;
};

struct loader_batch {
  std::uint64_t number = 0;          ///< number within the epoch, over all ranks
  std::uint64_t samples = 0;         ///< less than a batch only in the last one
  std::vector<owned_tensor> values;  ///< values of each array, then the mask; empty if the loader is for a device
  /// The same in the memory of `loader_options::device`: copies that are queued there. A stream waits for them by
  /// `order` or `to_dlpack`.
  std::vector<device_tensor> device_values;
};

struct loader_counts {
  std::uint64_t chunks_read = 0, bytes_read = 0;  ///< decoded
  std::uint64_t chunks_again = 0;                 ///< of these, how many were decoded before in the same epoch
  std::uint64_t window_bytes = 0, peak_window_bytes = 0;
  std::uint64_t blocks_open = 0,
                lanes = 0;  ///< samples are drawn from this many blocks of chunks, in this many parts
};

/// Batches of crops, for training: each chunk is read and decoded once an epoch.
///
/// Shuffling has two steps: blocks of chunks are put into random order, and samples are drawn from the blocks in a
/// window. The order of the batches of an epoch depends only on the options and the epoch, not on the number of ranks;
/// batch j belongs to rank j % ranks. Since the order is known, each chunk is read before it is needed and cached,
/// within the window's bytes, until its last sample is assembled. If the window is too small, the chunk that is needed
/// last is dropped. A part of the window is for the encoded bytes of chunks in remote stores, which are requested
/// before they can be decoded.
///
/// Reads run on the context's threads, and one more thread assembles batches. For a device, it assembles them in
/// page-locked memory of the context, or in ordinary memory if that is full or smaller than a batch. It queues the
/// copies, so that a batch is transferred while the caller's step runs. Several threads may call it: each batch is
/// returned to one; `start` ends the pass of the others. Destroying it cancels reads. A forked child makes its own.
class PENSTOCK_API loader {
 public:
  /// \error invalid_argument  Arrays whose axes differ in length; crops that do not fit; types that cannot be
  ///                          converted; a window that does not hold the chunks of one sample.
  /// \error unsupported       Items of variable length; a device without a CUDA driver.
  static result<loader> make(std::vector<loader_array> arrays, std::vector<loader_axis> axes, loader_options options);

  /// Samples of an epoch; its batches, those of all ranks together. The last batch may be incomplete, unless
  /// `loader_options::drop_last` is set.
  std::uint64_t samples() const noexcept;
  std::uint64_t batches() const noexcept;
  /// Batches of one rank from there to the end.
  std::uint64_t batches_of(const loader_position& from) const noexcept;
  /// Shape of a full batch of array `which`; of the mask, one past the last.
  extents batch_shape(std::size_t which) const;
  const dtype& batch_type(std::size_t which) const noexcept;

  /// Begins an epoch, or continues within one. Pending reads are cancelled; chunks in the window stay.
  /// \error invalid_argument  A rank that is not below `ranks`. \error resource_exhausted  The plan of the epoch
  /// (8 bytes a sample, and 40 or more a sample of this rank) exceeds the context's memory limit, or the system has no
  /// thread or memory.
  result<> start(const loader_position& from);
  /// The next batch; nullopt at the end.
  /// \error  The failure of a read of its chunks; the epoch has ended then. \error cancelled  Another thread called
  /// `start` meanwhile.
  result<std::optional<loader_batch>> next();
  loader_counts counts() const;

 private:
  explicit loader(std::unique_ptr<loader_state, loader_state_deleter> state) noexcept;
  std::unique_ptr<loader_state, loader_state_deleter> state_;
};

}  // namespace penstock::inline v0
