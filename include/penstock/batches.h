#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include <penstock/crops.h>
#include <penstock/device.h>
#include <penstock/dtype.h>
#include <penstock/owned_tensor.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

class batches_state;  // src/api/loader/batches.cc

struct PENSTOCK_API batches_state_deleter {
  void operator()(batches_state* state) const noexcept;
};

struct batch_options {
  std::size_t size = 8;       ///< crops of a batch
  std::size_t depth = 2;      ///< batches that are read, or ready, while the caller has one; 0: read when requested
  bool drop_last = false;     ///< omit an incomplete last batch
  std::optional<dtype> type;  ///< the type of the batches, as `read_options::type`; empty: the arrays' common type
  unsigned threads = 0;       ///< workers of each read; 0: the context's
  std::optional<int> device;  ///< batches are in the memory of this device (-1: the current one of `next_on_device`'s
                              ///< first caller); empty: in host memory
  bool check = false;         ///< return a batch only when the device is done: its failures are then errors
};

/// Returns the next crop; nullopt after the last one. Called when the crop is to be read, one call at a time.
using crop_generator = std::function<result<std::optional<array_crop>>()>;

/// Batches of crops, read ahead of the loop that computes on them, in the order of the crops.
///
/// A batch is one read: a chunk that several of its crops need is fetched and decoded once. (With `type`, the arrays of
/// a batch may have several dtypes; each of these is one read. If a crop has lists, points or a mask, or items of
/// variable length, each crop of the batch is a read of its own, which devices refuse.) Needs memory for `depth` + 1
/// batches, and for those that the caller keeps. Not thread-safe. Destroying it cancels the reads under way and waits
/// for their workers.
class PENSTOCK_API crop_batches {
 public:
  /// \error invalid_argument  A size of 0, or no generator.
  static result<crop_batches> make(crop_generator crops, batch_options options = {});

  /// The next batch, of shape (crops, *shape of each crop); nullopt after the last one, and after `cancel`.
  /// \error invalid_argument  Crops of several shapes in a batch; arrays of several dtypes and no `options.type`.
  /// \error invalid_argument  `options.device` is given.
  /// \error  The failure of a read, or of the generator. The batches have ended then.
  result<std::optional<owned_tensor>> next();
  /// The next batch in device memory, once all of its work is queued there; as `next`.
  /// \error invalid_argument  No `options.device`. \error unsupported  A selection or a type that the device does not
  /// read.
  result<std::optional<device_tensor>> next_on_device();
  /// Cancels the pending reads and waits for their workers. `next` returns no further batch.
  void cancel() noexcept;

 private:
  explicit crop_batches(std::unique_ptr<batches_state, batches_state_deleter> state) noexcept;
  std::unique_ptr<batches_state, batches_state_deleter> state_;
};

}  // namespace penstock::inline v0
