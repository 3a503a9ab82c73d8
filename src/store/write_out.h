#pragma once

#include <deque>
#include <mutex>
#include <thread>

#include "store/file_status.h"

namespace penstock::inline v0 {

/// Has the system begin to write files out, on a thread of its own: asking for it takes as long as the device takes to
/// accept the bytes, tens of milliseconds for a shard, in which the asking thread could encode. Thread-safe.
///
/// The thread lives while there is something to ask for. The destructor waits for it.
class write_out {
 public:
  write_out() = default;
  write_out(const write_out&) = delete;
  write_out& operator=(const write_out&) = delete;
  ~write_out();

  /// Begins soon to write out what was written to `file`, which may be closed meanwhile. Asks on this thread where many
  /// files wait already.
  void start(int file) noexcept;

 private:
  bool hand_over(int file);
  void run();

  std::mutex mutex_;
  std::deque<descriptor> waiting_;
  std::thread thread_;
  bool running_ = false;
};

}  // namespace penstock::inline v0
