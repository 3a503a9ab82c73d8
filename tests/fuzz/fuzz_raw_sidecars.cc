// Any bytes as the JSON document of raw files: refused with an error of its own, or a description whose shapes fit and
// with which small files open or are refused. The file has its own document, and one in its folder.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <penstock/find_shards.h>
#include <penstock/open.h>
#include <penstock/shards.h>

using namespace penstock;

namespace {

void put(store& to, std::string_view key, std::span<const std::byte> bytes) {
  if (!to.put(key, {&bytes, 1}, {}).ok()) std::abort();
}

}  // namespace

extern "C" int run_raw_sidecars(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<context> with = context::make().value();
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::shared_ptr<store> memory = make_memory_store();
  static const std::string items(24, '\1');
  put(*memory, "run/a.raw", std::as_bytes(std::span(items)));
  put(*memory, "run/b.raw", {});
  put(*memory, "run/a.raw.json", bytes);
  put(*memory, "run/_meta.json", bytes);
  const found_shards found{memory, {"run/a.raw", "run/b.raw"}, "memory:", ""};
  for (const std::int64_t axis : {0, 1, -1}) {
    auto described = describe_raw_shards(found, axis, {}, with);
    if (!described.ok()) {
      if (described.error().code() == errc::internal) std::abort();
      continue;
    }
    if (described->dtype.empty() || (described->row_shape && described->row_shape->size() >= kMaxRank)) std::abort();
    if (!described->rows.empty() && described->rows.size() != found.keys.size()) std::abort();
    shard_options how;
    how.context = with;
    how.axis = axis;
    how.raw = std::move(*described);
    const auto opened = open_shards(memory, found.keys, how);
    if (!opened.ok() && opened.error().code() == errc::internal) std::abort();
  }
  return 0;
}
