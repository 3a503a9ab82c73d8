#include "store/reference_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "store/guarded_read.h"
#include "store/held_bytes.h"

namespace penstock::inline v0 {
namespace {

/// Which outcomes of a read are a conflict.
struct promises {
  bool same = false;  ///< it is pinned
  bool stays = false;
  friend bool operator==(const promises&, const promises&) = default;
};

/// Reports a change of a pinned object as a conflict: beginning again, as with an index, would not help.
result<read_done> in_our_words(result<read_done> done, promises broken) {
  if (done.ok() || !broken.same) return done;
  if (done.error().code() == errc::version_changed)
    return error(errc::conflict, "the object changed since the references to its bytes were made");
  if (broken.stays && done.error().code() == errc::not_found)
    return error(errc::conflict, "the object was removed since the references to its bytes were made");
  return done;
}

/// An adapter between a store that completes inside `read` and the reader.
class inline_sink final : public completion_sink {
 public:
  inline_sink(completion_sink& to, promises given) noexcept : to_(to), given_(given) {}
  void complete(std::uint64_t tag, result<read_done> done) override {
    to_.complete(tag, in_our_words(std::move(done), given_));
  }

 private:
  completion_sink& to_;
  promises given_;
};

/// The same for reads that complete later: it is destroyed with the last completion.
class later_sink final : public completion_sink {
 public:
  later_sink(completion_sink& to, promises given, std::size_t reads) noexcept : to_(to), given_(given), left_(reads) {}
  void complete(std::uint64_t tag, result<read_done> done) override {
    to_.complete(tag, in_our_words(std::move(done), given_));
    if (left_.fetch_sub(1) == 1) delete this;  // NOLINT: owns itself
  }

 private:
  completion_sink& to_;
  const promises given_;
  std::atomic<std::size_t> left_;
};

}  // namespace

result<std::shared_ptr<const reference_store>> reference_store::make(std::vector<object> objects, std::string uri) {
  std::shared_ptr<reference_store> out(new reference_store);
  out->objects_ = std::move(objects);
  out->uri_ = std::move(uri);
  store_traits traits;
  traits.blocking = false;
  traits.versions = traits.sizes = !out->objects_.empty();
  traits.max_length_bytes = ~std::uint64_t{0};
  for (std::size_t i = 0; i < out->objects_.size(); ++i) {
    object& each = out->objects_[i];
    if (!out->by_name_.emplace(each.name, i).second) {
      return error(errc::invalid_argument, fmt::format("references name the object '{:.200}' twice", each.name));
    }
    const store_traits theirs = each.from->traits();
    each.completes_inline = theirs.inline_completion;
    traits.max_gap_bytes = std::max(traits.max_gap_bytes, theirs.max_gap_bytes);
    traits.request_bytes = std::max(traits.request_bytes, theirs.request_bytes);
    traits.max_length_bytes = std::min(traits.max_length_bytes, theirs.max_length_bytes);
    traits.blocking = traits.blocking || theirs.blocking;
    traits.inline_completion = traits.inline_completion && theirs.inline_completion;
    traits.versions = traits.versions && theirs.versions;
    traits.sizes = traits.sizes && theirs.sizes;
    traits.lends_bytes = traits.lends_bytes || theirs.lends_bytes;
  }
  if (out->objects_.empty()) traits.max_length_bytes = store_traits().max_length_bytes;
  out->traits_ = traits;
  return std::shared_ptr<const reference_store>(std::move(out));
}

const reference_store::object* reference_store::find(std::string_view name) const noexcept {
  if (objects_.size() == 1) return objects_.front().name == name ? objects_.data() : nullptr;
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &objects_[found->second];
}

void reference_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  const auto given_of = [](const object& each) {
    return promises{each.pinned.known(), each.pinned.known() && !each.may_vanish};
  };
  bool others_read = false;  // an exception must not reach the caller while other stores have reads of this call
  const auto read_from = [&](const object& first, std::span<const byte_read> some) {
    const promises given = given_of(first);
    if (!first.completes_inline) {
      others_read = true;
      guarded_read(*first.from, some, *new later_sink(sink, given, some.size()), stop);  // NOLINT: deletes itself
    } else if (inline_sink between(sink, given); others_read) {
      guarded_read(*first.from, some, between, stop);
    } else {
      first.from->read(some, between, stop);
    }
  };
  const auto translate = [](byte_read& wanted, const object& named) {
    wanted.key = named.key;
    if (!named.pinned.known()) return;
    wanted.expected = &named.pinned;
    wanted.same_handle = true;
  };
  const auto is_held = [&](const object& named, const byte_read& wanted) {
    return named.held && named.pinned.known() && named.held->serve(wanted, named.pinned, sink);
  };
  if (reads.size() == 1) {  // without allocations: a chunk of a few KiB takes as long as some of them
    const object* const named = find(reads.front().key);
    if (named == nullptr) return sink.complete(reads.front().tag, error(errc::not_found, "no such object"));
    if (is_held(*named, reads.front())) return;
    byte_read wanted = reads.front();
    translate(wanted, *named);
    return read_from(*named, {&wanted, 1});
  }
  std::vector<byte_read> together;  // reads from one store with the same properties
  const object* first = nullptr;
  const auto flush = [&] {
    if (!together.empty()) read_from(*first, together);
    together.clear();
  };
  for (const byte_read& one : reads) {
    const object* const named = find(one.key);
    if (named == nullptr) {
      sink.complete(one.tag, error(errc::not_found, "no such object"));
      continue;
    }
    if (is_held(*named, one)) continue;
    if (!together.empty() && (named->from != first->from || given_of(*named) != given_of(*first))) flush();
    if (together.empty()) first = named;
    translate(together.emplace_back(one), *named);
  }
  flush();
}

}  // namespace penstock::inline v0
