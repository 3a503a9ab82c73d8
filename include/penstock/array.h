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

/// Called on the reading thread between cells, at most every few milliseconds; false stops the read (`cancelled`).
struct read_progress {
  std::uint64_t done_bytes = 0;   ///< decoded so far
  std::uint64_t total_bytes = 0;  ///< that the selection's cells decode to
};
using progress_fn = std::function<bool(const read_progress&)>;

struct read_options {
  unsigned threads = 0;  ///< workers of this read; 0: the context's
  progress_fn progress;  ///< empty: none
  std::chrono::nanoseconds poll_interval{20'000'000};
  /// Where the elements of variable length put their bytes (<penstock/variable.h>); it must live as long as they are
  /// looked at. Arrays of such types cannot be read without.
  std::shared_ptr<item_arena> arena;
  /// What the elements become on their way, and `out` has: booleans, integers, floats of 16 to 64 bits, bfloat16 and
  /// complex numbers, as NumPy's "same_kind" casting allows, and any float as any other. Empty: they stay what they
  /// are.
  std::optional<dtype> type;
};

/// Whether reads and writes make elements of the one type from those of the other on their way, on the host and on
/// devices; those of the same type, always.
PENSTOCK_API bool converts(const dtype& from, const dtype& to) noexcept;

struct write_options {
  unsigned threads = 0;             ///< workers of this write; 0: the context's
  progress_fn progress;             ///< empty: none; in decoded bytes
  bool durable = false;             ///< return only when the device has every object, where the store can tell
  bool write_empty_chunks = false;  ///< also store chunks that hold nothing but the fill value
  /// Of values in device memory (`value.space` is cuda): the device, -1 for the one that the memory is on, and the
  /// stream that they are ordered on; empty: they are there.
  int device = -1;
  std::optional<std::uintptr_t> stream;
  /// Also of values in device memory. `device`: chunks that the write replaces whole are encoded there, and only their
  /// encoded bytes come to the host; the host encodes chunks that it changes in part. Empty: as the context has it.
  /// \error unsupported  A codec of the array has no device encoder. \error invalid_argument  Values in host memory.
  std::optional<chunk_encoder> encoder;
  /// Values in host memory of another type become the array's on their way, as read_options::type allows. Without it
  /// another type is an error; values in device memory are always converted.
  bool convert = false;
  std::chrono::nanoseconds poll_interval{20'000'000};
};

/// A read under way. Destroying it cancels what has not started and waits for the rest.
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
  /// Waits at most that long; false where the read still goes on.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Asks the read to stop; `wait` then returns `cancelled` unless it had already ended.
  void cancel() noexcept;
  read_progress progress() const noexcept;
  /// Calls `then` once at the end, on a worker's thread, or here where the read has ended.
  void on_done(std::function<void()> then);

 private:
  std::shared_ptr<read_job> job_;
};

/// A write that goes on by itself, from `array::write_async`: destroying this neither stops it nor waits.
class PENSTOCK_API write_ticket {
 public:
  write_ticket() noexcept = default;
  explicit write_ticket(std::shared_ptr<queued_write> of) noexcept;

  bool done() const;
  /// Waits for the end of the write; every call returns the same outcome. `context::synchronize` does not tell an
  /// error again that was returned here.
  result<> wait();
  /// Waits at most that long; false where the write still goes on.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Asks the write not to begin, or to stop; `wait` then returns `cancelled` unless it had already ended.
  void cancel() noexcept;
  read_progress progress() const;
  /// Calls `then` once at the end, on the queue's thread, or here where the write has ended.
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
  /// Shape of the cells that decode on their own (inner chunks where sharded).
  const extents& chunks() const noexcept;
  /// Shape of the shards, or null.
  const extents* shards() const noexcept;
  /// One item in native byte order.
  std::span<const std::byte> fill_value() const noexcept;
  /// The fill value as the metadata writes it: JSON; `null` where it is not defined (Zarr v2), and reads as zeros.
  const std::string& fill_value_json() const noexcept;
  /// A JSON object.
  const std::string& attributes_json() const noexcept;
  /// Empty where the array names none; an unnamed dimension is nullopt. Of Zarr 2: xarray's `_ARRAY_DIMENSIONS`.
  const std::vector<std::optional<std::string>>& dimension_names() const noexcept;
  const std::string& format() const noexcept;       ///< `zarr2`, `zarr3`
  const std::string& codecs_json() const noexcept;  ///< the codec list as the metadata writes it
  const std::string& codecs_text() const noexcept;  ///< the same for people
  const std::string& uri() const noexcept;
  /// Whether every write is refused: by `open_mode::read`, by the format or by the store.
  bool read_only() const;
  const std::shared_ptr<penstock::context>& context() const noexcept;

  /// Shape of what `read(which)` produces.
  /// \error out_of_range, invalid_argument  As NumPy.
  result<extents> result_shape(const selection& which) const;

  /// Resolves any selection, once: what it gives serves any number of reads of this array.
  /// \error out_of_range, invalid_argument  As NumPy.
  result<resolved_selection> select(const selection& which) const;

  /// Reads `which` into `out`.
  ///
  /// Chunks that were never written appear as the fill value; a failed read never does.
  /// \param out  Shape equal to result_shape(which), dtype `options.type` or the array's; strides in bytes, any sign.
  /// Borrowed
  ///             until this returns; its contents are unspecified after an error.
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

