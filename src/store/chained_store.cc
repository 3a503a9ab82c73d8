#include "store/chained_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <penstock/extend/store.h>
#include "store/guarded_read.h"

namespace penstock::inline v0 {

/// The parts of one read. It is destroyed with the last completion.
class chained_store::gathering final : public completion_sink {
 public:
  gathering(const chained_store& of, const byte_read& wanted, std::vector<byte_read> parts, completion_sink& to)
      : of_(of), tag_(wanted.tag), parts_(std::move(parts)), to_(to), left_(parts_.size()) {
    if (parts_.size() > 1) {
      std::size_t bytes = 0;
      for (const byte_read& each : parts_) bytes += each.destination.size();
      room_ = {parts_.front().destination.data(), bytes};
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].tag = i;
  }

  std::span<const byte_read> parts() const noexcept { return parts_; }

  void complete(std::uint64_t which, result<read_done> done) override {
    if (!done.ok())
      done = std::move(done).error().note(
          fmt::format("reading '{}', bytes {}", parts_[which].key, to_string(parts_[which].range)));
    {
      const std::lock_guard lock(mutex_);
      if (!done.ok() && !failed_) failed_ = done.error().clone();
      if (--left_ != 0) return;
    }
    if (failed_) {
      to_.complete(tag_, std::move(*failed_));
    } else {
      if (parts_.size() > 1) done->bytes = room_;
      done->seen = {};
      done->object_size = of_.bytes();
      to_.complete(tag_, std::move(done));
    }
    delete this;  // NOLINT: owns itself
  }

 private:
  const chained_store& of_;
  const std::uint64_t tag_;
  std::vector<byte_read> parts_;
  completion_sink& to_;
  std::span<std::byte> room_;
  std::mutex mutex_;  // for left_ and failed_
  std::size_t left_;
  std::optional<error> failed_;
};

chained_store::chained_store(std::string key, std::shared_ptr<const store> from, std::vector<link> links)
    : key_(std::move(key)), from_(std::move(from)), links_(std::move(links)), begins_{0} {
  for (const link& each : links_) begins_.push_back(begins_.back() + each.length);
}

store_traits chained_store::traits() const {
  store_traits out = from_->traits();
  out.versions = false;  // those of one range do not show changes of the others
  out.writable = out.guards = false;
  out.sizes = true;
  return out;
}

// The reads of the bytes of `wanted`; none if it has none. Several of them have destinations.
result<std::vector<byte_read>> chained_store::split(const byte_read& wanted) const {
  if (wanted.key != key_) return error(errc::not_found, "no such object");
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, bytes()));
  std::vector<byte_read> out;
  if (extent.length == 0) return out;
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), extent.offset);
  const std::uint64_t end = extent.offset + extent.length;
  for (auto i = static_cast<std::size_t>(after - begins_.begin()) - 1; i < links_.size() && begins_[i] < end; ++i) {
    const std::uint64_t first = std::max(begins_[i], extent.offset), last = std::min(begins_[i + 1], end);
    if (first == last) continue;
    byte_read& made = out.emplace_back(wanted);
    made.key = links_[i].key;
    made.range = {links_[i].offset + (first - begins_[i]), last - first, false};
    made.expected = nullptr;
    made.same_handle = made.may_end_early = false;
  }
  if (out.size() == 1) return out;
  PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
  std::size_t at = 0;
  for (byte_read& each : out) {
    each.destination = room.subspan(at, static_cast<std::size_t>(each.range.length));
    each.buffer = nullptr;
    at += each.destination.size();
  }
  return out;
}

void chained_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  for (const byte_read& wanted : reads) {
    auto parts = split(wanted);
    if (!parts.ok()) {
      sink.complete(wanted.tag, std::move(parts).error());
    } else if (parts->empty()) {
      read_done done;
      done.object_size = bytes();
      sink.complete(wanted.tag, std::move(done));
    } else {
      auto* const gather = new gathering(*this, wanted, std::move(*parts), sink);  // NOLINT: deletes itself
      const std::vector<byte_read> started(gather->parts().begin(), gather->parts().end());
      guarded_read(*from_, started, *gather, stop);  // reads before this one may still complete
    }
  }
}

}  // namespace penstock::inline v0
