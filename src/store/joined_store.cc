#include "store/joined_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/guarded_read.h"

namespace penstock::inline v0 {
namespace {

// Whether two stores with one URI are the same storage: the path identifies it completely.
bool named_by_uri(const std::string& uri) { return uri.starts_with("file:"); }

void merge(store_traits& into, const store_traits& other) {
  into.max_gap_bytes = std::max(into.max_gap_bytes, other.max_gap_bytes);
  into.request_bytes = std::max(into.request_bytes, other.request_bytes);
  into.max_length_bytes = std::min(into.max_length_bytes, other.max_length_bytes);
  into.versions = into.versions && other.versions;
  into.blocking = into.blocking || other.blocking;
  into.inline_completion = into.inline_completion && other.inline_completion;
  into.lends_bytes = into.lends_bytes || other.lends_bytes;
  into.sizes = into.sizes && other.sizes;
}

}  // namespace

std::shared_ptr<const joined_store> joined_store::make(const std::vector<std::shared_ptr<const store>>& stores,
                                                       std::string uri) {
  std::shared_ptr<joined_store> out(new joined_store);
  out->uri_ = std::move(uri);
  std::unordered_map<const store*, const std::string*> known;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    if (const auto at = known.find(stores[i].get()); at != known.end()) {
      out->name_of_.push_back(at->second);
      continue;
    }
    std::string name = stores[i]->uri();
    const bool shared = named_by_uri(name);
    while (name.ends_with('/')) name.pop_back();
    auto at = out->by_name_.find(name);
    if (at != out->by_name_.end() && !shared) {
      name += fmt::format(" (part {})", i);
      at = out->by_name_.find(name);
    }
    if (at == out->by_name_.end()) {
      out->names_.push_back(std::make_unique<const std::string>(std::move(name)));
      out->stores_.push_back(stores[i]);
      const store_traits theirs = stores[i]->traits();
      if (out->stores_.size() == 1) {
        out->traits_ = theirs;
      } else {
        merge(out->traits_, theirs);
      }
      at = out->by_name_.emplace(*out->names_.back(), stores[i].get()).first;
      known.emplace(stores[i].get(), out->names_.back().get());
      out->name_of_.push_back(out->names_.back().get());
      continue;
    }
    const auto same = std::find_if(out->names_.begin(), out->names_.end(),
                                   [&](const auto& each) { return each->data() == at->first.data(); });
    known.emplace(stores[i].get(), same->get());
    out->name_of_.push_back(same->get());
  }
  out->traits_.lasting_versions = out->traits_.writable = out->traits_.guards = out->traits_.device_reads = false;
  return out;
}

const store* joined_store::find(std::string_view key, std::string_view& own) const noexcept {
  // The longest name first: a store may be inside of another.
  for (std::size_t slash = key.rfind('/'); slash != std::string_view::npos && slash != 0;
       slash = key.rfind('/', slash - 1)) {
    const auto at = by_name_.find(key.substr(0, slash));
    if (at == by_name_.end()) continue;
    own = key.substr(slash + 1);
    return at->second;
  }
  return nullptr;
}

void joined_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  std::vector<byte_read> group;
  group.reserve(reads.size());
  const store* current = nullptr;
  bool is_first = true;  // an exception of the first store is the caller's: no other has reads yet
  const auto flush = [&] {
    if (group.empty()) return;
    if (std::exchange(is_first, false)) {
      current->read(group, sink, stop);
    } else {
      guarded_read(*current, group, sink, stop);
    }
    group.clear();
  };
  for (const byte_read& one : reads) {
    std::string_view own;
    const store* const from = find(one.key, own);
    if (from == nullptr) {
      sink.complete(one.tag, error(errc::not_found, "no such object"));
      continue;
    }
    if (from != current) flush();
    current = from;
    group.push_back(one);
    group.back().key = own;
  }
  flush();
}

}  // namespace penstock::inline v0
