// Files that a caller names, as one array.
#include "api/open_shard_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/datasets.h>
#include <penstock/find_shards.h>
#include <penstock/joined.h>
#include "base/counted.h"
#include "driver/complaints.h"
#include "driver/drivers.h"
#include "driver/for_each_file.h"
#include "driver/found_shards.h"
#include "driver/registry.h"
#include "driver/schemes.h"
#include "driver/shard_endings.h"

namespace penstock::inline v0 {
namespace {

result<shard_files_options> with_context(const shard_files_options& given) {
  shard_files_options out = given;
  if (!out.context) {
    PENSTOCK_ASSIGN(out.context, context::make());
  }
  return out;
}

open_options open_options_of(const shard_files_options& options) {
  open_options out;
  out.context = options.context;
  out.path = options.path;
  out.remote = options.remote;
  out.allow_local = options.allow_local;
  return out;
}

/// All of one file of this kind, opened in parallel. The error names the first five that cannot be opened.
result<std::vector<array>> open_each(const found_shards& found, context& with,
                                     const std::function<result<array>(std::size_t)>& open_it) {
  std::vector<std::optional<result<array>>> opened(found.keys.size());
  for_each_file(found.keys.size(), *found.from, with, [&](std::size_t i) { opened[i] = open_it(i); });
  std::vector<array> out;
  complaints failed;
  const error* first = nullptr;
  for (std::size_t i = 0; i < opened.size(); ++i) {
    if (opened[i]->ok()) {
      out.push_back(std::move(**opened[i]));
    } else {
      if (first == nullptr) first = &opened[i]->error();
      failed.add(found.name(i), opened[i]->error().message());
    }
  }
  if (first != nullptr) return failed.make(first->code(), "cannot be read", opened.size());
  return out;
}

std::string array_text(const array& of) { return fmt::format("{} {}", of.type().name(), to_string(of.shape())); }

/// Joins arrays of files in order.
/// \param axis  As the caller counts.
result<array> join_files(const found_shards& found, const std::vector<array>& parts, std::int64_t axis,
                         const std::shared_ptr<context>& with) {
  complaints scalars, others;
  const extents& first = parts.front().shape();
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].shape().empty()) scalars.add(found.name(i), "a scalar has no axis to join along");
  if (scalars.any()) return scalars.make(errc::invalid_argument, "are scalars", parts.size());
  const auto rank = static_cast<std::int64_t>(first.size());
  if (axis < -rank || axis >= rank)
    return error(errc::invalid_argument,
                 fmt::format("axis {} is out of range for arrays with {}", axis, counted(rank, "dimension")));
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    extents shape = parts[i].shape();
    if (shape.size() == first.size()) shape[along] = first[along];
    if (shape != first || parts[i].type() != parts.front().type()) others.add(found.name(i), array_text(parts[i]));
  }
  if (others.any()) {
    return others.make(errc::invalid_argument,
                       fmt::format("do not match '{}', {}", found.name(0), array_text(parts.front())), parts.size());
  }
  return join(parts, along, with);
}

shard_options items_of(const shard_files_options& options) {
  shard_options out;
  out.context = options.context;
  out.axis = options.axis;
  return out;
}

/// `.npy` files. Those of both item orders are joined, because one layout cannot describe them.
result<array> open_npy_files(const found_shards& found, const shard_files_options& options) {
  result<array> made = open_shards(found.from, found.keys, items_of(options));
  if (made.ok() || made.error().code() != errc::unsupported) return made;
  shard_options alone;
  alone.context = options.context;
  auto parts = open_each(found, *options.context,
                         [&](std::size_t i) { return open_contiguous(found.from, found.keys[i], alone); });
  if (!parts.ok()) return made;
  const bool order = shard_items(parts->front()).fortran_order;
  if (std::all_of(parts->begin(), parts->end(), [&](const array& a) { return shard_items(a).fortran_order == order; }))
    return made;
  return join_files(found, *parts, options.axis, options.context);
}

result<array> open_raw_files(const found_shards& found, const shard_files_options& options) {
  shard_options how = items_of(options);
  PENSTOCK_ASSIGN(how.raw, describe_raw_shards(found, options.axis, options.raw, options.context));
  return open_shards(found.from, found.keys, how);
}

