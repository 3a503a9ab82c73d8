#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/plan.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include <penstock/shape.h>
#include <penstock/store.h>
#include <penstock/tensor.h>
#include <penstock/variable.h>

namespace penstock::inline v0 {

class array_state;  // src/engine/array_state.h
class group_state;
class read_job;      // src/engine/read_job.h
class queued_write;  // src/engine/write_queue.h

/// The progress of a read or write. A `progress_fn` runs on the calling thread; false stops it (`cancelled`).
struct read_progress {
  std::uint64_t done_bytes = 0;   ///< decoded so far
  std::uint64_t total_bytes = 0;  ///< that the selection's cells decode to
};
using progress_fn = std::function<bool(const read_progress&)>;

struct read_options {
  unsigned threads = 0;  ///< workers of this read; 0: the context's
  progress_fn progress;  ///< empty: none
  std::chrono::nanoseconds poll_interval{20'000'000};
  /// Where elements of variable length store their bytes (<penstock/variable.h>). It must outlive all use of them.
  /// Arrays of such types cannot be read without it.
  std::shared_ptr<item_arena> arena;
  /// Converts the elements to this type, which is the type of `out`: booleans, integers, floats of 16 to 64 bits,
  /// bfloat16 and complex numbers, as NumPy's "same_kind" casting allows, and any float to any other. Empty: no
  /// conversion.
  std::optional<dtype> type;
};

/// Whether reads and writes can convert elements of the one type to the other, on the host and on devices. Always true
/// for equal types.
PENSTOCK_API bool converts(const dtype& from, const dtype& to) noexcept;

struct write_options {
  unsigned threads = 0;             ///< workers of this write; 0: the context's
  progress_fn progress;             ///< empty: none; counts decoded bytes
  bool durable = false;             ///< return only when data is on the storage device, if the store reports it
  bool write_empty_chunks = false;  ///< also store chunks that contain only the fill value
  /// For values in device memory (`value.space` is cuda): the device, where -1 is the one that holds the memory, and
  /// the stream on which they are ordered. Empty: the values are complete.
  int device = -1;
  std::optional<std::uintptr_t> stream;
  /// For values in device memory. `device`: chunks that the write replaces as a whole are encoded there, and only their
  /// encoded bytes are copied to the host. The host encodes chunks that the write changes in part. Empty: as the
  /// context's options.
  /// \error unsupported  A codec of the array has no device encoder. \error invalid_argument  Values in host memory.
  std::optional<chunk_encoder> encoder;
  /// Converts values in host memory to the array's type, as read_options::type allows. Otherwise another type is an
  /// error. Values in device memory are always converted.
  bool convert = false;
  std::chrono::nanoseconds poll_interval{20'000'000};
};

/// A read under way. Destroying it cancels what has not started and waits for the rest. For a forked child, a read of
/// its parent has ended: `wait` is `unsupported`, unless it had ended before the fork.
class PENSTOCK_API ticket {
 public:
  ticket() noexcept = default;
  explicit ticket(std::shared_ptr<read_job> job) noexcept;
  ticket(ticket&&) noexcept;
  ticket& operator=(ticket&&) noexcept;
  ~ticket();

  bool done() const noexcept;
  /// Waits for the end of the read; every call returns the same outcome.
  result<> wait();
  /// Waits at most that long; returns false if the read has not ended.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Requests that the read stop; `wait` then returns `cancelled` unless it had already ended.
  void cancel() noexcept;
  read_progress progress() const noexcept;
  /// Calls `then`, which must not throw, once at the end, on a worker's thread, or in this call if the read has ended.
  void on_done(std::function<void()> then);

 private:
  std::shared_ptr<read_job> job_;
};

/// A write in the background, from `array::write_async`: destroying this neither stops it nor waits. A forked child
/// does not wait for writes of its parent: as for `ticket`.
class PENSTOCK_API write_ticket {
 public:
  write_ticket() noexcept = default;
  explicit write_ticket(std::shared_ptr<queued_write> of) noexcept;

  bool done() const;
  /// Waits for the end of the write; every call returns the same outcome. `context::synchronize` does not report an
  /// error again that was returned here.
  result<> wait();
  /// Waits at most that long; returns false if the write has not ended.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Requests that the write not begin, or stop; `wait` then returns `cancelled` unless it had already ended.
  void cancel() noexcept;
  read_progress progress() const;
  /// Calls `then`, which must not throw, once at the end, on the queue's thread, or in this call if the write has
  /// ended.
  void on_done(std::function<void()> then);

 private:
  std::shared_ptr<queued_write> of_;
};

/// An open array: immutable, cheap to copy, shareable between threads.
class PENSTOCK_API array {
 public:
  explicit array(std::shared_ptr<const array_state> state) noexcept : state_(std::move(state)) {}

