#include "driver/open_saved_arrays.h"

#include <fmt/format.h>
#include <penstock/joined.h>
#include <penstock/place.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driver/drivers.h"
#include "driver/for_each_file.h"
#include "driver/reference_tree.h"
#include "driver/registry.h"
#include "driver/saved_arrays.h"
#include "engine/array_state.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_metadata.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

error damaged(std::string_view what) { return {errc::corrupt_data, fmt::format("the manifest is damaged: {}", what)}; }

std::string metadata_of(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  for (const std::string_view name : {kZarrKey, kZarrayKey}) {
    std::string document = fmt::format("{}/{}", path, name);
    if (fs::is_regular_file(document, none)) return document;
  }
  return path;
}

result<saved_array> read_one(const json& from, const manifest_place& at) {
  saved_array out;
  const json* const path = from.find("path");
  const json* const stamp = from.find("stamp");
  const json* const shape = from.find("shape");
  const json* const type = from.find("dtype");
  if (path == nullptr || path->as_string() == nullptr) return damaged("an array has no path");
  const std::string location = resolved_location(at.folder, *path->as_string());
  PENSTOCK_TRY(at.rule.check(location, *path->as_string()));
  if (location.find("://") != std::string::npos)
    return error(errc::unsupported, fmt::format("'{}': joined arrays of a manifest are local files", location));
  out.path = fs::path(location).lexically_normal().string();
  out.metadata = metadata_of(out.path);
  const json::array_t* const pair = stamp == nullptr ? nullptr : stamp->as_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].get(out.stamp.size_bytes) ||
      !(*pair)[1].get(out.stamp.changed_ns))
    return damaged(fmt::format("size and modification time of '{}'", out.path));
  if (shape == nullptr || shape->as_array() == nullptr) return damaged(fmt::format("the shape of '{}'", out.path));
  for (const json& each : *shape->as_array()) {
    std::uint64_t length = 0;
    if (!each.get(length)) return damaged(fmt::format("the shape of '{}'", out.path));
    out.shape.push_back(length);
  }
  if (type == nullptr || type->as_string() == nullptr) return damaged(fmt::format("the dtype of '{}'", out.path));
  json descr = *type;
  if (type->as_string()->starts_with('[')) {
    auto fields = json::parse(*type->as_string());
    if (!fields.ok()) return damaged(fmt::format("the dtype of '{}'", out.path));
    descr = std::move(*fields);
  }
  PENSTOCK_ASSIGN(zarr_v2_type parsed, parse_v2_dtype(descr));
  out.type = std::move(parsed.type);
  if (const json* const sum = from.find("crc32c"); sum != nullptr && !sum->is_null()) {
    std::uint64_t value = 0;
    if (!sum->get(value) || value > std::numeric_limits<std::uint32_t>::max())
      return damaged(fmt::format("the checksum of '{}'", out.path));
    out.crc32c = static_cast<std::uint32_t>(value);
  }
  return out;
}

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
  return error(errc::conflict, fmt::format("'{}' was {} {}, it is {} {}", saved.path, saved.type.name(),
                                           to_string(saved.shape), made.type().name(), to_string(made.shape())));
}

}  // namespace

result<array> open_saved_arrays(const json& document, const manifest_place& at, const std::shared_ptr<context>& with) {
  const json* const list = document.find("shards");
  const json* const along = document.find("axis");
  std::uint64_t axis = 0;
  if (list == nullptr || list->as_array() == nullptr || list->as_array()->empty()) return damaged("it has no arrays");
  if (along == nullptr || !along->get(axis)) return damaged("'axis' is not a number");
  if (at.missing_is_fill)
    return error(errc::unsupported, "missing arrays of a manifest cannot be filled: the manifest has no fill value");
  auto facts = std::make_shared<saved_arrays>();
  facts->axis = static_cast<std::size_t>(axis);
  std::vector<saved_array>& saved = facts->shards;
  std::vector<std::string> documents;
  for (const json& each : *list->as_array()) {
    PENSTOCK_ASSIGN(saved_array one, read_one(each, at));
    documents.push_back(one.metadata);
    saved.push_back(std::move(one));
  }
  PENSTOCK_ASSIGN(const auto now, query_files(documents, *with));
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (now[i] && now[i]->stamp == saved[i].stamp) continue;
    return error(errc::conflict, fmt::format("'{}' {} since the manifest was saved: save it again", saved[i].path,
                                             now[i] ? "changed" : "is gone"));
  }
  std::vector<std::optional<result<array>>> opened(saved.size());
  for_each_file(saved.size(), *open_file_store(at.folder.empty() ? "/" : at.folder), *with,
                [&](std::size_t i) { opened[i] = open_one(saved[i], with); });
  std::vector<array> parts;
  parts.reserve(opened.size());
  for (auto& each : opened) {
    if (!each->ok()) return std::move(*each).error();
    parts.push_back(std::move(**each));
  }
  PENSTOCK_ASSIGN(const array joined, join(parts, facts->axis, with));
  return array(joined.state().with_shards(std::move(facts)));
}

}  // namespace penstock::inline v0