result<array> open_hdf5_files(const found_shards& found, const shard_files_options& options) {
  dataset_options how;
  how.context = options.context;
  how.dataset = options.path;
  how.axis = options.axis;
  how.gaps = options.gaps;
  return open_datasets(found.from, found.keys, how);
}

/// Files that `open` opens one by one.
result<array> open_other_files(const found_shards& found, const shard_files_options& options) {
  const open_options how = open_options_of(options);
  PENSTOCK_ASSIGN(const std::vector<array> parts,
                  open_each(found, *options.context, [&](std::size_t i) { return open_array(found.name(i), how); }));
  for (const array& each : parts) {
    const bool is_asked = options.format.empty() || each.format().starts_with(options.format);
    if (!is_asked)
      return error(errc::invalid_argument, fmt::format("the files are {}, not {}", each.format(), options.format));
  }
  return join_files(found, parts, options.axis, options.context);
}

/// The format that the caller gives, or the format of the files.
result<std::string> format_for(const found_shards& found, const shard_files_options& options) {
  static constexpr std::string_view kFormats[] = {"npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff"};
  if (!options.format.empty()) {
    if (std::find(std::begin(kFormats), std::end(kFormats), options.format) == std::end(kFormats)) {
      return error(
          errc::unsupported,
          fmt::format("format must be npy, raw, hdf5, parquet, arrow, zarr or tiff, got '{}'", options.format));
    }
    return options.format;
  }
  PENSTOCK_ASSIGN(std::string format, shard_format(found, *options.context));
  if (options.raw.dtype.empty() || format == "raw") return format;
  const std::string_view named = format_of_ending(lower_ending(found.keys.front()));
  const auto driver = driver_of_first(found, *options.context);
  if (format == "other" && named.empty() && driver == nullptr) return std::string("raw");
  return error(errc::invalid_argument,
               fmt::format("'{}' has format {}, but a dtype is for raw files: set the format to raw", found.name(0),
                           driver != nullptr ? driver->name()
                           : named.empty()   ? format
                                             : named));
}

result<array> open_found_files(const found_shards& found, const shard_files_options& options) {
  PENSTOCK_ASSIGN(const std::string format, format_for(found, options));
  if (!options.path.empty() && (format == "npy" || format == "raw"))
    return error(errc::not_found, fmt::format("{} files contain one array each, not '{}'", format, options.path));
  if (format == "npy") return open_npy_files(found, options);
  if (format == "raw") return open_raw_files(found, options);
  if (format == "hdf5") return open_hdf5_files(found, options);
  if (format == "parquet" || format == "arrow") {
    return error(errc::unsupported,
                 fmt::format("'{}' is a Parquet or Arrow file: the Python package joins such files", found.name(0)));
  }
  return open_other_files(found, options);
}

/// The array of a manifest, if the one file that was found is one; else nullopt.
result<std::optional<array>> open_as_manifest(const found_shards& found, const shard_files_options& options) {
  PENSTOCK_ASSIGN(const std::optional<object_head> head, read_head(*found.from, found.keys.front()));
  const auto driver = head ? driver_of(*options.context, *head, found.keys.front()) : nullptr;
  const bool is_one = driver.get() == &manifest_driver() || driver.get() == &references_driver();
  if (!is_one) return std::optional<array>();
  PENSTOCK_ASSIGN(array out, open_array(found.name(0), open_options_of(options)));
  return std::optional<array>(std::move(out));
}

/// A pattern of files, and a path within each of them.
struct split_pattern {
  std::string files, inner;
};

