#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <penstock/loader.h>
#include "api/loader/device_batch.h"
#include "api/loader/loader_sample.h"
#include "api/loader/loader_window.h"
#include "base/fork_local.h"
#include "plan/sample_space.h"

namespace penstock::inline v0 {

/// The state of a loader: its arrays, their window, and the thread that assembles batches.
class loader_state {
 public:
  struct parts {
    std::vector<loader_array> arrays;
    std::vector<loader_axis> axes;
    std::vector<sample_axis> places;
    std::vector<loader_sample> samples;  ///< one for each array
    loader_options options;
    std::optional<sample_space> space;  ///< none: drawn for each epoch
    std::uint64_t sample_count = 0;
    std::uint64_t window_bytes = 0, sample_chunk_bytes = 0;  ///< at most; and at least, for the chunks of one sample
    std::uint64_t early_bytes = 0;  ///< of the window, for encoded bytes of chunks that are requested early
    std::uint64_t lanes = 1, open_blocks = 1;
  };
  explicit loader_state(parts what);
  ~loader_state() { stop(); }

  /// Created before a fork, by another process.
  bool is_of_parent() const noexcept { return fork_clock::now() != made_at_; }
  /// The number after the last batch of this pass, which all ranks share.
  std::uint64_t end_of(const loader_position& from) const noexcept;
  /// The batches of one rank in this pass.
  std::uint64_t batches_of(const loader_position& from) const noexcept;
  std::uint64_t plan_bytes(const loader_position& from) const noexcept;
  result<> start(const loader_position& from);
  void stop();
  result<std::optional<loader_batch>> next();
  loader_counts counts() const;
  /// Of a batch with this many samples; of the mask, after the arrays'.
  extents shape_of(std::size_t which, std::uint64_t samples) const;
  const dtype& type_of(std::size_t which) const noexcept;
  const parts& what() const noexcept { return what_; }

 private:
  void run();
  result<loader_batch> make_one(std::size_t which);
  result<loader_batch> make_batch(std::size_t which);
  result<> take_memory(loader_batch& batch, std::vector<device_batch>& staged);
  result<> put(std::size_t first, std::size_t last, std::size_t batch_begin, loader_batch& into);
  std::size_t values() const noexcept { return what_.arrays.size() + (what_.options.mask ? 1 : 0); }

  const std::uint64_t made_at_ = fork_clock::now();
  const parts what_;
  std::vector<array> arrays_;              // the window refers to them
  std::vector<std::uint64_t> lengths_;     // of the arrays along each axis
  std::mutex starting_;                    // one start at a time
  std::shared_ptr<loader_window> window_;  // replaced under `mutex_`
  std::uint64_t window_limit_ = 0;
  std::shared_ptr<cuda::device_engine> device_;  // of this epoch; null: batches are in host memory

  // For the epoch; owned by the thread while it runs.
  std::optional<sample_space> drawn_;
  std::vector<std::uint64_t> samples_;  ///< of this rank, in order
  std::vector<std::uint64_t> numbers_;  ///< of its batches
  std::vector<std::uint64_t> uses_;     ///< the begin of each sample's uses, and the end of the last
  const sample_space& space() const noexcept { return drawn_ ? *drawn_ : *what_.space; }

  std::thread thread_;
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::deque<loader_batch> ready_;
  bool ended_ = true;
  std::uint64_t stops_ = 0;  ///< a call of `next` belongs to the pass between two of them
  std::optional<error> failure_;
};

}  // namespace penstock::inline v0
