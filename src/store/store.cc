#include <fmt/format.h>
#include <penstock/extend/store.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {

std::string to_string(const byte_range& range) {
  if (range.whole()) return "all";
  if (range.from_end) return "last " + counted(range.length, "byte");
  std::uint64_t end = 0;
  if (!checked_add(range.offset, range.length, end)) return fmt::format("[{}, +{})", range.offset, range.length);
  return fmt::format("[{}, {})", range.offset, end);
}

result<version> store::put(std::string_view, std::span<const part>, const write_condition&) {
  return error(errc::read_only, fmt::format("this store cannot be written to: {}", uri()));
}

void store::write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) {
  for (const byte_write& each : writes) {
    if (stop.stop_requested()) {
      sink.complete(each.tag, error(errc::cancelled, "the write was stopped"));
    } else if (each.erases) {
      auto done = erase(each.key, each.condition);
      sink.complete(each.tag, done.ok() ? result<version>(version()) : result<version>(std::move(done).error()));
    } else {
      sink.complete(each.tag, put(each.key, each.parts, each.condition));
    }
  }
}

result<std::unique_ptr<staged_object>> store::stage(std::string_view, std::span<const part>, const write_condition&) {
  return std::unique_ptr<staged_object>();
}

std::vector<result<version>> store::publish(std::span<const std::unique_ptr<staged_object>> staged) {
  std::vector<result<version>> out;
  out.reserve(staged.size());
  for (std::size_t i = 0; i < staged.size(); ++i)
    out.emplace_back(error(errc::internal, "this store stages no objects: none can be published"));
  return out;
}

result<> store::erase(std::string_view, const write_condition&) {
  return error(errc::read_only, fmt::format("this store cannot be written to: {}", uri()));
}

result<> store::list(std::string_view, listing, key_sink&) const {
  return error(errc::unsupported, fmt::format("this store cannot list its keys: {}", uri()));
}

result<> store::flush() { return {}; }

result<> store::check_writable(std::string_view) const {
  if (traits().writable) return {};
  return error(errc::read_only, fmt::format("this store cannot be written to: {}", uri()));
}

error version_has_changed() { return {errc::version_changed, "the object is no longer the one that was expected"}; }

result<byte_extent> find_extent(const byte_read& wanted, std::uint64_t size_bytes) {
  const byte_range& range = wanted.range;
  if (range.length == 0) return byte_extent{};
  byte_extent extent{0, size_bytes};
  if (!range.whole()) {
    const bool begins = range.from_end || range.offset <= size_bytes;
    const std::uint64_t most = range.from_end || !begins ? size_bytes : size_bytes - range.offset;
    if (!begins || (range.length > most && (range.from_end || !wanted.may_end_early))) {
      return error(errc::corrupt_data, fmt::format("the range exceeds the object: {} of {}", to_string(range),
                                                   counted(size_bytes, "byte")));
    }
    const std::uint64_t length = std::min(range.length, most);
    extent = {range.from_end ? size_bytes - length : range.offset, length};
  }
  if (extent.length > wanted.max_bytes) {
    return error(errc::corrupt_data,
                 fmt::format("{} {}, at most {} are allowed", range.whole() ? "the object is" : "the range takes",
                             counted(extent.length, "byte"), wanted.max_bytes));
  }
  if (!wanted.destination.empty() && extent.length != wanted.destination.size()) {
    return error(range.whole() ? errc::corrupt_data : errc::internal,
                 fmt::format("{} for a destination of {}", counted(extent.length, "byte"), wanted.destination.size()));
  }
  return extent;
}

result<std::span<std::byte>> find_room(const byte_read& wanted, std::uint64_t length) {
  if (!wanted.destination.empty()) return wanted.destination;
  if (length == 0) return std::span<std::byte>();
  if (wanted.buffer == nullptr) return error(errc::internal, "a read has no memory for its bytes");
  PENSTOCK_ASSIGN(const std::span<std::byte> room, wanted.buffer->reserve(length));
  return room.first(static_cast<std::size_t>(length));
}

result<read_done> answer_from(const byte_read& wanted, std::span<const std::byte> object, const version& seen,
                              lease keep_alive) {
  if (!is_expected(wanted, seen)) return version_has_changed();
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, object.size()));
  read_done done;
  done.seen = seen;
  done.object_size = object.size();
  if (extent.length == 0) return done;
  const auto bytes = object.subspan(static_cast<std::size_t>(extent.offset), static_cast<std::size_t>(extent.length));
  if (!wanted.destination.empty()) {
    std::memcpy(wanted.destination.data(), bytes.data(), bytes.size());
    done.bytes = wanted.destination;
  } else {
    done.bytes = bytes;
    done.keep_alive = std::move(keep_alive);
  }
  return done;
}

result<read_done> answer_from(const byte_read& wanted, std::span<const std::byte> object, const version& seen,
                              std::shared_ptr<const void> owner) {
  if (!wanted.destination.empty() || wanted.range.length == 0) return answer_from(wanted, object, seen, lease());
  auto* const kept = new (std::nothrow) std::shared_ptr<const void>(std::move(owner));
  if (kept == nullptr) return error(errc::resource_exhausted, "there is no memory to lend this object");
  return answer_from(wanted, object, seen, lease(kept, [](void* which) noexcept {
                       delete static_cast<std::shared_ptr<const void>*>(which);
                     }));
}

result<> check_condition(const write_condition& condition, const version* present) {
  switch (condition.what) {
    case write_condition::kind::none:
      return {};
    case write_condition::kind::must_be_absent:
      if (present == nullptr) return {};
      return error(errc::version_changed, "the object exists, although it must be absent");
    case write_condition::kind::must_match:
      if (!condition.expected.known()) return error(errc::invalid_argument, "a condition has no version to match");
      if (present != nullptr && *present == condition.expected) return {};
      return version_has_changed();
  }
  return error(errc::internal, "no such condition");
}

error guard_is_gone(const write_guard& guard) {
  return {errc::conflict, fmt::format("another writer took over '{}'", guard.key)};
}

result<> check_guard(const write_guard& guard, std::span<const std::byte> begin) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (!guard.prefix.empty() && text.substr(0, guard.prefix.size()) == guard.prefix) return {};
  return guard_is_gone(guard);
}

}  // namespace penstock::inline v0
