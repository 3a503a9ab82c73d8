#pragma once

#include <penstock/extend/store.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <unordered_set>
#include <utility>

#include "base/thrown.h"

namespace penstock::inline v0 {

/// Knows which of some reads are not complete. Deletes itself after the last one.
class guarded_sink final : public completion_sink {
 public:
  guarded_sink(completion_sink& to, std::span<const byte_read> reads) : to_(to), users_(reads.size() + 1) {
    for (const byte_read& each : reads) pending_.insert(each.tag);
  }
  void complete(std::uint64_t tag, result<read_done> done) override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = pending_.find(tag); found != pending_.end()) pending_.erase(found);
    }
    to_.complete(tag, std::move(done));
    release();
  }
  /// Completes all that are not complete.
  void refuse(const error& why) {
    std::unordered_multiset<std::uint64_t> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(pending_);
    }
    for (const std::uint64_t tag : left) {
      to_.complete(tag, why.clone());
      release();
    }
  }
  /// The caller of the store calls it once.
  void release() noexcept {
    if (users_.fetch_sub(1) == 1) delete this;  // NOLINT: owns itself
  }

 private:
  completion_sink& to_;
  std::atomic<std::size_t> users_;
  std::mutex mutex_;
  std::unordered_multiset<std::uint64_t> pending_;  // their tags
};

/// `from.read` for a store that passes one call on in several calls: if `from` throws an exception, it is the error of
/// these reads only. Reads of the calls before it may still complete.
inline void guarded_read(const store& from, std::span<const byte_read> reads, completion_sink& sink,
                         std::stop_token stop) {
  guarded_sink* guarded = nullptr;
  try {
    guarded = new guarded_sink(sink, reads);  // NOLINT: deletes itself
  } catch (const std::exception& thrown) {
    for (const byte_read& each : reads) sink.complete(each.tag, thrown_error("the store", thrown));
    return;
  }
  try {
    from.read(reads, *guarded, std::move(stop));
  } catch (const std::exception& thrown) {
    guarded->refuse(thrown_error("the store", thrown));
  }
  guarded->release();
}

}  // namespace penstock::inline v0
