#pragma once

#include <penstock/store.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::inline v0 {

/// Bytes of an object that were fetched with its metadata, for the first reads of its values. Thread-safe.
///
/// They are fresh for a second. Later reads go to the store, which notices that the object has changed.
class held_bytes {
 public:
  using clock = std::chrono::steady_clock;

  /// \param offset  Of `bytes` in the object, which has `object_size` bytes.
  held_bytes(std::uint64_t offset, std::vector<std::byte> bytes, std::uint64_t object_size,
             clock::time_point fetched = clock::now());

  /// Completes a read of these bytes with version `seen`. Returns false, without a completion, if the read needs others
  /// or these are no longer fresh.
  bool serve(const byte_read& wanted, const version& seen, completion_sink& sink) const;
  /// Frees the bytes if they are no longer fresh, and returns whether they are free: the values may never be read.
  bool drop_if_old(clock::time_point now = clock::now()) const;

 private:
  /// The bytes; null: they are no longer fresh.
  std::shared_ptr<const std::vector<std::byte>> fresh() const;
  bool copy(const byte_read& wanted, read_done& done) const;

  const std::uint64_t offset_, object_size_;
  const clock::time_point until_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const std::vector<std::byte>> bytes_;  // as `fresh`
};

}  // namespace penstock::inline v0
