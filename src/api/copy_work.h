#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <penstock/copy.h>

namespace penstock::inline v0 {

/// Runs pieces 0..count-1 of a copy on several threads. Reports progress, last of all the completed copy. The first
/// failure stops the others.
class copy_work {
 public:
  copy_work(const copy_options& options, unsigned threads, std::string path, std::uint64_t total_bytes)
      : options_(options), threads_(threads), path_(std::move(path)), total_bytes_(total_bytes) {}

  /// `piece(i, done_bytes)` adds what it copied.
  result<> run(std::size_t count, const std::function<result<>(std::size_t, std::uint64_t&)>& piece);
  std::uint64_t done_bytes() const noexcept { return done_bytes_; }

 private:
  void work(std::size_t count, const std::function<result<>(std::size_t, std::uint64_t&)>& piece);
  void report();
  void fail(error why);

  const copy_options& options_;
  unsigned threads_;
  std::string path_;
  std::uint64_t total_bytes_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::uint64_t reported_bytes_ = 0;  ///< by the last report
  std::unique_ptr<error> failure_;
};

/// One array to copy. `report` is added to.
struct array_copy {
  const array& from;
  std::shared_ptr<store> to;
  std::string prefix;  ///< of the destination's keys
  std::string path;    ///< within what is copied, for reports
  const copy_options& options;
  copy_report& report;

  unsigned threads() const;
  /// Whether the elements can be copied with these options. Nothing is written.
  result<> check_elements() const;
  /// Metadata and objects, byte for byte.
  result<> copy_objects() const;
  /// Decodes and encodes anew.
  result<> copy_elements() const;
  /// Whether the copy's elements are the source's.
  result<> compare() const;
};

}  // namespace penstock::inline v0
