#include "driver/open_saved_arrays.h"

#include <fmt/format.h>
#include <penstock/joined.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driver/drivers.h"
#include "driver/for_each_file.h"
#include "driver/registry.h"
#include "driver/saved_arrays.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostNames = 5;  // names of changed shards in an error

result<array> open_one(const saved_array& saved, const std::shared_ptr<context>& with) {
  open_options how;
  how.context = with;
  how.mode = open_mode::read;
  PENSTOCK_ASSIGN(target_location at, resolve(saved.path, how));
  PENSTOCK_ASSIGN(found_node taken, find_node(std::move(at), how));
  // A manifest could name itself.
  if (taken.driver.get() == &manifest_driver() || taken.driver.get() == &references_driver())
    return error(errc::unsupported, fmt::format("'{}' is a manifest, and so is the file that names it", saved.path));
  PENSTOCK_ASSIGN(node opened, open_found(std::move(taken), how));
  auto* const found = std::get_if<array>(&opened);
  if (found == nullptr) return error(errc::conflict, fmt::format("'{}' is a group, it was an array", saved.path));
  const array& made = *found;
  if (made.shape() == saved.shape && made.type() == saved.type) return made;
  return error(errc::conflict, fmt::format("'{}' was {} {}, and is now {} {}", saved.path, saved.type.name(),
                                           to_string(saved.shape), made.type().name(), to_string(made.shape())));
}

}  // namespace

result<array> open_saved_arrays(const json& document, const manifest_place& at, const std::shared_ptr<context>& with) {
  PENSTOCK_ASSIGN(saved_arrays parsed, parse_saved_arrays(document, at));
  const auto facts = std::make_shared<const saved_arrays>(std::move(parsed));
  const std::vector<saved_array>& saved = facts->shards;
  std::vector<std::string> documents;
  for (const saved_array& each : saved) documents.push_back(each.metadata);
  PENSTOCK_ASSIGN(const auto now, query_files(documents, *with));
  std::vector<std::string> stale;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (now[i] && now[i]->stamp == saved[i].stamp) continue;
    stale.push_back(fmt::format("'{}' {}", saved[i].path, now[i] ? "changed" : "was removed"));
  }
  if (!stale.empty()) {
    const std::size_t shown = std::min(stale.size(), kMostNames);
    std::string names =
        fmt::format("{}", fmt::join(stale.begin(), stale.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < stale.size()) names += fmt::format(" and {} more", stale.size() - shown);
    return error(errc::conflict, names + " since the manifest was saved: save it again");
  }
  std::vector<std::optional<result<array>>> opened(saved.size());
  for_each_file(saved.size(), *open_file_store(at.folder.empty() ? "/" : at.folder), *with,
                [&](std::size_t i) { opened[i] = open_one(saved[i], with); });
  std::vector<array> parts;
  parts.reserve(opened.size());
  for (std::size_t i = 0; i < opened.size(); ++i) {
    if (!opened[i]->ok()) return std::move(*opened[i]).error().note(fmt::format("shard '{}'", saved[i].path));
    parts.push_back(std::move(**opened[i]));
  }
  PENSTOCK_ASSIGN(const array joined, join(parts, facts->axis, with));
  return array(joined.state().with_shards(facts));
}

}  // namespace penstock::inline v0
