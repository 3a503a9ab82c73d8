// The files that a caller names by a pattern, a folder or a list, and their format.
#include "driver/found_shards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "driver/complaints.h"
#include "driver/drivers.h"
#include "driver/registry.h"
#include "driver/schemes.h"
#include "driver/shard_endings.h"
#include "store/names_sink.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kPatternLetters = "*?[";
constexpr std::size_t kPlacesNamed = 5;

bool has_scheme(std::string_view name) noexcept { return name.find("://") != std::string_view::npos; }

/// The pattern that matches only `name`.
std::string literal_pattern(std::string_view name) {
  std::string out;
  for (const char each : name) {
    if (kPatternLetters.find(each) != std::string_view::npos) {
      out += fmt::format("[{}]", each);
    } else {
      if (each == '\\') out.push_back(each);
      out.push_back(each);
    }
  }
  return out;
}

std::string prefix_below(std::string_view folder) { return folder.empty() ? std::string() : std::string(folder) + "/"; }

class child_endings final : public names_sink {
 public:
  child_endings(std::size_t skipped, std::string_view format) : skipped_(skipped), format_(format) {}
  bool key(std::string_view key, std::uint64_t) override {
    key.remove_prefix(std::min(skipped_, key.size()));
    while (key.ends_with('/')) key.remove_suffix(1);
    if (key.starts_with('.')) return true;
    std::string ending = lower_ending(key);
    if (takes(ending)) found.insert(std::move(ending));
    return true;
  }
  bool takes(std::string_view ending) const {
    const std::string_view its = format_of_ending(ending);
    if (its.empty()) return false;
    return format_.empty() || its == format_ || (format_ == "parquet" && its == "arrow");
  }
  std::set<std::string> found;

 private:
  std::size_t skipped_;
  std::string_view format_;
};

/// The pattern of a folder's files, which share one ending in upper or lower case.
result<std::string> pattern_of_folder(const store& from, const std::string& prefix, std::string_view format,
                                      std::string_view folder) {
  child_endings sink(prefix.size(), format);
  PENSTOCK_TRY(from.list(prefix, listing::children, sink));
  if (sink.found.size() == 1) {
    std::string out = "*.";
    for (const char each : *sink.found.begin()) {
      if (each >= 'a' && each <= 'z')
        out += fmt::format("[{}{}]", each, static_cast<char>(each - 'a' + 'A'));
      else
        out.push_back(each);
    }
    return out;
  }
  if (sink.found.empty()) {
    std::vector<std::string> known, all;
    for (const shard_ending& each : shard_endings()) {
      all.push_back(fmt::format(".{}", each.ending));
      if (sink.takes(each.ending)) known.push_back(all.back());
    }
    return error(errc::not_found, fmt::format("no files of a known kind ({}) in '{}'",
                                              fmt::join(known.empty() ? all : known, ", "), folder));
  }
  std::vector<std::string> patterns;
  for (const std::string& each : sink.found) patterns.push_back("*." + each);
  return error(errc::invalid_argument, fmt::format("'{}' holds {}: give a pattern, such as '{}/{}'", folder,
                                                   fmt::join(patterns, " and "), folder, patterns.front()));
}