  /// True where `read` would finish on the calling thread without waiting for storage: a small read of a store that
  /// does not block. Bindings keep their interpreter's lock then.
  bool runs_inline(const resolved_basic& which) const noexcept;
  bool runs_inline(const resolved_selection& which) const noexcept;

  /// Writes `value` to `which`.
  ///
  /// Each storage object appears at once, with all that this write changes in it, on condition that no other writer
  /// changed it since it was read: two writers of different chunks of one shard lose nothing. An object whose elements
  /// are all replaced is not read before. Rows that others appended since this array was opened are kept, also in an
  /// object that this write replaces as far as this array has it. Chunks that hold nothing but the fill value are left
  /// out
  /// (`write_empty_chunks`), bit for bit; an object with no chunk left is erased. Where `which` names an element twice,
  /// the later value stays.
  /// \param value  Shape equal to result_shape(which), dtype equal to the array's; strides in bytes: any sign, and 0
  /// for
  ///               a value that is repeated. Borrowed until this returns.
  /// \error read_only  The store or the format cannot be written to.
  /// \error conflict   An object kept changing while it was written.
  /// After an error every object has its old value or its new one; the notes name the first that was not written, and
  /// say how many were.
  result<> write(const selection& which, const tensor_view& value, const write_options& options = {}) const;

  /// Writes a selection that was resolved against this array's shape before.
  result<> write(const resolved_basic& which, const tensor_view& value, const write_options& options = {}) const;
  result<> write(const resolved_selection& which, const tensor_view& value, const write_options& options = {}) const;

  /// Copies `value` and returns; what `write` does follows on a thread of the context. `value` may be changed then.
  ///
  /// Writes that were started with one context are done one after the other, in the order in which they were started,
  /// each by all of the context's threads; reads do not wait for them. While those that wait hold more than
  /// `context_options::write_queue_bytes`, this waits, too. Options as in `write`; `progress` is called on that thread.
  /// A program that ends without `context::synchronize` loses what waits.
  /// \error  What `write` refuses by its arguments. Later errors come from the ticket, or from `context::synchronize`.
  /// \error unsupported  Values in device memory; Python objects.
  result<write_ticket> write_async(const selection& which, const tensor_view& value,
                                   const write_options& options = {}) const;
  result<write_ticket> write_async(const resolved_selection& which, const tensor_view& value,
                                   const write_options& options = {}) const;

  /// Gives the array another shape and returns it as it is then; this one stays what it was.
  ///
  /// Where the array grows, objects that are there already are erased first: they are left of an append that did not
  /// finish. Then the metadata is written, then the objects that have no element any more are erased. Objects at the
  /// edge keep what they hold beyond it, as with zarr-python: it shows again when the array grows. Takes turns with
  /// appenders.
  /// \error conflict  Another writer never ends its append.
  result<array> resize(const extents& shape) const;

  /// Adds `value` at the end of `axis` and returns the array as it is then.
  ///
  /// The end is that of the array as it is stored, also after appends of others. Rows are written before the metadata
  /// names them, shard by shard as `write` does: readers see all of them or none. Appenders of all processes,
  /// containers and hosts take turns where the store has versions: an object `.penstock-append` next to the metadata is
  /// the claim of one of them, renewed while it works. The claim of an appender that ended is taken over after its
  /// lease, 10 seconds or PENSTOCK_APPEND_LEASE. An appender that lost its claim changes nothing any more
  /// (docs/design/0020-appends.md).
  /// \param value  As many dimensions as the array, equal in all but `axis`.
  /// \error conflict  The array was resized meanwhile, another appender never ends, or it took over the claim of this
  /// one.
  result<array> append(const tensor_view& value, std::size_t axis, const write_options& options = {}) const;

  /// The read plan as text: requests, coalescing, decodes and fills; at most `max_lines` operations are written out.
  /// Reads the indexes that it needs, and nothing else.
  result<std::string> plan(const selection& which, std::size_t max_lines = 64) const;
  result<std::string> plan(const resolved_selection& which, std::size_t max_lines = 64) const;
  /// The plan's sums as a JSON object: objects, requests, bytes, cells, direct, scattered, filled.
  result<std::string> plan_json(const selection& which) const;
  result<std::string> plan_json(const resolved_selection& which) const;

  /// The same as values.
  /// \param max_touched  Cells whose positions are listed, at most.
  result<plan_summary> summarize_plan(const resolved_selection& which, std::size_t max_lines = 64,
                                      std::size_t max_touched = 0) const;

  /// Replaces all attributes, in storage, by a JSON object; returns the array as it is then.
  /// \error invalid_argument  No JSON object. \error conflict  The document kept changing.
  result<array> set_attributes(std::string_view attributes_json) const;
  /// Sets the members of a JSON object among the stored attributes and removes those named: what others wrote to other
  /// members meanwhile stays.
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
  /// Whether its children come from consolidated metadata.
  bool consolidated() const noexcept;
  /// As array::read_only; what is opened through a group that was opened for reading is read-only too.
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
/// It is a copy, and may be older than what it copies. automatic: names and nodes come from it where there is one, a
/// path that it does not have is looked for in storage, and once something is written through an open group, nothing of
/// that tree is taken from it any more. required: opening fails without one, and there is nothing but what it has.
/// never: storage is asked.
enum class consolidation : std::uint8_t { automatic, required, never };

}  // namespace penstock::inline v0
