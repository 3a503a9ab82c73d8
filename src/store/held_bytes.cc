#include "store/held_bytes.h"

#include <algorithm>
#include <utility>

#include <penstock/extend/store.h>

namespace penstock::inline v0 {
namespace {

constexpr std::chrono::seconds kFreshFor{1};

}  // namespace

held_bytes::held_bytes(std::uint64_t offset, std::vector<std::byte> bytes, std::uint64_t object_size,
                       clock::time_point fetched)
    : offset_(offset),
      object_size_(object_size),
      until_(fetched + kFreshFor),
      bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

std::shared_ptr<const std::vector<std::byte>> held_bytes::fresh() const {
  std::shared_ptr<const std::vector<std::byte>> dropped;  // after the lock
  const std::lock_guard lock(mutex_);
  if (clock::now() >= until_) dropped.swap(bytes_);
  return bytes_;
}

bool held_bytes::drop_if_old(clock::time_point now) const {
  std::shared_ptr<const std::vector<std::byte>> dropped;  // after the lock
  const std::lock_guard lock(mutex_);
  if (now >= until_) dropped.swap(bytes_);
  return bytes_ == nullptr;
}

bool held_bytes::copy(const byte_read& wanted, read_done& done) const {
  if (wanted.range.length == 0) return false;  // a check of the version
  const auto bytes = fresh();
  if (!bytes) return false;
  const auto extent = find_extent(wanted, object_size_);
  if (!extent.ok() || extent->offset < offset_) return false;
  const std::uint64_t at = extent->offset - offset_;
  if (at > bytes->size() || extent->length > bytes->size() - at) return false;
  const auto room = find_room(wanted, extent->length);
  if (!room.ok()) return false;
  std::copy_n(bytes->begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::size_t>(extent->length),
              room->begin());
  done.bytes = room->first(static_cast<std::size_t>(extent->length));
  return true;
}

bool held_bytes::serve(const byte_read& wanted, const version& seen, completion_sink& sink) const {
  read_done done;
  if (!copy(wanted, done)) return false;
  done.seen = seen;
  done.seen_is_last = false;  // not known here
  done.object_size = object_size_;
  sink.complete(wanted.tag, std::move(done));
  return true;
}

}  // namespace penstock::inline v0
