#include "driver/hdf5_sources.h"

#include <fmt/format.h>
#include <penstock/place.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/checked.h"
#include "base/counted.h"
#include "driver/compose_references.h"
#include "driver/for_each_file.h"
#include "driver/open_hdf5.h"
#include "driver/zarr_nodes.h"
#include "format/hdf5/hdf5_values.h"
#include "format/hdf5/hdf5_virtual.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostLevels = 8;
constexpr std::uint64_t kMostSources = 100'000;
/// The most contiguous runs in the ranges of all mappings: a few bytes of a file may describe a very large number.
constexpr std::uint64_t kMostRuns = std::uint64_t{1} << 22;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// The folders in the environment variable, each with a '/' at the end.
std::vector<std::string> prefixes(hdf5_purpose why, const std::string& folder) {
  constexpr std::string_view kOrigin = "${ORIGIN}";
  const char* const name = why == hdf5_purpose::source ? "HDF5_VDS_PREFIX"
                           : why == hdf5_purpose::link ? "HDF5_EXT_PREFIX"
                                                       : "HDF5_EXTFILE_PREFIX";
  const char* const value = std::getenv(name);
  std::vector<std::string> out;
  for (std::string_view left = value == nullptr ? "" : value; !left.empty();) {
    const std::size_t end = std::min(left.find(':'), left.size());
    std::string each(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    if (each.starts_with(kOrigin)) each.replace(0, kOrigin.size(), folder);
    if (!each.empty()) out.push_back(each + "/");
  }
  return out;
}

}  // namespace

bool hdf5_neighbours::knows_others() const {
  const std::string uri = of_.from->uri();
  return is_local() || uri.starts_with("http") || uri.starts_with("s3:") || uri.starts_with("gs:");
}

result<hdf5_file_place> hdf5_neighbours::of_path(const std::string& path) {
  hdf5_file_place out;
  out.path = std::filesystem::absolute(path).lexically_normal().string();
  place_options how;
  how.is_file = true;
  PENSTOCK_ASSIGN(place found, find_place(out.path, how));
  out.from = std::move(found.store);
  out.key = std::move(found.path);
  return out;
}

result<hdf5_file_place> hdf5_neighbours::in_store(const std::string& name) const {
  const auto refuse = [&](std::string_view why) {
    return error(errc::unsupported, fmt::format("the file names '{}', {}", hdf5_text(name), why));
  };
  if (name.find("://") != std::string::npos || name.starts_with('/')) return refuse("which is not in the same store");
  const std::filesystem::path key = (std::filesystem::path(of_.key).parent_path() / name).lexically_normal();
  if (key.empty() || *key.begin() == "..") return refuse("which is outside of its store");
  return hdf5_file_place{of_.from, key.generic_string(), {}};
}

result<std::optional<hdf5_file_place>> hdf5_neighbours::find(const std::string& name, hdf5_purpose why) const {
  if (name == ".") return std::optional(of_);
  if (!is_local()) {
    PENSTOCK_ASSIGN(hdf5_file_place made, in_store(name));
    return std::optional(std::move(made));
  }
  const std::filesystem::path folder = std::filesystem::path(of_.path).parent_path(), named(name);
  std::vector<std::string> candidates;
  if (!named.is_absolute())
    for (const std::string& each : prefixes(why, folder.string())) candidates.push_back(each + name);
  candidates.push_back((folder / named).string());
  candidates.push_back(name);
  if (named.is_absolute()) candidates.push_back((folder / named.filename()).string());
  for (const std::string& each : candidates) {
    if (!is_file(each)) continue;
    PENSTOCK_ASSIGN(hdf5_file_place made, of_path(each));
    return std::optional(std::move(made));
  }
  return std::optional<hdf5_file_place>();
}

result<hdf5_file_place> hdf5_neighbours::find_external(const std::string& name) const {
  if (!is_local()) return in_store(name);
  const std::string folder = std::filesystem::path(of_.path).parent_path().string();
  if (!std::filesystem::path(name).is_absolute())
    for (const std::string& each : prefixes(hdf5_purpose::values, folder))
      if (is_file(each + name)) return of_path(each + name);
  if (is_file(name)) return of_path(name);
  return of_path((std::filesystem::path(of_.path).parent_path() / name).string());
}

// Two stores of one local folder are different objects.
hdf5_known_sources::name hdf5_known_sources::name_of(const hdf5_file_place& file, const std::string& path) {
  return file.path.empty() ? name(file.from.get(), file.key, path) : name(nullptr, file.path, path);
}

