#include "store/memory_store.h"

#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "base/checked.h"

namespace penstock::inline v0 {

/// One generation of an object: a count of owners, then its bytes, in one allocation. Immutable once it is in the map.
///
/// Counts its owners itself because a lease is one pointer: a lent shared_ptr would need an allocation for each read.
class memory_store::object {
 public:
  /// Null if the memory cannot be allocated.
  static object* make(std::span<const part> parts) {
    std::uint64_t size = 0;
    std::uint64_t total = 0;
    for (const part& each : parts)
      if (!checked_add(size, each.size(), size)) return nullptr;
    if (!checked_add(size, sizeof(object), total)) return nullptr;
    void* const memory = ::operator new(static_cast<std::size_t>(total), std::nothrow);
    if (memory == nullptr) return nullptr;
    auto* const made = new (memory) object(size);
    std::byte* to = made->data();
    for (const part& each : parts) {
      if (!each.empty()) std::memcpy(to, each.data(), each.size());
      to += each.size();
    }
    return made;
  }

  void keep() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  static void drop(void* which) noexcept {
    auto* const self = static_cast<object*>(which);
    if (self->owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    self->~object();
    ::operator delete(which);
  }

  std::span<const std::byte> bytes() noexcept { return {data(), static_cast<std::size_t>(size_)}; }
  std::uint64_t size() const noexcept { return size_; }
  version seen() const noexcept {
    version out;
    out.word[0] = generation;
    return out;
  }

  std::uint64_t generation = 0;

 private:
  explicit object(std::uint64_t size) noexcept : size_(size) {}
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }

  std::atomic<std::uint64_t> owners_{1};
  std::uint64_t size_;
};

class memory_store::object_ref {
 public:
  object_ref() noexcept = default;
  explicit object_ref(object* owned) noexcept : object_(owned) {}
  object_ref(object_ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  object_ref& operator=(object_ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~object_ref() {
    if (object_ != nullptr) object::drop(object_);
  }
  object* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  object* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  object* object_ = nullptr;
};

class memory_store::write_mark {
 public:
  explicit write_mark(std::atomic<bool>& writing) noexcept : writing_(writing) { writing_.store(true); }
  ~write_mark() { writing_.store(false); }
  write_mark(const write_mark&) = delete;
  write_mark& operator=(const write_mark&) = delete;

 private:
  std::atomic<bool>& writing_;
};

memory_store::memory_store() : mutex_([] { return std::make_unique<std::shared_mutex>(); }) {}

memory_store::~memory_store() {
  for (const auto& each : objects_) object::drop(each.second);
}

store_traits memory_store::traits() const {
  store_traits traits;
  // Lending bytes costs nothing, so longer requests gain nothing.
  traits.max_gap_bytes = 0;
  traits.versions = true;
  traits.sizes = true;
  traits.blocking = false;
  traits.inline_completion = true;
  traits.lends_bytes = true;
  traits.writable = true;
  traits.guards = true;
  return traits;
}

// Under either lock.
result<> memory_store::check_guard_of(const write_condition& condition) const {
  if (condition.guard == nullptr) return {};
  const auto at = objects_.find(std::string_view(condition.guard->key));
  if (at == objects_.end()) return guard_is_gone(*condition.guard);
  return check_guard(*condition.guard, at->second->bytes());
}

// Under either lock.
result<> memory_store::whole() const {
  if (!writing_.load()) return {};
  return error(errc::io_error, "the process was forked in the middle of a write to this store");
}

void memory_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  for (const byte_read& one : reads) {
    auto done = stop.stop_requested() ? error(errc::cancelled, "the read was stopped") : read_one(one);
    sink.complete(one.tag, std::move(done));
  }
}

result<read_done> memory_store::read_one(const byte_read& wanted) const {
  PENSTOCK_TRY(check_key(wanted.key));
  object_ref found;
  {
    const std::shared_lock lock(mutex_.get());
    PENSTOCK_TRY(whole());
    if (const auto at = objects_.find(wanted.key); at != objects_.end()) {
      at->second->keep();
      found = object_ref(at->second);
    }
  }
  if (!found) return error(errc::not_found, "no such object");
  const auto bytes = found->bytes();
  const version seen = found->seen();
  return answer_from(wanted, bytes, seen, lease(found.release(), &object::drop));
}

result<version> memory_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  object_ref made(object::make(parts));
  if (!made) return error(errc::resource_exhausted, "there is no memory for this object");
  std::string name(key);
  object_ref replaced;  // released after the lock: freeing much memory takes some time

  const std::unique_lock lock(mutex_.get());
  PENSTOCK_TRY(whole());
  const auto at = objects_.find(key);
  version present;
  if (at != objects_.end()) present = at->second->seen();
  PENSTOCK_TRY(check_guard_of(condition));
  PENSTOCK_TRY(check_condition(condition, at == objects_.end() ? nullptr : &present));
  const write_mark mark(writing_);
  made->generation = ++last_generation_;
  version seen = made->seen();
  if (at == objects_.end()) {
    objects_.emplace(std::move(name), nullptr).first->second = made.release();
  } else {
    replaced = object_ref(std::exchange(at->second, made.release()));
  }
  return seen;
}

result<> memory_store::erase(std::string_view key, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  object_ref erased;
  const std::unique_lock lock(mutex_.get());
  PENSTOCK_TRY(whole());
  const auto at = objects_.find(key);
  PENSTOCK_TRY(check_guard_of(condition));
  if (at == objects_.end()) return {};
  const version present = at->second->seen();
  PENSTOCK_TRY(check_condition(condition, &present));
  const write_mark mark(writing_);
  erased = object_ref(at->second);
  objects_.erase(at);
  return {};
}

result<> memory_store::list(std::string_view prefix, listing what, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  key_listing found(prefix, what);
  {
    const std::shared_lock lock(mutex_.get());
    PENSTOCK_TRY(whole());
    for (const auto& [key, value] : objects_) found.add(key, value->size());
  }
  found.report(sink);
  return {};
}

std::string memory_store::uri() const { return "memory:"; }

}  // namespace penstock::inline v0
