#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <penstock/array.h>

namespace penstock::inline v0 {

class appender_state;  // src/api/append/appender_state.h

struct appender_options {
  /// Limit on the copies of rows that are not stored yet, in bytes; 0: 256 MiB. A row of chunks (of shards, if the
  /// array has them) is held as a whole, even if it is larger.
  std::uint64_t queue_bytes = 0;
  unsigned threads = 0;             ///< encoding workers; 0: the context's
  bool durable = false;             ///< `flush` and `close` return only when every object is on the storage device
  bool write_empty_chunks = false;  ///< also store chunks that contain only the fill value
  /// The shape is stored at most once in this time, except by `flush` and `close`. Readers see new rows with this
  /// delay, and other appenders wait this long.
  std::chrono::milliseconds publish_interval{1000};
};

/// Appends rows to an array in the background: the caller does not wait for encoding and storage.
///
/// `append` copies rows to a queue. A thread writes each row of chunks (or shards) once it is whole, so each chunk is
/// encoded once even if each `append` has few rows. Rows that fill no chunk stay in memory until `flush` or `close`.
/// The stored shape includes rows only after their chunks are stored; a killed process loses only the rows for which
/// `flush` has not returned.
///
/// A write that fails stops the background thread. The rows stay queued, and the next `append`, `flush` or `close`
/// returns the error, once. The call after that tries again.
///
/// Takes turns with other appenders, of this process or others, as `array::append` does: for at most
/// `publish_interval` at a time. Thread-safe; rows of one `append` stay together. Unusable in a forked child.
class PENSTOCK_API appender {
 public:
  /// \param axis  The dimension along which the array grows.
  /// \error out_of_range  The array does not have the axis. \error read_only, permission_denied, unsupported  The array
  /// cannot be appended to.
  static result<appender> make(const array& to, std::size_t axis, const appender_options& options = {});
  appender() noexcept = default;
  appender(appender&&) noexcept = default;
  appender& operator=(appender&& other) noexcept;
  /// As `close`, but ignores its error.
  ~appender();

  /// Copies `rows` to the queue and returns. Waits while the queue is full.
  /// \param rows  As many dimensions as the array, equal in all but the axis; the array's dtype; strides in bytes, any
  ///              sign. May be changed once this returns. Rows in device memory (`space` is cuda) are copied there, and
  ///              transferred to the host before they are written. If the device has no memory for the copy, this waits
  ///              for a copy to the host.
  /// \param keeps For elements of variable length: owns their bytes until they are stored; null: they are copied.
  ///              For rows in device memory: owns them until they are on the host; null: nothing.
  /// \param stream For rows in device memory: the stream on which they are ordered. They are copied in its order: this
  ///              waits neither for earlier work nor for the copy, and later work on it may change them. Empty: they
  ///              are complete, and this waits for the copy.
  /// \error The failure of an earlier write; `rows` is not taken. \error invalid_argument  The shape does not fit, or
  /// the appender is closed.
  /// \error cancelled  The wait was interrupted. The notes give the number of rows that were taken.
  result<> append(const tensor_view& rows, std::shared_ptr<const void> keeps = nullptr,
                  std::optional<std::uintptr_t> stream = {});
  /// As `append`, for rows in host memory, but returns false instead of waiting; `rows` is not taken then.
  result<bool> try_append(const tensor_view& rows, std::shared_ptr<const void> keeps = nullptr);

  /// Stores all rows that were appended, and the shape that includes them. Returns the array as it is then.
  /// \error  The first error that was not returned before, with the others in its notes.
  result<array> flush();
  /// As `flush`, and accepts no rows after that.
  /// \error  As `flush`. Rows that are not stored are lost; the notes give their number. A second call does nothing.
  result<array> close();

  std::uint64_t rows() const;          ///< rows that `append` has taken
  std::uint64_t stored_rows() const;   ///< how many of them the stored shape includes
  std::uint64_t queued_bytes() const;  ///< copies of rows that are not stored yet
  bool closed() const;

 private:
  explicit appender(std::shared_ptr<appender_state> state) noexcept;
  std::shared_ptr<appender_state> state_;
};

}  // namespace penstock::inline v0
