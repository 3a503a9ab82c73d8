#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <penstock/appender.h>
#include <penstock/variable.h>
#include "api/append/append_session.h"
#include "base/fork_local.h"
#include "base/output_pool.h"

namespace penstock::inline v0 {

class device_copy;
namespace cuda {
class device_engine;
}

/// The state of an appender: rows in slabs of memory, and a thread that writes them while there are any.
///
/// The thread is detached and shares this state: the thread that drops the last appender may hold a lock (Python's)
/// which the background thread needs for its end.
class appender_state : public std::enable_shared_from_this<appender_state> {
 public:
  /// \error As appender::make.
  static result<std::shared_ptr<appender_state>> make(const array& to, std::size_t axis,
                                                      const appender_options& options);
  appender_state(const appender_state&) = delete;
  appender_state& operator=(const appender_state&) = delete;

  /// \param may_wait  False: returns false instead of waiting.
  result<bool> append(const tensor_view& rows, const std::shared_ptr<const void>& keeps, bool may_wait,
                      std::optional<std::uintptr_t> stream = {});
  result<array> flush(bool close);

  std::uint64_t rows() const;
  std::uint64_t stored_rows() const;
  std::uint64_t queued_bytes() const;
  bool closed() const;
  /// Created before a fork, by another process.
  bool is_of_parent() const noexcept { return fork_clock::now() != made_at_; }

 private:
  struct sizes {
    std::uint64_t row_bytes = 0, unit = 1, slab_rows = 1, queue_bytes = 0;
  };
  appender_state(const array& to, std::size_t axis, const appender_options& options, const sizes& of);

  using clock = std::chrono::steady_clock;
  /// Rows whose values are still in the memory of a device.
  struct coming_rows {
    std::uint64_t first = 0, count = 0;  // in their slab
    std::shared_ptr<const void> keeps;
    std::shared_ptr<device_copy> from;  // destroyed first: it may wait for a copy of what `keeps` owns
  };
  /// Memory of some rows of chunks.
  struct slab {
    output_block memory;
    item_arena items;
    std::deque<coming_rows> coming;  // protected by the mutex, in order
    tensor_view rows;
    std::uint64_t capacity = 0, filled = 0, written = 0;  // rows
    std::uint64_t bytes = 0, item_bytes = 0;
    std::uint64_t room() const noexcept { return capacity - filled; }
    bool done() const noexcept { return room() == 0 && written == filled; }
  };

  using guard = std::unique_lock<std::mutex>;

  /// While it exists, with the lock held at both ends, a member is true.
  class turn {
   public:
    turn(guard& lock, bool& is_taken, std::condition_variable& ended)
        : lock_(lock), is_taken_(is_taken), ended_(ended) {
      is_taken_ = true;
    }
    ~turn() {
      if (!lock_.owns_lock()) lock_.lock();  // after an exception
      is_taken_ = false;
      ended_.notify_all();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

   private:
    guard& lock_;
    bool& is_taken_;
    std::condition_variable& ended_;
  };

  result<> check_usable() const;
  result<> check_value(const tensor_view& rows, const void* keeps, bool may_wait) const;
  tensor_view part_of(const tensor_view& of, std::uint64_t first, std::uint64_t count) const noexcept;
  result<std::shared_ptr<slab>> make_slab(std::uint64_t capacity) const;
  result<std::uint64_t> copy_items(slab& to, std::uint64_t count, bool owned) const;
  result<std::shared_ptr<device_copy>> copy_device_rows(const tensor_view& rows, const tensor_view& to,
                                                        std::optional<std::uintptr_t> stream) const;
  result<> copy_to_slab(cuda::device_engine& engine, const tensor_view& rows, const tensor_view& to) const;

  // Called with the lock held; those that take it return with it.
  bool is_full(std::uint64_t more) const noexcept;
  bool fits_now(std::uint64_t rows) const noexcept;
  std::uint64_t writable() const noexcept;
  std::uint64_t next_capacity() const noexcept;
  std::optional<error> take_errors();
  void fail(error what);
  void wake();
  void rows_came();
  bool is_half_full() const noexcept;
  bool waits_for_more() const noexcept;
  result<> add_slab(guard& lock);
  result<> fill(guard& lock, const tensor_view& rows, std::uint64_t count, const std::shared_ptr<const void>& keeps,
                std::optional<std::uintptr_t> stream);
  static void serve(const std::shared_ptr<appender_state>& self);
  void work(guard& lock);
  void open_session(guard& lock);
  void write_some(guard& lock, std::uint64_t count);
  result<> fetch_coming(guard& lock, slab& of, std::uint64_t end) const;
  void publish(guard& lock);
  result<> end_session();
  result<> finish(guard& lock);

  const array to_;
  const std::size_t axis_;
  const appender_options options_;
  const std::uint64_t queue_bytes_;
  const std::uint64_t made_at_;
  const std::uint64_t row_bytes_;  // of variable length: the owners of the bytes
  const std::uint64_t unit_;       // rows that fill a row of storage objects
  const std::uint64_t slab_rows_;

  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable changed_, append_ended_;
  std::deque<std::shared_ptr<slab>> slabs_;  // the first one has rows that are written next
  std::uint64_t slab_bytes_ = 0, item_bytes_ = 0;
  std::uint64_t end_;                                   // elements along the axis in storage, including written rows
  std::uint64_t taken_ = 0, written_ = 0, stored_ = 0;  // rows of this appender
  std::uint64_t wanted_ = 0;                            // rows that `flush` waits for
  std::optional<clock::time_point> gathers_until_;      // rows can be written, and wait until then for further ones
  bool is_awaited_ = false;                             // an `append` waits for room
  bool appends_ = false;                                // an `append` runs: its rows stay together
  bool closes_ = false;                                 // a `close` runs
  bool copies_ = false;                                 // an `append` copies rows to the last slab, without the lock
  std::vector<error> errors_;                           // not returned yet
  std::vector<error> late_errors_;  // errors after the shape was stored: returned by `flush` although all rows are
  bool running_ = false;            // the thread
  bool busy_ = false;               // it is writing a slab
  bool stalled_ = false;            // a write failed: no new attempt until an error was returned or `flush` is called
  bool broken_ = false;             // lost rows precede the remaining ones
  bool closed_ = false;

  // For the background thread, or for `close` after that has ended.
  std::unique_ptr<append_session> session_;
  clock::time_point publish_at_;
};

}  // namespace penstock::inline v0
