#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/array.h>
#include <penstock/dlpack.h>
#include <penstock/result.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

class device_tensor_state;  // src/api/device_tensor_state.h

/// A CUDA stream as a number: what the driver and the runtime call CUstream and cudaStream_t. 1 is the legacy default
/// stream, 2 the per-thread one; 0 is refused, because it could be either.
using stream_handle = std::uintptr_t;

struct device_read_options {
  int device = -1;  ///< -1: the calling thread's current device
  /// The stream that the caller works on: nothing is written to the target before what it holds now is done. Empty:
  /// nothing to wait for.
  std::optional<stream_handle> stream;
  /// What the elements become on their way, by the device: integers and floats of 8 to 64 bits, bfloat16 and complex
  /// numbers, as NumPy's "same_kind" casting allows. Empty: they stay what they are.
  std::optional<dtype> type;
  unsigned threads = 0;  ///< workers of this read; 0: the context's
  bool check = false;    ///< return only when the device is done, with the read's own error
};

/// The result of a read into device memory: memory, and a read that may still be under way.
///
/// The read returns before storage has been asked. `wait` waits until all is queued on the device (storage and host
/// work), `order` then makes a stream wait for the rest, and only `synchronize` waits for the device. Errors are late:
/// what fails on the host comes out of `wait` and all that waits; a chunk that fails on the device has all bits set in
/// its part of the result, and its error comes out of `synchronize`, or, if the values were exported and the outcome
/// was not queried, of the next read into that device's memory. Destroying it cancels what has not started, waits for
/// the host's part, and returns the memory to the context's pool together with the wait for its last readers.
/// Move-only; otherwise thread-safe.
class PENSTOCK_API device_tensor {
 public:
  explicit device_tensor(std::shared_ptr<device_tensor_state> state) noexcept;
  device_tensor(device_tensor&&) noexcept;
  device_tensor& operator=(device_tensor&&) noexcept;
  ~device_tensor();

  /// Device memory; unspecified contents until a stream is ordered after the read.
  const tensor_view& view() const noexcept;
  int device() const noexcept;
  /// True when the host's part is over.
  bool queued() const noexcept;
  /// True when the device is done too.
  bool done() const;

  result<> wait();
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Makes `stream` wait for the result, and the memory wait for what `stream` does with it before it is used again.
  /// \error invalid_argument  Stream 0.
  result<> order(stream_handle stream);
  /// Ends the use of the memory: it may be used again after what `stream` holds now, instead of after everything that
  /// the context was given until the tensor is destroyed. The read itself comes before that. For work on several
  /// streams, one call for each; the later streams wait for the earlier ones. The memory is returned when this tensor
  /// and all that it was exported to are destroyed. Memory that was given as `out` stays the caller's.
  /// \error invalid_argument  Stream 0; from `order` and `to_dlpack` afterwards. What failed on the host.
  result<> release(stream_handle stream);
  /// Hands the result on by DLPack, in device memory and without a copy: `stream`, the consumer's, is made to wait for
  /// it, as by `order`. The memory goes back to the pool after the deleter and this tensor, and after what `stream`
  /// does with it until then. Read into `out`, the memory stays the caller's.
  /// \error invalid_argument  Stream 0. \error unsupported  As `penstock::to_dlpack`. What failed on the host.
  result<DLManagedTensorVersioned*> to_dlpack(stream_handle stream);
  /// Waits for the device. \error corrupt_data  Chunks that failed there, one of them by name.
  result<> outcome();
  /// Errors of this read are reported by `outcome` only, as long as this tensor exists. Call it before `order`.
  void claim_outcome() noexcept;
  /// As `outcome`. \error  If this read succeeded: the known failure of an earlier one whose values were exported and
  /// whose outcome was not queried.
  result<> synchronize();
  /// Waits, and copies into host memory of the same shape and dtype, C order.
  result<> copy_to_host(std::byte* to);
  void cancel() noexcept;
  read_progress progress() const noexcept;
  void on_queued(std::function<void()> then);

  const std::shared_ptr<device_tensor_state>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<device_tensor_state> state_;
};

