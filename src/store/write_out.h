#pragma once

#include <penstock/result.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "store/file_status.h"

namespace penstock::inline v0 {

/// Syncs files to the device on a thread of its own: waiting for the device takes tens of milliseconds for a shard,
/// during which the caller can encode. Thread-safe.
///
/// The thread runs while there are files to sync. The destructor waits for it.
class write_out {
 public:
  /// One file that is being synced.
  class ticket {
   public:
    /// Waits until the bytes are on the device. \error io_error  The device refused them.
    result<> wait();

   private:
    friend class write_out;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<result<>> outcome_;
  };

  write_out() = default;
  write_out(const write_out&) = delete;
  write_out& operator=(const write_out&) = delete;
  ~write_out();

  /// Begins soon to sync the bytes of `file`, which may be closed meanwhile. Null if many files are already waiting or
  /// no thread can be started: then the caller must sync the file. Only the ticket has the outcome: the system reports
  /// a failed write once.
  std::shared_ptr<ticket> start(int file) noexcept;

 private:
  struct waiting_file {
    descriptor file;
    std::shared_ptr<ticket> of;
  };
  void run();

  std::mutex mutex_;
  std::deque<waiting_file> waiting_;
  std::thread thread_;
  bool running_ = false;
};

}  // namespace penstock::inline v0