/// An absolute path without `.` and `..`, as Python's `os.path.abspath` makes it.
std::string absolute_path(const std::string& path, const std::filesystem::path& here) {
  const bool is_normal = path.starts_with('/') && !path.ends_with('/') && path.find("//") == std::string::npos &&
                         path.find("/.") == std::string::npos;
  if (is_normal) return path;
  std::string out = (here / path).lexically_normal().string();
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

/// `s3://bucket`; empty: a local path.
std::string_view place_of_name(std::string_view name) {
  const std::size_t scheme = name.find("://");
  return scheme == std::string_view::npos ? std::string_view() : name.substr(0, name.find('/', scheme + 3));
}

result<> check_shard_list(const std::vector<std::string>& names) {
  std::set<std::string_view> places;
  for (const std::string& each : names) places.insert(place_of_name(each));
  if (places.size() > 1) {
    std::vector<std::string> shown;
    for (const std::string_view each : places)
      if (shown.size() < kPlacesNamed) shown.push_back(fmt::format("'{}'", each.empty() ? "this machine" : each));
    return error(errc::unsupported,
                 fmt::format("the files of a list are in one place, these are in {}", fmt::join(shown, ", ")));
  }
  std::unordered_set<std::string_view> seen;
  complaints twice;
  for (const std::string& each : names)
    if (!seen.insert(each).second) twice.add(each.substr(each.rfind('/') + 1), "was given before");
  if (twice.any()) return twice.make(errc::invalid_argument, "are given twice", names.size());
  return {};
}

/// The length of the folder that contains all names, without its '/'.
std::size_t common_folder(const std::vector<std::string>& names) {
  std::size_t size = names.front().rfind('/');
  if (size == std::string::npos) return 0;
  for (const std::string& each : names) {
    const std::size_t most = std::min(size, each.size());
    std::size_t same = 0;
    while (same < most && each[same] == names.front()[same]) ++same;
    const bool whole = same == size && same < each.size() && each[same] == '/';
    if (!whole) {
      const std::size_t slash = names.front().rfind('/', same == 0 ? 0 : same - 1);
      size = slash == std::string::npos ? 0 : slash;
    }
  }
  return size;
}

place_options place_options_of(const shard_files_options& options) {
  place_options out;
  out.context = options.context;
  out.remote = options.remote;
  return out;
}

/// The one file or object with that name; nothing if it does not exist.
result<std::optional<found_shards>> find_one_file(const std::string& name, const shard_files_options& options) {
  using found = std::optional<found_shards>;
  if (!has_scheme(name) && added_scheme(name, options.context.get()) == nullptr) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(name, none)) return found();
  } else {
    PENSTOCK_ASSIGN(const place at, find_place(name, place_options_of(options)));
    if (at.path.empty() || at.path.ends_with('/')) return found();
    PENSTOCK_ASSIGN(const std::optional<object_head> head, read_head(*at.store, at.path, 64));
    if (!head) return found();
  }
  PENSTOCK_ASSIGN(found_shards out, find_shards(std::span(&name, 1), options));
  return found(std::move(out));
}

// Whether a file or folder of this machine has this name, which may have brackets: `lr[0.1]`.
bool exists_here(std::string_view name) {
  std::error_code none;
  return name.find('[') != std::string_view::npos && !has_scheme(name) &&
         std::filesystem::exists(std::filesystem::path(name), none);
}

}  // namespace

bool is_shard_pattern(std::string_view name) noexcept {
  return name.find_first_of(kPatternLetters) != std::string_view::npos;
}

std::string found_shards::name(std::size_t which) const {
  const std::string_view key = std::string_view(keys[which]).substr(below.empty() ? 0 : below.size() + 1);
  if (folder == ".") return std::string(key);
  std::string_view base = folder;
  while (base.ends_with('/')) base.remove_suffix(1);
  return base.empty() && folder != "/" ? std::string(key) : fmt::format("{}/{}", base, key);
}

shard_names split_shard_names(std::string_view files) {
  const std::size_t wild = files.find_first_of(kPatternLetters);
  if (wild == std::string_view::npos || exists_here(files)) return {std::string(files), {}, {}};
  const std::size_t slash = files.substr(0, wild).rfind('/');
  if (slash == std::string_view::npos) return {".", {}, std::string(files)};
  return {slash == 0 ? "/" : std::string(files.substr(0, slash)), {}, std::string(files.substr(slash + 1))};
}

result<shard_names> split_shard_names(std::span<const std::string> files) {
  if (files.empty()) return error(errc::invalid_argument, "the list of files is empty");
  std::error_code failed;
  const std::filesystem::path here = std::filesystem::current_path(failed);
  shard_names out;
  out.names.reserve(files.size());
  for (std::string each : files) {
    while (has_scheme(each) && each.ends_with('/')) each.pop_back();
    out.names.push_back(has_scheme(each) ? std::move(each) : absolute_path(each, here));
  }
  PENSTOCK_TRY(check_shard_list(out.names));
  const std::size_t size = common_folder(out.names);
  out.folder = size == 0 ? "/" : out.names.front().substr(0, size);
  for (std::string& each : out.names) each.erase(0, size + 1);
  return out;
}