/// Reads into device memory of the context's pool.
/// \error unsupported  There is no CUDA driver; or a selection by lists, points or masks; or items of variable length;
///                     or types that a device does not convert.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const selection& which,
                                                  const device_read_options& options = {});
/// Reads into `out`, device memory of the caller (`out.space` is cuda), which must outlive the tensor; strides of any
/// sign.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const selection& which, const tensor_view& out,
                                                  const device_read_options& options = {});

/// A stream of this library's making, for the caller's own work: not ordered with the legacy stream. Move-only.
class PENSTOCK_API device_stream {
 public:
  static result<device_stream> make(int device);
  stream_handle handle() const noexcept;

 private:
  class state;
  explicit device_stream(std::shared_ptr<state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<state> state_;
};

/// The same of a selection that `array::select` has resolved; without `out`, into memory of the pool.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const resolved_selection& which,
                                                  const std::optional<tensor_view>& out,
                                                  const device_read_options& options = {});

/// Memory of the context's pool on a device, C order, that nothing is read into yet: `order` makes a stream wait until
/// it may be written to. \error resource_exhausted  The device has no such memory.
PENSTOCK_API result<device_tensor> device_memory(penstock::context& with, int device, const dtype& type,
                                                 const extents& shape);

/// A copy in memory of its own, C order, made on `stream` behind the read. Empty: made on a stream of this library, and
/// there on return. A chunk that failed on the device has all bits set in the copy too; only `from` tells of it.
PENSTOCK_API result<device_tensor> copy_on_device(device_tensor& from, std::optional<stream_handle> stream);

/// For a profile of the context that is under way: the caller's work with these values begins on `stream`, where they
/// are ordered; `lane` tells its streams apart. It ends with `end_work`, or is not told of.
PENSTOCK_API void begin_work(const device_tensor& with, stream_handle stream, std::uint32_t lane);
/// All of that work is queued on `stream`.
PENSTOCK_API void end_work(const device_tensor& with, stream_handle stream);

/// The stream of this library that values to be written are ordered on: a producer makes it wait for them.
PENSTOCK_API result<stream_handle> write_stream(penstock::context& with, int device);
/// Copies device memory of any strides to `to`, in C order, after what `write_stream` and `stream` hold; waits.
PENSTOCK_API result<> copy_to_host(penstock::context& with, int device, const tensor_view& from, std::byte* to,
                                   std::optional<stream_handle> stream = std::nullopt);

/// Devices that the driver finds. \error unsupported  There is no driver.
PENSTOCK_API result<int> device_count();
/// The calling thread's current device.
PENSTOCK_API result<int> current_device();
/// The device that an address is on; nullopt where it is host memory.
PENSTOCK_API result<std::optional<int>> device_of(std::uintptr_t address);

/// As `array::plan` and `plan_json`, of a read into device memory, whose requests are longer. Needs no device.
PENSTOCK_API result<std::string> device_plan(const array& from, const resolved_selection& which,
                                             std::size_t max_lines = 64);
PENSTOCK_API result<std::string> device_plan_json(const array& from, const resolved_selection& which);
PENSTOCK_API result<plan_summary> summarize_device_plan(const array& from, const resolved_selection& which,
                                                        std::size_t max_lines = 64, std::size_t max_touched = 0);
/// What would encode the chunks of a write of `which` from that device's memory, and why: `the host: there is no
/// device`. The choice of chunk_encoder::automatic.
PENSTOCK_API std::string device_encoder_choice(const array& to, const resolved_selection& which, int device = 0);
/// Says how a read's chain is shared out between host and device: `zstd(level=0) on the device`; and whether the device
/// of that number reads what is encoded in the host's memory, where it is, so that it is not copied.
PENSTOCK_API std::string device_path(const array& from, int device = 0);
/// The same as a JSON document: `{"host": [...], "device": [...], "reason": "...", "copies": true}`, in decoding order.
PENSTOCK_API std::string device_path_json(const array& from, int device = 0);

}  // namespace penstock::inline v0
