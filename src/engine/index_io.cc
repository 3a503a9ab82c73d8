#include "engine/index_io.h"

#include <fmt/format.h>

#include "base/thrown.h"

namespace penstock::inline v0 {

std::string read_note(std::string_view key, const byte_range& range) {
  return fmt::format("reading '{}', {}{}", key, range.whole() || range.from_end ? "" : "bytes ", to_string(range));
}

bool find_cached(index_cache& cache, std::uint64_t uid, const index_key& key, const index_entry* root,
                 index_entry& out) {
  if (uid == 0 || (key.node != 0 && root == nullptr) || !cache.find(uid, key, out)) return false;
  if (key.node != 0 && !(root->seen == out.seen)) return false;
  out.cached = true;
  return true;
}

result<index_entry> take_index(const source& from, const index_request& request, const std::string& key,
                               result<read_done> arrived) {
  index_entry entry;
  if (!arrived.ok()) {
    if (arrived.error().code() == errc::not_found) {
      // Below the root: the object existed a moment ago, so it was replaced, rather than being absent by a known index.
      if (request.key.node != 0) return error(errc::version_changed, "the object was removed");
      return entry;
    }
    return std::move(arrived).error().note(read_note(key, request.range));
  }
  auto parsed = caught("the layout", [&] { return from.layout->parse(request, arrived->bytes, arrived->object_size); });
  if (!parsed.ok()) return std::move(parsed).error().note(read_note(key, request.range));
  entry.block = std::move(*parsed);
  entry.seen = std::move(arrived->seen);
  return entry;
}

}  // namespace penstock::inline v0
