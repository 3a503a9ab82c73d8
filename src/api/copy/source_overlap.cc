#include "api/copy/source_overlap.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "driver/zarr_nodes.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

bool defines_a_node(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == kZarrKey || name == kZarrayKey || name == kZgroupKey;
}

result<> put_text(store& to, const std::string& key, const std::string& text) {
  const part bytes = std::as_bytes(std::span(text.data(), text.size()));
  auto put = to.put(key, {&bytes, 1}, {});
  if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", key));
  return {};
}

}  // namespace

std::string real_place(const std::string& uri) {
  for (const std::string_view scheme : {"file://", "zip://"}) {
    if (!uri.starts_with(scheme)) continue;
    std::error_code failed;
    std::string path = std::filesystem::weakly_canonical(uri.substr(scheme.size()), failed).string();
    if (failed || path.empty()) break;
    if (path.back() != '/') path += '/';
    return std::string(scheme) + path;
  }
  return uri.ends_with('/') ? uri : uri + "/";
}

result<> check_apart(std::span<const source_document> sources, store& to, const std::string& prefix,
                     const node_objects& replaced) {
  std::unordered_map<std::string, std::vector<const source_document*>> by_text;
  for (const source_document& each : sources) {
    const auto found = read_document(*each.in, each.key);
    if (found.ok() && *found) by_text[std::string((*found)->text())].push_back(&each);
  }
  for (const std::string& key : replaced.keys()) {
    if (by_text.empty()) return {};
    if (!defines_a_node(key)) continue;
    const std::string full = prefix + key;
    const auto document = read_document(to, full);
    if (!document.ok() || !*document) continue;  // damaged, or removed meanwhile
    const std::string text((*document)->text());
    const auto same = by_text.find(text);
    if (same == by_text.end()) continue;
    const source_document* one = nullptr;
    PENSTOCK_TRY(put_text(to, full, text + " "));
    for (const source_document* const each : same->second) {
      const auto now = read_document(*each->in, each->key);
      if (now.ok() && *now && (*now)->text() == text + " ") one = each;
    }
    PENSTOCK_TRY(put_text(to, full, text));
    if (one != nullptr)
      return error(errc::invalid_argument, fmt::format("'{}' cannot be copied into itself: it is '{}'",
                                                       child_uri(one->in->uri(), one->key), child_uri(to.uri(), full)));
  }
  return {};
}

}  // namespace penstock::inline v0