std::optional<hdf5_known_sources::source> hdf5_known_sources::find(const hdf5_file_place& file,
                                                                   const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(name_of(file, path));
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void hdf5_known_sources::add(const hdf5_file_place& file, const std::string& path, source found) {
  const std::lock_guard lock(mutex_);
  known_.try_emplace(name_of(file, path), std::move(found));
}

result<hdf5_depth> hdf5_depth::deeper(std::uint64_t count) const {
  hdf5_depth out = *this;
  ++out.level;
  if (out.level > kMostLevels)
    return error(errc::unsupported,
                 fmt::format("virtual HDF5 datasets that show each other through more than {} levels are not readable",
                             kMostLevels));
  if (out.sources->fetch_add(count) + count > kMostSources)
    return error(errc::unsupported,
                 fmt::format("virtual HDF5 datasets of more than {} sources are not readable", kMostSources));
  return out;
}

namespace {

using shape_list = std::vector<std::uint64_t>;

/// A dataset by the names of its file and its path, as in mappings.
using source_name = std::pair<std::string, std::string>;

class virtual_reader {
 public:
  virtual_reader(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner, const hdf5_file_place& self,
                 context& with, const hdf5_depth& depth, const describe_hdf5_sources& describe)
      : like_(std::move(like)),
        parts_(std::move(parts)),
        inner_(inner),
        neighbours_(self),
        self_(self),
        with_(with),
        depth_(depth),
        describe_(describe) {}

  result<referenced_array> read() && {
    PENSTOCK_ASSIGN(const hdf5_shown_parts found, find());
    return compose_references(std::move(like_), found.parts);
  }

  result<hdf5_shown_parts> find() {
    PENSTOCK_TRY(find_named());
    for (const hdf5_mapping& each : parts_.mappings) {
      auto added = add(each);
      if (!added.ok())
        return std::move(added).error().note(fmt::format("mapping of '{}' in '{}'", hdf5_text(each.dataset),
                                                         each.file == "." ? "this file" : hdf5_text(each.file)));
    }
    hdf5_shown_parts out;
    PENSTOCK_ASSIGN(const shape_list shape, final_shape());
    out.shape = extents(std::span<const std::uint64_t>(shape));
    const extents& all = like_.metadata.shape;
    for (std::size_t d = shape.size(); d < all.size(); ++d) out.shape.push_back(all[d]);
    std::uint64_t count = 0;
    for (const pair& each : pairs_) {
      const shape_list theirs = outer_shape(*each.source);
      if (!has_inner_axes(*each.source))
        return error(errc::unsupported,
                     fmt::format("mapping of {}: its elements are arrays of another shape", each.name));
      auto matched = match_hdf5_selections(each.to, shape, each.from, theirs);
      if (!matched.ok()) return std::move(matched).error().note(fmt::format("mapping of {}", each.name));
      for (hdf5_part& part : *matched) {
        for (const auto& runs : part.runs) count += runs.size();
        if (count > kMostRuns)
          return error(errc::unsupported,
                       fmt::format("virtual HDF5 datasets of more than {} runs are not readable", kMostRuns));
        with_inner_axes(part, *each.source, theirs.size());
        out.parts.push_back({each.source, std::move(part), each.name});
      }
    }
    return out;
  }

 private:
  /// Selections of the dataset and of a source, both with limits.
  struct pair {
    std::shared_ptr<const referenced_array> source;
    hdf5_selection to, from;
    std::string name;
  };

  // Resolves mappings that name their sources directly, many files at once.
  result<> find_named() {
    std::map<std::string, std::vector<std::string>> files;
    for (const hdf5_mapping& each : parts_.mappings) {
      if (is_pattern(each)) continue;
      std::vector<std::string>& datasets = files[hdf5_block_name(each.file, 0)];
      datasets.push_back(hdf5_block_name(each.dataset, 0));
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> all(files.begin(), files.end());
    std::uint64_t count = 0;
    for (auto& [file, datasets] : all) {
      std::sort(datasets.begin(), datasets.end());
      datasets.erase(std::unique(datasets.begin(), datasets.end()), datasets.end());
      count += datasets.size();
    }
    PENSTOCK_ASSIGN(below_, depth_.deeper(count));
    std::vector<std::optional<result<std::vector<std::shared_ptr<const referenced_array>>>>> made(all.size());
    const auto work = [&](std::size_t i) { made[i] = read_file(all[i].first, all[i].second); };
    // Deeper levels already run on a thread of the pool, and use only that one.
    if (depth_.level == 0)
      for_each_file(all.size(), *self_.from, with_, work);
    else
      for (std::size_t i = 0; i < all.size() && (i == 0 || made[i - 1]->ok()); ++i) work(i);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!made[i]->ok())
        return std::move(*made[i]).error().note(fmt::format("sources in '{}'", hdf5_text(all[i].first)));
      for (std::size_t k = 0; k < all[i].second.size(); ++k)
        sources_[{all[i].first, all[i].second[k]}] = std::move((**made[i])[k]);
    }
    return {};
  }

  result<std::vector<std::shared_ptr<const referenced_array>>> read_file(
      const std::string& file, const std::vector<std::string>& datasets) const {
    PENSTOCK_ASSIGN(const auto place, neighbours_.find(file, hdf5_purpose::source));
    if (!place) return std::vector<std::shared_ptr<const referenced_array>>(datasets.size());
    auto made = describe_(*place, datasets, below_);
    if (made.ok() || made.error().code() != errc::not_found) return made;
    if (!neighbours_.knows_others())
      return error(errc::unsupported,
                   fmt::format("a virtual HDF5 dataset shows '{}', which was not found in the store of its file: open "
                               "the file by a path or a URI",
                               hdf5_text(file)));
    return std::vector<std::shared_ptr<const referenced_array>>(datasets.size());
  }

  static bool is_pattern(const hdf5_mapping& each) {
    return unlimited_axis(each.to) && !unlimited_axis(each.from) &&
           (is_hdf5_pattern(each.file) || is_hdf5_pattern(each.dataset));
  }

  result<> add(const hdf5_mapping& each) {
    const auto along = unlimited_axis(each.to), theirs = unlimited_axis(each.from);
    if (is_pattern(each)) return add_blocks(each, *along);
    const source_name name{hdf5_block_name(each.file, 0), hdf5_block_name(each.dataset, 0)};
    const std::shared_ptr<const referenced_array>& source = sources_[name];
    if (along.has_value() != theirs.has_value())
      return hdf5_damaged("one selection of a mapping has a limit, the other does not");
    if (!along) {
      note_ends(each.to, std::nullopt);
      if (source) pairs_.push_back({source, each.to, each.from, spell(name)});
      return {};
    }
    if (each.to.axes.size() != parts_.shape.extents.size())
      return hdf5_damaged(fmt::format("a mapping selects in {}, the dataset has {}",
                                      counted(each.to.axes.size(), "dimension"), parts_.shape.extents.size()));
    note_ends(each.to, along);
    if (!source) return {};
    const shape_list shape = outer_shape(*source);
    if (each.from.axes.size() != shape.size())
      return hdf5_damaged(fmt::format("a mapping selects in {}, the source has {}",
                                      counted(each.from.axes.size(), "dimension"), shape.size()));
    const std::uint64_t positions = hdf5_positions_below(each.from.axes[*theirs], shape[*theirs]);
    grow(*along, hdf5_extent_for(each.to.axes[*along], positions));
    pairs_.push_back({source, limit_hdf5_selection(each.to, *along, positions),
                      limit_hdf5_selection(each.from, *theirs, positions), spell(name)});
    return {};
  }

  // One source for each block, until one does not exist.
  result<> add_blocks(const hdf5_mapping& each, std::size_t along) {
    if (each.to.axes.size() != parts_.shape.extents.size() || each.to.axes[along].block == byte_range::kAll)
      return hdf5_damaged("a mapping of a pattern of names has no blocks of the dataset");
    note_ends(each.to, along);
    for (std::uint64_t number = 0;; ++number) {
      if (each.to.axes[along].count != byte_range::kAll && number >= each.to.axes[along].count) return {};
      const source_name name{hdf5_block_name(each.file, number), hdf5_block_name(each.dataset, number)};
      PENSTOCK_TRY(depth_.deeper(1));
      PENSTOCK_ASSIGN(auto found, read_file(name.first, {name.second}));
      if (!found[0]) return {};
      const hdf5_selection to = hdf5_block(each.to, along, number);
      grow(along, saturating_add(to.axes[along].start, to.axes[along].block));
      pairs_.push_back({std::move(found[0]), to, each.from, spell(name)});
    }
  }

  static std::string spell(const source_name& name) {
    return name.first == "." ? fmt::format("'{}'", hdf5_text(name.second))
                             : fmt::format("'{}' in '{}'", hdf5_text(name.second), hdf5_text(name.first));
  }

  // Along dimensions without a limit, the dataset is at least as long as the ranges that mappings with a limit show.
  void note_ends(const hdf5_selection& to, std::optional<std::size_t> but) {
    const shape_list ends = hdf5_ends(to, parts_.shape.extents);
    least_.resize(parts_.shape.extents.size(), 0);
    for (std::size_t d = 0; d < least_.size(); ++d)
      if (!but || d != *but) least_[d] = std::max(least_[d], ends[d]);
  }

  void grow(std::size_t d, std::uint64_t extent) {
    grown_.resize(parts_.shape.extents.size());
    grown_[d] = std::max(grown_[d].value_or(0), extent);
  }

  // \error corrupt_data, unsupported  The shape in `like_` cannot be replaced.
  result<shape_list> final_shape() {
    shape_list shape = parts_.shape.extents;
    for (std::size_t d = 0; d < grown_.size(); ++d) {
      if (!grown_[d]) continue;
      shape[d] = std::max(*grown_[d], least_[d]);
      if (d < parts_.shape.most.size()) shape[d] = std::min(shape[d], parts_.shape.most[d]);
    }
    if (shape == parts_.shape.extents) return shape;
    for (auto& [name, text] : like_.documents) {
      if (name != ".zarray") continue;
      PENSTOCK_ASSIGN(const json document, json::parse(text));
      json::object_t made;
      for (const auto& [member, value] : *document.as_object()) {
        if (member != "shape" && member != "chunks") {
          made.emplace_back(member, value);
          continue;
        }
        json::array_t lengths = *value.as_array();
        for (std::size_t d = 0; d < shape.size(); ++d)
          lengths[d] = json(member == "shape" ? shape[d] : std::max<std::uint64_t>(shape[d], 1));
        made.emplace_back(member, std::move(lengths));
      }
      text = json(std::move(made)).dump();
    }
    PENSTOCK_ASSIGN(like_.metadata, parse_array_documents(like_.documents));
    return shape;
  }

  shape_list outer_shape(const referenced_array& source) const {
    const extents& all = source.metadata.shape;
    return {all.begin(), all.end() - static_cast<std::ptrdiff_t>(std::min(inner_, all.size()))};
  }

  bool has_inner_axes(const referenced_array& source) const {
    const extents &mine = like_.metadata.shape, &theirs = source.metadata.shape;
    return theirs.size() >= inner_ && mine.size() >= inner_ &&
           std::equal(theirs.end() - static_cast<std::ptrdiff_t>(inner_), theirs.end(),
                      mine.end() - static_cast<std::ptrdiff_t>(inner_));
  }

  // Dimensions within the elements are the same in both.
  void with_inner_axes(hdf5_part& part, const referenced_array& source, std::size_t theirs) const {
    for (std::size_t i = 0; i < inner_; ++i) {
      part.origin.push_back(0);
      part.axes.emplace_back(theirs + i);
      part.runs.push_back({{0, 0, source.metadata.shape[theirs + i]}});
    }
  }

  referenced_array like_;
  hdf5_array::virtual_parts parts_;
  std::size_t inner_;
  hdf5_neighbours neighbours_;
  const hdf5_file_place& self_;
  context& with_;
  const hdf5_depth& depth_;
  const describe_hdf5_sources& describe_;
  hdf5_depth below_;
  std::map<source_name, std::shared_ptr<const referenced_array>> sources_;
  std::vector<pair> pairs_;
  shape_list least_;
  std::vector<std::optional<std::uint64_t>> grown_;
};

}  // namespace

result<referenced_array> compose_virtual(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner,
                                         const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                         const describe_hdf5_sources& describe) {
  return virtual_reader(std::move(like), std::move(parts), inner, self, with, depth, describe).read();
}

result<hdf5_shown_parts> find_shown_parts(referenced_array like, hdf5_array::virtual_parts parts, std::size_t inner,
                                          const hdf5_file_place& self, context& with, const hdf5_depth& depth,
                                          const describe_hdf5_sources& describe) {
  return virtual_reader(std::move(like), std::move(parts), inner, self, with, depth, describe).find();
}

}  // namespace penstock::inline v0