/// Splits a pattern after the first component that names a file or is a pattern of files: `run/x_*.h5` and `group/set`.
split_pattern split_at_files(const std::string& pattern) {
  for (std::size_t end = pattern.find('/'); end != std::string::npos; end = pattern.find('/', end + 1)) {
    const std::string_view name = std::string_view(pattern).substr(0, end);
    const std::string ending = lower_ending(name);
    std::error_code none;
    const bool is_files = is_shard_pattern(name.substr(name.rfind('/') + 1)) ||
                          std::filesystem::is_regular_file(std::filesystem::path(name), none);
    const bool has_parts = is_files && !format_of_ending(ending).empty();
    std::string inner = pattern.substr(end + 1);
    while (inner.ends_with('/')) inner.pop_back();
    // In other formats, each component of a name may be a pattern: arrays of groups are found as files are.
    if (has_parts && !inner.empty() && (format_of_ending(ending) == "hdf5" || !is_shard_pattern(inner)))
      return {std::string(name), std::move(inner)};
  }
  std::string files = pattern;
  while (files.ends_with('/')) files.pop_back();
  return {std::move(files), {}};
}

shard_files_options files_options_of(const open_options& options) {
  shard_files_options out;
  out.context = options.context;
  out.remote = options.remote;
  out.path = options.path;
  out.allow_local = options.allow_local;
  return out;
}

}  // namespace

result<array> open_shards(std::string_view files, const shard_files_options& options) {
  PENSTOCK_ASSIGN(const shard_files_options how, with_context(options));
  PENSTOCK_ASSIGN(const found_shards found, find_shards(files, how));
  if (found.keys.size() == 1 && !is_shard_pattern(files) && how.format.empty()) {
    PENSTOCK_ASSIGN(std::optional<array> one, open_as_manifest(found, how));
    if (one) return std::move(*one);
  }
  return open_found_files(found, how);
}

result<array> open_shards(std::span<const std::string> files, const shard_files_options& options) {
  PENSTOCK_ASSIGN(const shard_files_options how, with_context(options));
  PENSTOCK_ASSIGN(const found_shards found, find_shards(files, how));
  return open_found_files(found, how);
}

result<std::optional<array>> open_pattern(std::string_view uri, const open_options& options) {
  if (!is_shard_pattern(uri)) return std::optional<array>();
  PENSTOCK_ASSIGN(const std::string name, local_path_of(uri));
  const bool remote = is_elsewhere(name) || added_scheme(name, options.context.get()) != nullptr;
  std::error_code failed;
  // In a URL, '?' begins the query, brackets are usually a part of the name, and web servers do not list files.
  if (remote && (name.find('*') == std::string::npos || kind_of_remote(name) == remote_kind::http))
    return std::optional<array>();
  if (!remote && std::filesystem::exists(name, failed)) return std::optional<array>();
  split_pattern split = split_at_files(name);
  shard_files_options how = files_options_of(options);
  if (!split.inner.empty()) how.path = how.path.empty() ? split.inner : split.inner + "/" + how.path;
  PENSTOCK_ASSIGN(array out, open_shards(split.files, how));
  return std::optional<array>(std::move(out));
}

bool is_pattern_within_file(std::string_view uri) {
  const result<std::string> path = local_path_of(uri);
  if (!path.ok()) return false;
  const std::string& name = *path;
  const std::size_t wild = name.find_first_of("*?[");
  if (wild == std::string::npos || is_elsewhere(name)) return false;
  std::error_code failed;
  for (std::size_t slash = name.rfind('/', wild); slash != std::string::npos && slash != 0;
       slash = name.rfind('/', slash - 1)) {
    const std::filesystem::path above = name.substr(0, slash);
    if (std::filesystem::exists(above, failed)) return std::filesystem::is_regular_file(above, failed);
  }
  return false;
}

result<array> open_folder_of_files(std::string_view uri, const open_options& options, error why) {
  const result<std::string> path = local_path_of(uri);
  if (!path.ok()) return why;
  const std::string& name = *path;
  std::error_code failed;
  if (is_elsewhere(name) || added_scheme(name, options.context.get()) != nullptr || !options.path.empty() ||
      is_shard_pattern(name) || !std::filesystem::is_directory(name, failed))
    return why;
  PENSTOCK_ASSIGN(const shard_files_options how, with_context(files_options_of(options)));
  const result<found_shards> found = find_shards(name, how);
  if (!found.ok() || format_of_ending(lower_ending(found->keys.front())) == "zarr") return why;
  result<array> made = open_found_files(*found, how);
  if (made.ok()) return made;
  return std::move(why).note(fmt::format("as a folder of files: {}", made.error().message()));
}

}  // namespace penstock::inline v0
