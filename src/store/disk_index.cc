#include "store/disk_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <penstock/extend/store.h>
#include "store/http_message.h"

namespace penstock::inline v0 {
namespace {

/// Extents that are checked to find the one with a byte.
constexpr int kMostSteps = 64;

// The location of the requested bytes in the object; nullopt if the cache cannot determine it, or the read is an error.
std::optional<byte_extent> extent_in(std::uint64_t object_size, const byte_read& wanted) {
  if (object_size != byte_range::kAll) {
    const auto found = find_extent(wanted, object_size);
    return found.ok() ? std::optional(*found) : std::nullopt;
  }
  const byte_range& range = wanted.range;
  if (range.length == 0) return byte_extent{};
  if (range.whole() || range.from_end || wanted.may_end_early || range.length > wanted.max_bytes) return std::nullopt;
  if (range.offset > byte_range::kAll - range.length) return std::nullopt;
  if (!wanted.destination.empty() && wanted.destination.size() != range.length) return std::nullopt;
  return byte_extent{range.offset, range.length};
}

bool same_words(const version& seen, const lasting_version& other) noexcept {
  return std::equal(std::begin(seen.word), std::end(seen.word), other.word.begin());
}

}  // namespace

// The parts of extents that cover `extent`. False if bytes are missing.
bool disk_index::entry::cover(std::uint64_t begin, std::uint64_t length, std::vector<extent_part>& out) const {
  std::uint64_t at = begin;
  const std::uint64_t end = begin + length;
  while (at < end) {
    const std::shared_ptr<const disk_extent>* best = nullptr;
    std::uint64_t best_end = at;
    auto next = extents.upper_bound(at);
    for (int steps = 0; next != extents.begin() && steps < kMostSteps; ++steps) {
      --next;
      if (next->first + longest <= at) break;
      const disk_extent& one = *next->second;
      if (one.offset + one.length > best_end && !one.where->is_gone.load(std::memory_order_relaxed)) {
        best = &next->second;
        best_end = one.offset + one.length;
      }
    }
    if (best == nullptr) return false;
    const std::uint64_t until = std::min(best_end, end);
    out.push_back({*best, at - (*best)->offset, until - at});
    at = until;
  }
  return true;
}

void disk_index::entry::forget_bytes() {
  extents.clear();
  longest = 0;
  seen = {};
  seen_is_last = true;
  is_absent = false;
  object_size = byte_range::kAll;
}

void disk_index::apply(const disk_record& record) {
  const std::lock_guard lock(mutex_);
  entry& known = entries_[record.object];
  const bool is_later = record.time_ns > known.time_ns;
  if (record.kind == disk_record_kind::dropped || record.kind == disk_record_kind::absent) {
    if (!is_later) return;
    known.forget_bytes();
    known.is_absent = record.kind == disk_record_kind::absent;
    known.time_ns = known.recorded_ns = record.time_ns;
    return;
  }
  const bool is_same = known.seen.known() && same_words(known.seen, record.seen);
  if (!is_same) {
    if (!is_later) return;  // a later write, or a later version
    version seen = version_of_text(record.seen.text);
    if (!same_words(seen, record.seen)) return;
    known.forget_bytes();
    known.seen = std::move(seen);
    known.seen_is_last = record.seen_is_last;
    known.time_ns = record.time_ns;
  }
  known.time_ns = std::max(known.time_ns, record.time_ns);
  known.recorded_ns = std::max(known.recorded_ns, record.time_ns);
  if (record.object_size != byte_range::kAll) known.object_size = record.object_size;
  if (record.kind != disk_record_kind::range || record.extent.length == 0) return;
  const disk_extent& extent = record.extent;
  const auto [first, last] = known.extents.equal_range(extent.offset);
  const auto twin = std::find_if(first, last, [&](const auto& each) { return each.second->length == extent.length; });
  auto made = std::make_shared<const disk_extent>(extent);
  known.longest = std::max(known.longest, extent.length);
  if (twin == last) {
    known.extents.emplace(extent.offset, std::move(made));
  } else {
    twin->second = std::move(made);
  }
}

cache_verdict disk_index::look(const cached_object& object, const byte_read& wanted, std::int64_t now_ns,
                               cached_bytes& out) const {
  out = {};
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(object);
  if (found == entries_.end()) return cache_verdict::miss;
  const entry& known = found->second;
  const std::int64_t age = now_ns - known.time_ns;
  const bool is_trusted = trust_ns_ > 0 && age >= 0 && age <= trust_ns_;
  if (known.is_absent) return is_trusted ? cache_verdict::absent : cache_verdict::miss;
  if (!known.seen.known() || !is_expected(wanted, known.seen)) return cache_verdict::miss;
  if (wanted.range.length == 0 && !is_trusted) return cache_verdict::miss;
  const auto extent = extent_in(known.object_size, wanted);
  if (!extent || !known.cover(extent->offset, extent->length, out.parts)) return cache_verdict::miss;
  out.seen = known.seen;
  out.seen_is_last = known.seen_is_last;
  out.object_size = known.object_size;
  out.length = extent->length;
  return is_trusted ? cache_verdict::serve : cache_verdict::check;
}

void disk_index::drop(const cached_object& object, const disk_extent& which) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(object);
  if (found == entries_.end()) return;
  std::erase_if(found->second.extents, [&](const auto& each) { return each.second.get() == &which; });
}

void disk_index::forget(const cached_object& object, const version& seen) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(object);
  if (found != entries_.end() && found->second.seen == seen) entries_.erase(found);
}

bool disk_index::confirm(const cached_object& object, const version& seen, std::int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(object);
  if (found == entries_.end() || !(found->second.seen == seen)) return false;
  found->second.time_ns = std::max(found->second.time_ns, time_ns);
  return trust_ns_ > 0 && time_ns - found->second.recorded_ns > trust_ns_ / 8;
}

void disk_index::drop_gone(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    auto& extents = at->second.extents;
    const bool had_some = !extents.empty();
    std::erase_if(extents, [](const auto& each) { return each.second->where->is_gone.load(); });
    // Other facts about an object are only useful within the time of trust.
    const bool is_useless = trust_ns_ == 0 ? had_some : now_ns - at->second.time_ns > trust_ns_;
    at = extents.empty() && is_useless ? entries_.erase(at) : std::next(at);
  }
}

bool disk_index::knows(const cached_object& object) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(object);
}

}  // namespace penstock::inline v0