result<found_shards> find_in_folder(shard_names what, place at, std::string_view format, shard_gaps gaps) {
  found_shards out{std::move(at.store), {}, std::move(what.folder), std::move(at.path)};
  const std::string prefix = prefix_below(out.below);
  if (!what.names.empty()) {
    out.keys = std::move(what.names);
    if (!prefix.empty())
      for (std::string& each : out.keys) each.insert(0, prefix);
    return out;
  }
  if (what.pattern.empty()) {
    PENSTOCK_ASSIGN(what.pattern, pattern_of_folder(*out.from, prefix, format, out.folder));
  }
  PENSTOCK_ASSIGN(out.keys, find_shards(*out.from, literal_pattern(prefix) + what.pattern, gaps));
  return out;
}

result<found_shards> find_shards(std::string_view files, const shard_files_options& options) {
  PENSTOCK_ASSIGN(const std::string name, local_path_of(files));
  if (!is_shard_pattern(name) || exists_here(name)) {
    PENSTOCK_ASSIGN(std::optional<found_shards> one, find_one_file(name, options));
    if (one) return std::move(*one);
  }
  shard_names what = split_shard_names(name);
  PENSTOCK_ASSIGN(place at, find_place(what.folder, place_options_of(options)));
  return find_in_folder(std::move(what), std::move(at), options.format, options.gaps);
}

result<found_shards> find_shards(std::span<const std::string> files, const shard_files_options& options) {
  std::vector<std::string> local(files.begin(), files.end());
  for (std::string& each : local) {
    PENSTOCK_ASSIGN(each, local_path_of(each));
  }
  PENSTOCK_ASSIGN(shard_names what, split_shard_names(std::span<const std::string>(local)));
  PENSTOCK_ASSIGN(place at, find_place(what.folder, place_options_of(options)));
  return find_in_folder(std::move(what), std::move(at), options.format, options.gaps);
}

std::shared_ptr<const format_driver> driver_of_first(const found_shards& of, const context& with) {
  std::error_code none;
  const std::string first = of.name(0);
  if (has_scheme(first) || !std::filesystem::is_regular_file(first, none)) return nullptr;
  const auto head = read_head(*of.from, of.keys.front());
  return head.ok() && *head ? driver_of(with, **head, of.keys.front()) : nullptr;
}

result<std::string> shard_format(const found_shards& of, const penstock::context& with) {
  const std::string first = lower_ending(of.keys.front());
  const std::string_view named = format_of_ending(first);
  if (named == "npy" || named == "raw") return std::string(named);
  bool hdf5 = true, tables = true, alike = true, classic = true;
  for (const std::string& each : of.keys) {
    const std::string ending = lower_ending(each);
    const std::string_view format = format_of_ending(ending);
    hdf5 = hdf5 && format == "hdf5";
    tables = tables && (format == "parquet" || format == "arrow");
    classic = classic && ending == "nc";
    alike = alike && ending == first;
  }
  if (has_scheme(of.name(0))) {
    if (classic) {
      PENSTOCK_ASSIGN(const std::optional<object_head> head, read_head(*of.from, of.keys.front(), 8));
      if (head && driver_of(with, *head, of.keys.front()).get() == &netcdf_driver()) return std::string("other");
    }
    return std::string(hdf5 ? "hdf5" : tables ? "parquet" : "other");
  }
  if (!alike && !hdf5) return std::string("other");
  const auto driver = driver_of_first(of, with);
  if (driver == nullptr) return std::string(named == "hdf5" || first == "parquet" ? named : "other");
  const std::string_view name = driver->name();
  return std::string(name == hdf5_driver().name() ? "hdf5" : name == table_driver().name() ? "parquet" : "other");
}

}  // namespace penstock::inline v0
