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

/// A CUDA stream as a number: a CUstream of the driver or a cudaStream_t of the runtime. 1 is the legacy default
/// stream, 2 the per-thread one; 0 is refused, because it could be either.
using stream_handle = std::uintptr_t;

struct device_read_options {
  int device = -1;  ///< -1: the calling thread's current device
  /// The stream that the caller works on: nothing is written to the target before the work that it holds now is done.
  /// Empty: no wait.
  std::optional<stream_handle> stream;
  /// Converts the elements to this type on the device: integers and floats of 8 to 64 bits, bfloat16 and complex
  /// numbers, as NumPy's "same_kind" casting allows. Empty: no conversion.
  std::optional<dtype> type;
  unsigned threads = 0;  ///< workers of this read; 0: the context's
  bool check = false;    ///< return only when the device is done, with the read's own error
};

/// The result of a read into device memory: memory, and a read that may still be under way.
///
/// The call returns before any request to storage. `wait` waits until all is queued on the device (storage and host
/// work), `order` then makes a stream wait for the rest, and only `synchronize` waits for the device. Errors are
/// reported late. `wait`, and every call that waits, returns an error of the host. A chunk that fails on the device has
/// all bits set in its part of the result. `synchronize` returns its error or, if the values were exported and the
/// outcome was not queried, the next read into that device's memory does. Destroying it cancels what has not started,
/// waits for the host's part, and returns the memory to the context's pool together with the wait for its last readers.
/// Memory that was passed as `out` is not written to after a call has returned an error of the host, and not after the
/// tensor was destroyed, unless a stream was ordered after the read: both wait for the device then.
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
  /// True when the host's part is complete.
  bool queued() const noexcept;
  /// True when the device is done, too, or has failed.
  bool done() const;

  /// Waits until the host's part is complete, not for the device: see `order` and `synchronize`.
  /// \error  The failure of the read on the host; every call returns it.
  result<> wait();
  /// As `wait`, for at most that long; returns false if the host's part is not complete. Returns no error.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Makes `stream` wait for the result, and makes later uses of the memory wait for the work of `stream`.
  /// \error invalid_argument  Stream 0.
  result<> order(stream_handle stream);
  /// Ends the use of the memory: it may be used again after the work that `stream` holds now, instead of after all work
  /// that the context receives until the tensor is destroyed. The read itself is complete before that. For work on
  /// several streams, call it once for each; the later streams wait for the earlier ones. The memory is returned when
  /// this tensor and all that it was exported to are destroyed. Memory that was passed as `out` remains the caller's.
  /// \error invalid_argument  Stream 0; also returned by `order` and `to_dlpack` after this call.
  /// \error  The failure of the read on the host.
  result<> release(stream_handle stream);
  /// Exports the result through DLPack, in device memory and without a copy: `stream`, the consumer's, waits for it, as
  /// after `order`. The memory returns to the pool after the deleter was called, this tensor was destroyed, and the
  /// work that `stream` holds by then is done. Memory that was passed as `out` remains the caller's.
  /// \error invalid_argument  Stream 0. \error unsupported  As `penstock::to_dlpack`.
  /// \error  The failure of the read on the host.
  result<DLManagedTensorVersioned*> to_dlpack(stream_handle stream);
  /// Waits for the device. \error corrupt_data  Chunks that failed there, one of them by name.
  result<> outcome();
  /// As long as this tensor exists, only `outcome` reports errors of this read. Call it before `order`.
  void claim_outcome() noexcept;
  /// As `outcome`. \error  If this read succeeded: the known failure of an earlier one whose values were exported and
  /// whose outcome was not queried.
  result<> synchronize();
  /// Waits, and copies into host memory of the same shape and dtype, C order.
  result<> copy_to_host(std::byte* to);
  /// Requests that the read stop; `wait` then returns `cancelled` unless the host's part had already ended.
  void cancel() noexcept;
  /// Bytes of the result of which the host's part is done, and all of them.
  read_progress progress() const noexcept;
  /// Calls `then` once when the host's part is complete, on a worker's thread, or in this call if it is already.
  void on_queued(std::function<void()> then);

  const std::shared_ptr<device_tensor_state>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<device_tensor_state> state_;
};