  const extents& shape() const noexcept;
  const dtype& type() const noexcept;
  /// Shape of the cells that decode on their own (inner chunks, if the array is sharded).
  const extents& chunks() const noexcept;
  /// Shape of the shards, or null.
  const extents* shards() const noexcept;
  /// One item in native byte order.
  std::span<const std::byte> fill_value() const noexcept;
  /// The fill value as in the metadata: JSON; `null` if it is not defined (Zarr v2), in which case it reads as zeros.
  const std::string& fill_value_json() const noexcept;
  /// A JSON object.
  const std::string& attributes_json() const noexcept;
  /// Empty if the array names none; an unnamed dimension is nullopt. In Zarr 2: xarray's `_ARRAY_DIMENSIONS`.
  const std::vector<std::optional<std::string>>& dimension_names() const noexcept;
  const std::string& format() const noexcept;       ///< `zarr2`, `zarr3`, `tiff`, `hdf5`, `netcdf`, `npy`, ...
  const std::string& codecs_json() const noexcept;  ///< the codec list as in the metadata
  const std::string& codecs_text() const noexcept;  ///< the same, short and readable
  const std::string& uri() const noexcept;
  /// Whether every write is refused: by `open_mode::read`, by the format or by the store.
  bool read_only() const;
  const std::shared_ptr<penstock::context>& context() const noexcept;

  /// Shape of what `read(which)` produces.
  /// \error out_of_range, invalid_argument  As NumPy.
  result<extents> result_shape(const selection& which) const;

  /// Resolves any selection once; the result serves any number of reads of this array.
  /// \error out_of_range, invalid_argument  As NumPy.
  result<resolved_selection> select(const selection& which) const;

  /// Reads `which` into `out`.
  ///
  /// Chunks that were never written appear as the fill value; a failed read never does.
  /// \param out  Shape equal to result_shape(which), dtype `options.type` or the array's; strides in bytes, any sign.
  /// Borrowed until this returns; its contents are unspecified after an error.
  /// \error corrupt_data  A checksum, a size or an index disagrees with the metadata; notes name chunk, key, range,
  /// array.
  /// \error conflict  An object kept changing while it was read.
  /// Several reads of one array may run at the same time.
  result<> read(const selection& which, const tensor_view& out, const read_options& options = {}) const;

  /// Reads a selection that was resolved against this array's shape before.
  result<> read(const resolved_basic& which, const tensor_view& out, const read_options& options = {}) const;
  result<> read(const resolved_selection& which, const tensor_view& out, const read_options& options = {}) const;

  /// Reads everything.
  result<> read(const tensor_view& out, const read_options& options = {}) const;

  /// Starts a read on the context's threads. `out` is borrowed until the ticket is done.
  result<ticket> read_async(const selection& which, const tensor_view& out, const read_options& options = {}) const;
  result<ticket> read_async(const resolved_selection& which, const tensor_view& out,
                            const read_options& options = {}) const;

  /// True if `read` would finish on the calling thread without waiting for storage: a small read of a store that does
  /// not block. Bindings then keep their interpreter's lock.
  bool runs_inline(const resolved_basic& which) const noexcept;
  bool runs_inline(const resolved_selection& which) const noexcept;

  /// Writes `value` to `which`.
  ///
  /// Each storage object is replaced atomically, with all changes of this write, and only if no other writer changed it
  /// since it was read: two writers of different chunks of one shard lose nothing. An object whose elements are all
  /// replaced is not read first. Rows that other writers appended since this array was opened are kept, also in an
  /// object of which all elements within this array's shape are replaced. Chunks that equal the fill value bit for bit
  /// are not stored (see `write_empty_chunks`); an object without chunks is erased. If `which` names an element twice,
  /// the later value is stored.
  /// \param value  Shape equal to result_shape(which), dtype equal to the array's; strides in bytes: any sign, and 0
  /// for a value that is repeated. Borrowed until this returns.
  /// \error read_only  The store or the format cannot be written to.
  /// \error conflict   An object kept changing while it was written. After an error every object has its old value or
  /// its new one; the notes name the first object that was not written, and the number of written ones.
  result<> write(const selection& which, const tensor_view& value, const write_options& options = {}) const;

  /// Writes a selection that was resolved against this array's shape before.
  result<> write(const resolved_basic& which, const tensor_view& value, const write_options& options = {}) const;
  result<> write(const resolved_selection& which, const tensor_view& value, const write_options& options = {}) const;

  /// Copies `value`, returns, and writes on a thread of the context. `value` may be changed after the call.
  ///
  /// Writes that were started with one context are done one after the other, in the order in which they were started,
  /// each by all of the context's threads; reads do not wait for them. If the waiting writes hold more than
  /// `context_options::write_queue_bytes`, this call waits. Options as in `write`; `progress` is called on that thread.
  /// A program that ends without `context::synchronize` loses the waiting writes.
  ///
  /// Values in device memory are copied there, on `write_options::stream`: later work of that stream may change them,
  /// and this call does not wait for the device. Without a stream it waits for the copy; if the device has no memory
  /// for one, it waits for a copy to the host.
  /// \error  As `write`, for invalid arguments. Later errors are returned by the ticket, or by `context::synchronize`.
  /// \error unsupported  Python objects.
  result<write_ticket> write_async(const selection& which, const tensor_view& value,
                                   const write_options& options = {}) const;
  result<write_ticket> write_async(const resolved_selection& which, const tensor_view& value,
                                   const write_options& options = {}) const;

