#include "format/zarr/zarr_consolidated.h"

#include <fmt/format.h>

#include <utility>

#include "format/zarr/metadata_reader.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

/// `a//b/` and `/a/b` as `a/b`.
std::string normal(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty()) {
      if (!out.empty()) out.push_back('/');
      out.append(part);
    }
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return out;
}

}  // namespace

result<std::shared_ptr<const zarr_consolidated>> zarr_consolidated::from_v3(std::shared_ptr<const json> group) {
  std::shared_ptr<zarr_consolidated> out;
  const json* member = group->find("consolidated_metadata");
  if (member == nullptr || member->is_null()) return std::shared_ptr<const zarr_consolidated>();
  if (member->as_object() == nullptr) return wrong_member(*member, "consolidated_metadata", "an object or null");
  if (const json* kind = member->find("kind"); kind != nullptr) {
    if (kind->as_string() == nullptr || *kind->as_string() != "inline") {
      return error(errc::unsupported,
                   fmt::format("zarr.json: consolidated metadata of kind {} is not readable", brief(*kind)));
    }
  }
  PENSTOCK_ASSIGN(const json* metadata, required_member(*member, "consolidated_metadata", "metadata"));
  const json::object_t* nodes = metadata->as_object();
  if (nodes == nullptr) return wrong_member(*metadata, "consolidated_metadata.metadata", "an object");
  out = std::make_shared<zarr_consolidated>();
  out->format_ = 3;
  for (const auto& [path, node] : *nodes) {
    if (node.as_object() == nullptr) {
      return wrong_member(node, fmt::format("consolidated_metadata.metadata.{:.80}", path), "an object");
    }
    const json* kind = node.find("node_type");
    const bool is_group = kind != nullptr && kind->as_string() != nullptr && *kind->as_string() == "group";
    out->nodes_[normal(path)] = {&node, nullptr, is_group};
  }
  out->document_ = std::move(group);
  return std::shared_ptr<const zarr_consolidated>(std::move(out));
}

result<std::shared_ptr<const zarr_consolidated>> zarr_consolidated::from_v2(std::shared_ptr<const json> document) {
  const auto refused = [](error why) { return of_document(std::move(why), kZmetadataKey); };
  const json* format = document->find("zarr_consolidated_format");
  std::int64_t number = 0;
  if (format == nullptr || !format->get(number)) {
    return error(errc::corrupt_data, ".zmetadata: member 'zarr_consolidated_format' is missing");
  }
  if (number != 1) {
    return error(errc::unsupported, fmt::format(".zmetadata: zarr_consolidated_format {} is not readable", number));
  }
  const json* metadata = document->find("metadata");
  if (metadata == nullptr || metadata->as_object() == nullptr) {
    return error(errc::corrupt_data, ".zmetadata: member 'metadata' is missing or no object");
  }
  auto out = std::make_shared<zarr_consolidated>();
  out->format_ = 2;
  for (const auto& [key, content] : *metadata->as_object()) {
    const std::size_t slash = key.rfind('/');
    const std::string_view name =
        slash == std::string::npos ? std::string_view(key) : std::string_view(key).substr(slash + 1);
    if (name != kZarrayKey && name != kZgroupKey && name != kZattrsKey) continue;
    if (content.as_object() == nullptr) {
      return refused(wrong_member(content, fmt::format("metadata.{:.80}", key), "an object"));
    }
    entry& at = out->nodes_[normal(std::string_view(key).substr(0, key.size() - name.size()))];
    if (name == kZattrsKey) {
      at.attributes = &content;
    } else if (name == kZarrayKey || at.node == nullptr) {
      at.node = &content;
      at.group = name == kZgroupKey;
    }
  }
  for (auto at = out->nodes_.begin(); at != out->nodes_.end();) {
    at = at->second.node == nullptr ? out->nodes_.erase(at) : std::next(at);  // attributes without a node
  }
  out->document_ = std::move(document);
  return std::shared_ptr<const zarr_consolidated>(std::move(out));
}

result<zarr_metadata> zarr_consolidated::parse(std::string_view path) const {
  const entry& at = nodes_.find(path)->second;
  if (format_ == 3) return parse_zarr_metadata(*at.node);
  return at.group ? parse_zarr_v2_group(*at.node, at.attributes) : parse_zarr_v2_array(*at.node, at.attributes);
}

bool zarr_consolidated::is_group(std::string_view path) const {
  const auto found = nodes_.find(path);
  return found != nodes_.end() && found->second.group;
}

std::vector<std::string> zarr_consolidated::children(std::string_view path) const {
  const std::string prefix = path.empty() ? std::string() : std::string(path) + "/";
  std::vector<std::string> out;
  for (auto at = nodes_.lower_bound(prefix); at != nodes_.end(); ++at) {
    const std::string& each = at->first;
    if (each.compare(0, prefix.size(), prefix) != 0) break;
    const std::string_view rest = std::string_view(each).substr(prefix.size());
    if (!rest.empty() && rest.find('/') == std::string_view::npos) out.emplace_back(rest);
  }
  return out;
}

std::vector<std::string> zarr_consolidated::paths() const {
  std::vector<std::string> out;
  out.reserve(nodes_.size());
  for (const auto& [path, at] : nodes_) out.push_back(path);
  return out;
}

}  // namespace penstock::inline v0
