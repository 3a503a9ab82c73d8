#include "api/copy/source_overlap.h"

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/thrown.h"
#include "driver/zarr_nodes.h"
#include "engine/blocking_read.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

using texts = std::vector<std::optional<std::string>>;

bool defines_a_node(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == kZarrKey || name == kZarrayKey || name == kZgroupKey;
}

// Next to a document.
std::string mark_at(std::string_view document) {
  return std::string(document.substr(0, document.rfind('/') + 1)).append(kCopyMark);
}

std::string random_mark() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// The contents of objects, requested together; nothing for those that cannot be read.
result<texts> read_texts(std::span<const node_document> documents) {
  std::unordered_map<const store*, std::vector<std::size_t>> by_store;
  for (std::size_t i = 0; i < documents.size(); ++i) by_store[documents[i].in].push_back(i);
  texts out(documents.size());
  for (const auto& [from, which] : by_store) {
    std::vector<std::string> keys;
    for (const std::size_t i : which) keys.push_back(documents[i].key);
    const auto found = read_all_and_wait(*from, keys, {}, kMaxMetadataBytes);
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (found[k].ok())
        out[which[k]].emplace(reinterpret_cast<const char*>(found[k]->bytes.data()), found[k]->bytes.size());
      else if (found[k].error().code() == errc::cancelled)
        return found[k].error().clone();
    }
  }
  return out;
}

// Those of `documents` whose text is one of `others`.
std::vector<node_document> equal_ones(std::span<const node_document> documents, const texts& own, const texts& others) {
  std::unordered_set<std::string_view> all;
  for (const auto& each : others)
    if (each) all.insert(*each);
  std::vector<node_document> out;
  for (std::size_t i = 0; i < documents.size(); ++i)
    if (own[i] && all.contains(*own[i])) out.push_back(documents[i]);
  return out;
}

}  // namespace

std::string real_place(const std::string& uri) {
  for (const std::string_view scheme : {"file://", "zip://"}) {
    if (!uri.starts_with(scheme)) continue;
    std::error_code failed;
    std::string path = std::filesystem::weakly_canonical(uri.substr(scheme.size()), failed).string();
    if (failed || path.empty()) break;
    if (path.back() != '/') path += '/';
    // The archive is the file on the way to the node in it.
    for (std::size_t end = path.find('/', 1); scheme == "zip://" && end != std::string::npos;
         end = path.find('/', end + 1)) {
      struct ::stat status;
      if (::stat(path.substr(0, end).c_str(), &status) != 0) break;
      if (S_ISREG(status.st_mode))
        return fmt::format("{}{}:{}{}", scheme, status.st_dev, status.st_ino, path.substr(end));
    }
    return std::string(scheme) + path;
  }
  return uri.ends_with('/') ? uri : uri + "/";
}

result<> check_apart(std::span<const node_document> sources, store& to, const std::string& prefix,
                     const node_objects& replaced) {
  std::vector<node_document> targets;
  for (const std::string& key : replaced.keys())
    if (defines_a_node(key)) targets.push_back({&to, prefix + key});
  PENSTOCK_ASSIGN(const texts of_sources, read_texts(sources));
  PENSTOCK_ASSIGN(const texts of_targets, read_texts(targets));
  std::set<std::string> marks;
  for (const node_document& each : equal_ones(targets, of_targets, of_sources)) marks.insert(mark_at(each.key));
  const std::vector<node_document> suspects = equal_ones(sources, of_sources, of_targets);
  std::vector<node_document> looked_for;
  for (const node_document& each : suspects) looked_for.push_back({each.in, mark_at(each.key)});

  const std::string token = random_mark();
  const part bytes = std::as_bytes(std::span(token));
  write_condition passing;
  passing.passing = true;
  const auto marked = caught("the store", [&]() -> result<texts> {
    for (const std::string& key : marks) {
      const auto put = to.put(key, {&bytes, 1}, passing);
      if (!put.ok() && put.error().code() == errc::cancelled) return put.error().clone();
      looked_for.push_back({&to, key});  // after those of the sources
    }
    return read_texts(looked_for);
  });
  // Also after a failure, which may have stored some.
  static_cast<void>(caught("the store", [&]() -> result<> {
    for (const std::string& key : marks) static_cast<void>(to.erase(key, {}));
    return {};
  }));
  if (!marked.ok()) return marked.error().clone();
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    if ((*marked)[i] != token) continue;
    return error(errc::invalid_argument,
                 fmt::format("'{}' cannot be copied into itself: it is part of '{}'",
                             child_uri(suspects[i].in->uri(), suspects[i].key), child_uri(to.uri(), prefix)));
  }
  for (std::size_t i = suspects.size(); i < marked->size(); ++i) {
    if ((*marked)[i] == token) continue;
    return error(errc::unsupported,
                 fmt::format("'{}' may be part of the source, which has an equal document, and its store does not keep "
                             "the object '{}' that would show it: remove the node at the destination first",
                             child_uri(to.uri(), prefix), looked_for[i].key));
  }
  return {};
}

}  // namespace penstock::inline v0