  /// Changes the stored shape and returns the array with the new shape. This object does not change.
  ///
  /// If the array grows, objects that already exist in the new part are erased first: they remain from an append that
  /// did not finish. Then the metadata is written, then the objects without elements are erased. Objects at the edge
  /// keep their values beyond it, as with zarr-python: these are visible again when the array grows. Takes turns with
  /// appenders.
  /// \error conflict  Another writer does not end its append.
  result<array> resize(const extents& shape) const;

  /// Adds `value` at the end of `axis` and returns the array with its new shape.
  ///
  /// The end is that of the stored array, including appends of other writers. Rows are written before the metadata
  /// includes them, shard by shard as `write` does: readers see all of them or none. Appenders of all processes,
  /// containers and hosts take turns if the store has versions: an object `.penstock-append` next to the metadata is
  /// the claim of one of them, renewed while it works. The claim of an appender that ended is taken over after its
  /// lease, 10 seconds or PENSTOCK_APPEND_LEASE. An appender that lost its claim makes no further changes
  /// (docs/design/0020-appends.md).
  /// \param value  As many dimensions as the array, equal in all but `axis`.
  /// \error conflict  The array was resized meanwhile, another appender does not end, or it took over the claim of this
  /// one.
  result<array> append(const tensor_view& value, std::size_t axis, const write_options& options = {}) const;

  /// The read plan as text: requests, coalescing, decodes and fills; with at most `max_lines` operations. Reads only
  /// the indexes that it needs.
  result<std::string> plan(const selection& which, std::size_t max_lines = 64) const;
  result<std::string> plan(const resolved_selection& which, std::size_t max_lines = 64) const;
  /// The plan's sums as a JSON object: objects, requests, bytes, cells, direct, scattered, filled.
  result<std::string> plan_json(const selection& which) const;
  result<std::string> plan_json(const resolved_selection& which) const;

  /// The same sums as values.
  /// \param max_touched  The most cells whose positions are listed.
  result<plan_summary> summarize_plan(const resolved_selection& which, std::size_t max_lines = 64,
                                      std::size_t max_touched = 0) const;

  /// Replaces all stored attributes by a JSON object; returns the array with them.
  /// \error invalid_argument  Not a JSON object. \error conflict  The document kept changing.
  result<array> set_attributes(std::string_view attributes_json) const;
  /// Sets the members of a JSON object among the stored attributes and removes those named: concurrent changes of other
  /// members by other writers are kept.
  result<array> update_attributes(std::string_view set_json, std::span<const std::string> removed = {}) const;

  /// One bad cell found by `check`.
  struct check_failure {
    std::string cell;
    error what;
  };
  struct check_report {
    std::uint64_t cells = 0, absent = 0, failed = 0, encoded_bytes = 0, decoded_bytes = 0;
    std::vector<check_failure> failures;  ///< the first `max_failures`
  };
  /// Decodes every cell and reports each bad one. Needs memory for a few cells only.
  result<check_report> check(const read_options& options = {}, std::size_t max_failures = 100) const;

  const array_state& state() const noexcept { return *state_; }
  const std::shared_ptr<const array_state>& shared_state() const noexcept { return state_; }

 private:
  std::shared_ptr<const array_state> state_;
};

/// An open group.
class PENSTOCK_API group {
 public:
  explicit group(std::shared_ptr<const group_state> state) noexcept : state_(std::move(state)) {}
  const std::string& attributes_json() const noexcept;
  const std::string& uri() const noexcept;
  const std::string& format() const noexcept;
  /// Names of the direct children, sorted.
  result<std::vector<std::string>> keys() const;
  /// Whether its children are read from consolidated metadata.
  bool consolidated() const noexcept;
  /// As array::read_only; nodes opened through a read-only group are read-only too.
  bool read_only() const;
  /// As array::set_attributes and array::update_attributes.
  result<group> set_attributes(std::string_view attributes_json) const;
  result<group> update_attributes(std::string_view set_json, std::span<const std::string> removed = {}) const;

  const group_state& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<const group_state> state_;
};

using node = std::variant<array, group>;

/// Whether a group's consolidated metadata is used: the documents of all nodes below it, in one place.
///
/// It is a copy, and may be out of date. automatic: names and nodes are read from it if it exists. A path that it does
/// not have is looked up in storage. After a write through an open group, it is no longer used for that tree. required:
/// opening fails without it, and only its nodes exist. never: names and nodes are read from storage.
enum class consolidation : std::uint8_t { automatic, required, never };

}  // namespace penstock::inline v0
