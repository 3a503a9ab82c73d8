#include <penstock/shard_writer.h>

#include <fmt/format.h>
#include <penstock/extend/json.h>
#include <penstock/open.h>
#include <penstock/shards.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "api/shards/shard_arrays.h"
#include "api/shards/shard_files.h"
#include "array/check_view.h"
#include "base/checked.h"
#include "driver/shard_endings.h"
#include "engine/array_state.h"
#include "format/npy/npy_header.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

/// The sidecar file with the type of raw files, in their folder.
constexpr std::string_view kSidecar = "_meta.json";

bool is_raw(std::string_view suffix) { return format_of_suffix(suffix) == "raw"; }

/// Whether files of a format are written by this library, not by other libraries.
bool is_written(std::string_view format) {
  return format == "npy" || format == "raw" || format == "npz" || format == "zarr" || format == "tiff";
}

std::string written_endings() {
  std::string out;
  for (const shard_ending& each : shard_endings())
    if (is_written(each.format)) out.append(out.empty() ? "." : ", .").append(each.ending);
  return out;
}

/// Whether a shard has this path, also if it is spelled in another way.
bool is_shard(const shard_pattern& pattern, const fs::path& file) {
  const std::string path = file.lexically_normal().string();
  for (std::size_t begin = 0; begin < path.size(); ++begin) {
    for (std::size_t end = begin + 1; end <= path.size(); ++end) {
      std::uint64_t number = 0;
      const auto [last, failed] = std::from_chars(path.data() + begin, path.data() + end, number);
      if (failed != std::errc() || last != path.data() + end) break;
      if (fs::path(pattern.path(number)).lexically_normal() == path) return true;
    }
  }
  return false;
}

result<> put(store& files, const std::string& path, std::span<const part> parts) {
  auto done = files.put(key_of_path(path), parts, {});
  if (!done.ok()) return std::move(done).error().note("writing '" + path + "'");
  return {};
}

}  // namespace

shard_writer::shard_writer(shard_pattern pattern, shard_writer_options options)
    : pattern_(std::move(pattern)), options_(std::move(options)) {
  files_ = open_file_store("/", options_.context->state().options().sync);
}

result<shard_writer> shard_writer::make(std::string_view pattern, shard_writer_options options) {
  PENSTOCK_ASSIGN(shard_pattern parsed, shard_pattern::parse(pattern));
  const std::string suffix = parsed.suffix();
  if (!options.own_format && !is_written(format_of_suffix(suffix)))
    return error(errc::unsupported, fmt::format("shards are written as {}, not as '{}'", written_endings(), suffix));
  if (options.name.empty()) return error(errc::invalid_argument, "the name of an archive's member is empty");
  if (options.manifest && options.manifest->empty())
    return error(errc::invalid_argument, "the name of the manifest is empty");
  if (options.manifest && is_shard(parsed, fs::path(parsed.folder()) / *options.manifest))
    return error(errc::invalid_argument, fmt::format("the manifest has the name of a shard: '{}'", *options.manifest));
  if (!options.context) {
    PENSTOCK_ASSIGN(options.context, context::make());
  }
  return shard_writer(std::move(parsed), std::move(options));
}

bool shard_writer::syncs() const noexcept { return options_.context->state().options().sync != write_sync::none; }

result<std::string> shard_writer::next(const shard_values& values) {
  const extents& shape = values.items.extents;
  if (shape.empty()) return error(errc::invalid_argument, "a shard has at least one dimension");
  if (values.items.space != memory_space::host) return error(errc::invalid_argument, "a shard is not in host memory");
  PENSTOCK_TRY(check_view(values.items, "a shard"));
  std::string descr = values.descr.empty() ? values.items.type.numpy_typestr() : values.descr;
  // Zarr has types that NumPy does not have.
  if (descr.empty() && format_of_suffix(pattern_.suffix()) == "zarr") descr = values.items.type.name();
  if (descr.empty() && !options_.own_format)
    return error(errc::unsupported, fmt::format("items of {} have no type in NumPy", values.items.type.name()));
  if (values.items.type.item_bytes() == 0)
    return error(errc::unsupported, fmt::format("items of {} have no bytes to be written", descr));
  extents trailing;
  for (std::size_t d = 1; d < shape.size(); ++d) trailing.push_back(shape[d]);
  if (!descr_) {
    descr_ = std::move(descr);
    row_shape_ = trailing;
  } else if (*descr_ != descr || !(row_shape_ == trailing)) {
    return error(errc::invalid_argument, fmt::format("the shards so far are {} (*, {}), this one is {} (*, {})",
                                                     *descr_, to_string(row_shape_), descr, to_string(trailing)));
  }
  next_ = pattern_.path(paths_.size());
  const fs::path folder = fs::path(next_).parent_path();
  std::error_code failed;
  if (!folder.empty()) fs::create_directories(folder, failed);
  if (failed) return write_failure(failed.value(), "creating the folder of '" + next_ + "'");
  rows_.resize(paths_.size());
  rows_.push_back(shape[0]);
  return next_;
}

void shard_writer::add(std::uint32_t crc32c) {
  paths_.push_back(std::move(next_));
  checksums_.push_back(crc32c);
}

result<std::string> shard_writer::write(const shard_values& values, const create_options& how) {
  if (!is_array_shard(pattern_.suffix())) return write(values);
  PENSTOCK_ASSIGN(std::string path, next(values));
  const shard_files_context with{options_.context, files_, syncs()};
  PENSTOCK_ASSIGN(const std::uint32_t sum,
                  write_array_shard(with, path, pattern_.suffix(), values, *descr_, how, options_.name));
  add(sum);
  return path;
}