/// Reads into device memory of the context's pool.
/// \error unsupported  No CUDA driver; items of variable length; types that a device does not convert; more than 30
/// dimensions.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const selection& which,
                                                  const device_read_options& options = {});
/// Reads into `out`, device memory of the caller (`out.space` is cuda), which must outlive the tensor; strides of any
/// sign.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const selection& which, const tensor_view& out,
                                                  const device_read_options& options = {});

/// A stream created by this library for the caller's own work; not ordered with the legacy stream. Move-only.
class PENSTOCK_API device_stream {
 public:
  static result<device_stream> make(int device);  ///< creates a stream on that device
  stream_handle handle() const noexcept;

 private:
  class state;
  explicit device_stream(std::shared_ptr<state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<state> state_;
};

/// The same for a selection that `array::select` has resolved; without `out`, into memory of the pool.
PENSTOCK_API result<device_tensor> read_to_device(const array& from, const resolved_selection& which,
                                                  const std::optional<tensor_view>& out,
                                                  const device_read_options& options = {});

/// Memory of the context's pool on a device, C order, without values: `order` makes a stream wait until it may be
/// written to.
/// \error resource_exhausted  The device has too little memory.
PENSTOCK_API result<device_tensor> device_memory(penstock::context& with, int device, const dtype& type,
                                                 const extents& shape);

/// A copy in memory of its own, in C order, made on `stream` after the read. Empty: made on a stream of this library,
/// and complete on return. A chunk that failed on the device has all bits set in the copy too; only `from` reports it.
PENSTOCK_API result<device_tensor> copy_on_device(device_tensor& from, std::optional<stream_handle> stream);

/// For a profile of the context that is being recorded: the caller's work with these values begins on `stream`, on
/// which they are ordered; `lane` distinguishes its streams. Recorded if `end_work` is called.
PENSTOCK_API void begin_work(const device_tensor& with, stream_handle stream, std::uint32_t lane);
/// Marks the end of that work: all of it is queued on `stream`.
PENSTOCK_API void end_work(const device_tensor& with, stream_handle stream);

/// The stream of this library on which values to be written are ordered: a producer makes it wait for them.
PENSTOCK_API result<stream_handle> write_stream(penstock::context& with, int device);
/// Copies device memory of any strides to `to`, in C order, after the work of `write_stream` and `stream`; waits.
PENSTOCK_API result<> copy_to_host(penstock::context& with, int device, const tensor_view& from, std::byte* to,
                                   std::optional<stream_handle> stream = std::nullopt);

/// Devices that the driver finds. \error unsupported  No driver is installed.
PENSTOCK_API result<int> device_count();
/// The calling thread's current device.
PENSTOCK_API result<int> current_device();
/// The device that holds an address; nullopt for host memory.
PENSTOCK_API result<std::optional<int>> device_of(std::uintptr_t address);

/// As `array::plan` and `plan_json`, for a read into device memory, whose requests are longer. Needs no device.
PENSTOCK_API result<std::string> device_plan(const array& from, const resolved_selection& which,
                                             std::size_t max_lines = 64);
PENSTOCK_API result<std::string> device_plan_json(const array& from, const resolved_selection& which);
PENSTOCK_API result<plan_summary> summarize_device_plan(const array& from, const resolved_selection& which,
                                                        std::size_t max_lines = 64, std::size_t max_touched = 0);
/// Whether host or device would encode the chunks of a write of `which` from that device's memory, and why. This is the
/// choice of chunk_encoder::automatic.
PENSTOCK_API std::string device_encoder_choice(const array& to, const resolved_selection& which, int device = 0);
/// Describes how the chain of a read is divided between host and device: `zstd(level=0) on the device`; and whether
/// that device reads encoded bytes in the host's memory without a copy.
PENSTOCK_API std::string device_path(const array& from, int device = 0);
/// The same as a JSON document: `{"host": [...], "device": [...], "reason": "...", "copies": true}`, in decoding order.
PENSTOCK_API std::string device_path_json(const array& from, int device = 0);

}  // namespace penstock::inline v0
