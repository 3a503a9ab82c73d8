// Arrays whose encoding does not change: their objects are copied as bytes.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "api/copy/array_copy.h"
#include "api/copy/copy_pieces.h"
#include "base/counted.h"
#include "driver/append_claim_key.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

struct stored_object {
  std::string key;  // within the array
  std::uint64_t size = 0;
};

class object_list final : public key_sink {
 public:
  explicit object_list(std::size_t skipped) : skipped_(skipped) {}
  bool key(std::string_view key, std::uint64_t size) override {
    objects.push_back({std::string(key.substr(skipped_)), size});
    return true;
  }
  std::vector<stored_object> objects;

 private:
  std::size_t skipped_;
};

// Not copied as data: documents, and the claim of a running append, which is not the copy's.
bool is_document(std::string_view key) {
  return key == "zarr.json" || key == ".zarray" || key == ".zattrs" || key == ".zgroup" || key == ".zmetadata" ||
         key == kClaimKey;
}

// Every object that the array may have: for stores that cannot list.
result<std::vector<stored_object>> all_objects(const array_state& state) {
  constexpr std::uint64_t kMost = 100'000'000;
  const std::uint64_t count = state.layout->write_grid().cells();
  if (count > kMost) {
    return error(errc::unsupported,
                 fmt::format("the source's store cannot list its keys, and {} are too many to request",
                             counted(count, "object")));
  }
  std::vector<stored_object> out(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) state.layout->key(i, out[static_cast<std::size_t>(i)].key);
  return out;
}

result<std::vector<stored_object>> objects_of(const array_state& state) {
  object_list found(state.prefix.size());
  auto listed = state.store->list(state.prefix, listing::objects, found);
  if (!listed.ok() && listed.error().code() == errc::unsupported) return all_objects(state);
  if (!listed.ok()) return std::move(listed).error().note(fmt::format("listing '{}'", state.uri));
  std::erase_if(found.objects, [](const stored_object& each) { return is_document(each.key); });
  return std::move(found.objects);
}

// The documents are first; if they already exist, they must be equal.
result<> copy_documents(const array_copy& what) {
  const array_state& state = what.from.state();
  for (const std::string_view name : {".zattrs", ".zarray", "zarr.json"}) {
    const std::string key = state.prefix + std::string(name), target = what.prefix + std::string(name);
    auto document = read_and_wait(*state.store, key, {}, kMaxMetadataBytes);
    if (!document.ok() && document.error().code() == errc::not_found) continue;
    if (!document.ok()) return std::move(document).error().note(read_note(key, {}));
    if (what.options.resume) {
      auto present = read_and_wait(*what.to, target, {}, kMaxMetadataBytes);
      if (present.ok() && present->bytes == document->bytes) continue;
      if (present.ok()) {
        return error(errc::invalid_argument,
                     fmt::format("'{}' differs from the source's: this is not the copy that was interrupted", target));
      }
      if (present.error().code() != errc::not_found) return std::move(present).error().note(read_note(target, {}));
    }
    const part bytes = document->bytes;
    write_condition condition;
    condition.durable = what.options.durable;
    auto put = what.to->put(target, {&bytes, 1}, condition);
    if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", target));
  }
  return {};
}

}  // namespace

unsigned array_copy::threads() const {
  return options.threads != 0 ? std::min(options.threads, 1024U) : from.state().context->threads();
}

result<> array_copy::copy_objects() const {
  const array_state& state = from.state();
  const bool is_whole = stage() == copy_stage::whole;
  if (is_whole || stage() == copy_stage::prepare) PENSTOCK_TRY(copy_documents(*this));
  if (!is_whole && stage() != copy_stage::first) return {};
  PENSTOCK_ASSIGN(std::vector<stored_object> objects, objects_of(state));
  if (!is_whole) {
    // All processes see the same order, regardless of the listing's.
    std::sort(objects.begin(), objects.end(),
              [](const stored_object& a, const stored_object& b) { return a.key < b.key; });
    const auto [begin, end] = share_of(options.part, objects.size());
    objects.erase(objects.begin() + static_cast<std::ptrdiff_t>(end), objects.end());
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  if (options.resume) {
    object_list there(prefix.size());
    PENSTOCK_TRY(to->list(prefix, listing::objects, there));
    std::unordered_map<std::string, std::uint64_t> sizes;
    for (stored_object& each : there.objects) sizes.emplace(std::move(each.key), each.size);
    const std::size_t before = objects.size();
    std::erase_if(objects, [&](const stored_object& each) {
      const auto found = sizes.find(each.key);
      return found != sizes.end() && (found->second == each.size || found->second == 0 || each.size == 0);
    });
    report.objects_skipped += before - objects.size();
  }
  std::uint64_t total = 0;
  for (const stored_object& each : objects) total += each.size;
  constexpr bool kWaits = true;
  copy_pieces work(options, state.context->state(), path, total);
  std::atomic<std::uint64_t> copied{0};
  auto done = work.run(objects.size(), threads(), kWaits, [&](std::size_t i, std::uint64_t& bytes) -> result<> {
    const std::string key = state.prefix + objects[i].key, target = prefix + objects[i].key;
    auto object = read_and_wait(*state.store, key, {}, byte_range::kAll - 1);
    if (!object.ok() && object.error().code() == errc::not_found) return {};  // never written, or erased since
    if (!object.ok()) return std::move(object).error().note(read_note(key, {}));
    const part whole = object->bytes;
    write_condition condition;
    condition.durable = options.durable;
    auto put = to->put(target, {&whole, 1}, condition);
    if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", target));
    bytes = whole.size();
    ++copied;
    return {};
  });
  report.objects_copied += copied;
  report.bytes += work.done_bytes();
  return done;
}

}  // namespace penstock::inline v0
