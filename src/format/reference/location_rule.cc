#include "format/reference/location_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace penstock::inline v0 {
namespace {

// File systems that reach other machines only. `git`, `dir`, `dask`, `reference`, `generic`, `dvc`, `lfs` and `memory`
// are missing on purpose: they read local files, this process, or documents that name further locations.
constexpr std::array<std::string_view, 39> kNetwork = {
    "abfs",    "abfss",  "adl",  "az",      "azure", "box",  "dbfs",  "dropbox", "ftp",    "ftps",
    "gcs",     "gdrive", "gist", "github",  "gs",    "hdfs", "hf",    "http",    "https",  "jlab",
    "jupyter", "lakefs", "oci",  "ocilake", "oss",   "r2",   "root",  "s3",      "s3a",    "sftp",
    "smb",     "ssh",    "tos",  "tosfs",   "wandb", "wasb", "wasbs", "webdav",  "webhdfs"};
// File systems that read what the rest of a chain names.
constexpr std::array<std::string_view, 6> kWrappers = {"blockcache", "cached", "filecache", "libarchive", "tar", "zip"};
constexpr std::string_view kSimpleCache = "simplecache";
constexpr std::array<std::string_view, 3> kLocal = {"file", "local", "asynclocal"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool is_wrapper(std::string_view scheme) { return scheme == kSimpleCache || is_one_of(kWrappers, scheme); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The scheme of each link of a chain, the outermost first; empty for a link without one.
std::vector<std::string> schemes_of(std::string_view location) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = location.find("::");
    const std::string_view link = location.substr(0, end);
    const std::size_t colon = link.find("://");
    if (colon != std::string_view::npos)
      out.push_back(lower(link.substr(0, colon)));
    else
      out.push_back(is_wrapper(lower(link)) ? lower(link) : std::string());
    if (end == std::string_view::npos) return out;
    location.remove_prefix(end + 2);
  }
}

}  // namespace

bool is_local_location(std::string_view location) {
  std::vector<std::string> outer = schemes_of(location);
  const std::string last = std::move(outer.back());
  outer.pop_back();
  if (outer.empty() && (last.empty() || last == "zip" || last == "tar" || last == "libarchive")) return true;
  const std::size_t chain = location.rfind("::");
  const std::string_view end = chain == std::string_view::npos ? location : location.substr(chain + 2);
  return (is_one_of(kLocal, last) || (last.empty() && !end.empty())) &&
         std::all_of(outer.begin(), outer.end(), [](const std::string& each) { return is_wrapper(each); });
}

bool is_network_location(std::string_view location) {
  std::vector<std::string> outer = schemes_of(location);
  const std::string last = std::move(outer.back());
  outer.pop_back();
  return is_one_of(kNetwork, last) && std::all_of(outer.begin(), outer.end(), [](const std::string& each) {
           return is_wrapper(each) || is_one_of(kNetwork, each);
         });
}

location_rule location_rule::of_stored(std::string uri, std::optional<bool> allow_local) {
  const bool local = uri.starts_with("file://") || uri.starts_with("zip://");
  return {std::move(uri), allow_local.value_or(local), {}};
}

bool location_rule::may_name_local() const { return allow_local ? *allow_local : is_local_location(document); }

result<> location_rule::check(std::string_view location, std::string_view name) const {
  if (may_name_local() || is_network_location(location) || expected.contains(location)) return {};
  const std::vector<std::string> schemes = schemes_of(location);
  const bool local = is_local_location(location);
  // The same file system, such as memory://.
  if (!local && !schemes.back().empty() && schemes.back() != "reference" && schemes == schemes_of(document)) return {};
  return error(
      errc::unsupported,
      fmt::format(
          "the document '{}' names '{}', {}: open it with allow_local=True (the program: --allow-local) if it may "
          "name local files",
          document, name, local ? "a file of this machine" : "which is not a location that is known to be remote"));
}

}  // namespace penstock::inline v0