result<std::string> shard_writer::write(const shard_values& values) {
  if (is_array_shard(pattern_.suffix())) {
    create_options how = options_.arrays;
    how.overwrite = true;
    return write(values, how);
  }
  PENSTOCK_ASSIGN(std::string path, next(values));
  const tensor_view& items = values.items;
  PENSTOCK_ASSIGN(std::uint64_t size, element_count(items.extents));
  if (!checked_mul(size, items.type.item_bytes(), size))
    return error(errc::invalid_argument, fmt::format("'{}' would have more than 2^64 bytes", path));
  PENSTOCK_ASSIGN(const items_in_order ordered, in_c_order(items, size, *options_.context));
  std::string header;
  if (!is_raw(pattern_.suffix())) {
    PENSTOCK_ASSIGN(const std::string descr, python_descr(*descr_));
    header = write_npy_header(descr, storage_order::c, items.extents);
  }
  const part parts[] = {std::as_bytes(std::span(header)), ordered.bytes};
  PENSTOCK_TRY(put(*files_, path, parts));
  add(file_crc32c(parts[1], file_crc32c(parts[0])));
  return path;
}

result<> shard_writer::write_sidecars() const {
  std::map<std::string, json::object_t> rows;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const fs::path path(paths_[i]);
    rows[path.parent_path().string()].emplace_back(path.filename().string(), json(rows_[i]));
  }
  json descr(*descr_);
  if (descr_->starts_with('[')) {
    PENSTOCK_ASSIGN(descr, json::parse(*descr_));
  }
  json::array_t row_shape;
  for (const std::uint64_t length : row_shape_) row_shape.emplace_back(length);
  for (auto& [folder, of_files] : rows) {
    const json document(
        json::object_t{{"dtype", descr}, {"row_shape", json(row_shape)}, {"rows", json(std::move(of_files))}});
    const std::string text = document.dump();
    const part whole = std::as_bytes(std::span(text));
    PENSTOCK_TRY(put(*files_, (fs::path(folder) / kSidecar).string(), {&whole, 1}));
  }
  return {};
}

std::optional<std::string> shard_writer::manifest_path() const {
  if (!options_.manifest) return std::nullopt;
  return (fs::path(pattern_.folder()) / *options_.manifest).string();
}

result<> shard_writer::write_array_manifest() const {
  const std::string path = *manifest_path();
  const std::string folder = fs::path('/' + key_of_path(path)).parent_path().string();
  const shard_files_context with{options_.context, files_, syncs()};
  PENSTOCK_ASSIGN(const std::string text, array_manifest(with, folder, paths_, checksums_, *descr_));
  const part whole = std::as_bytes(std::span(text));
  return put(*files_, path, {&whole, 1});
}

result<> shard_writer::write_manifest() const {
  const std::string path = *manifest_path();
  const std::string folder = '/' + key_of_path(pattern_.folder());
  const std::string within = folder == "/" ? folder : folder + '/';
  std::vector<std::string> keys;
  for (const std::string& each : paths_) keys.push_back(('/' + key_of_path(each)).substr(within.size()));
  shard_options how;
  how.context = options_.context;
  if (is_raw(pattern_.suffix())) {
    how.raw.emplace();
    how.raw->dtype = *descr_;
    how.raw->row_shape = row_shape_;
    how.raw->rows.assign(rows_.begin(), rows_.end());
  }
  PENSTOCK_ASSIGN(const array written, open_shards(open_file_store(folder), std::move(keys), how));
  const bool as_json = path.ends_with(".json");
  // A manifest in the folder of the files is moved together with them.
  const std::string root = options_.manifest->find('/') == std::string::npos ? "." : folder;
  PENSTOCK_ASSIGN(const std::vector<std::byte> bytes,
                  save_manifest(written, root, as_json ? manifest_form::json : manifest_form::binary, checksums_));
  const part whole(bytes);
  return put(*files_, path, {&whole, 1});
}

result<> shard_writer::sync() const {
  if (!syncs()) return {};
  return sync_names(paths_);
}

result<> shard_writer::remove_left_over() const {
  if (paths_.empty()) return {};
  PENSTOCK_ASSIGN(const std::vector<std::string> left, pattern_.left_over(paths_.size()));
  if (left.empty()) return {};
  if (const auto manifest = manifest_path(); manifest && syncs()) PENSTOCK_TRY(sync_names({&*manifest, 1}));
  for (const std::string& path : left) {
    std::error_code failed;
    if (!fs::is_directory(fs::symlink_status(path, failed))) {
      fs::remove(path, failed);
    } else if (fs::is_regular_file(fs::path(path) / "zarr.json", failed) ||
               fs::is_regular_file(fs::path(path) / ".zarray", failed)) {
      fs::remove_all(path, failed);
    } else {
      continue;  // a folder of another owner
    }
    if (failed) return write_failure(failed.value(), "removing '" + path + "'");
  }
  return {};
}

result<> shard_writer::close() {
  if (paths_.empty()) return {};
  if (is_raw(pattern_.suffix())) PENSTOCK_TRY(write_sidecars());
  // Each change is on the storage device before the next one, which depends on it: files, manifest, removals.
  PENSTOCK_TRY(sync());
  if (options_.manifest) PENSTOCK_TRY(is_array_shard(pattern_.suffix()) ? write_array_manifest() : write_manifest());
  return remove_left_over();
}

}  // namespace penstock::inline v0
