#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include <penstock/copy.h>

namespace penstock::inline v0 {

class context_state;

/// Runs pieces 0..count-1 of a copy on the threads of a context. Reports progress; the last report is the completed
/// copy. The first failure stops the others.
class copy_pieces {
 public:
  /// Adds the bytes that it copied.
  using piece_fn = std::function<result<>(std::size_t, std::uint64_t&)>;

  copy_pieces(const copy_options& options, context_state& with, std::string path, std::uint64_t total_bytes)
      : options_(options), with_(with), path_(std::move(path)), total_bytes_(total_bytes) {}

  /// \param workers  The number of pieces at a time; they begin in order.
  /// \param waits    Whether a piece spends most of its time waiting for storage.
  result<> run(std::size_t count, unsigned workers, bool waits, const piece_fn& piece);
  /// Reports progress within a piece. Thread-safe. Returns false if the copy was stopped.
  bool goes_on() { return report().ok(); }
  std::uint64_t done_bytes() const noexcept { return done_bytes_; }

 private:
  result<> report();

  const copy_options& options_;
  context_state& with_;
  std::string path_;
  std::uint64_t total_bytes_;
  std::atomic<std::uint64_t> done_bytes_{0};
  std::mutex mutex_;                  ///< of calls of `progress`, and of the members below
  std::uint64_t reported_bytes_ = 0;  ///< by the last report
  bool stopped_ = false;              ///< `progress` returned false
};

}  // namespace penstock::inline v0
