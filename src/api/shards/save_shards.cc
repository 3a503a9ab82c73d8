#include <penstock/shard_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/shards/shard_files.h"
#include "array/check_view.h"
#include "array/chunk_grid.h"
#include "base/checked.h"
#include "driver/open_reference.h"
#include "engine/array_state.h"
#include "format/joined/joined_layout.h"
#include "store/joined_store.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

/// The most files that an error names.
constexpr std::size_t kMostFilesNamed = 5;
/// The most files of one array. Their names and rows are lists in memory.
constexpr std::uint64_t kMostFiles = std::uint64_t{1} << 24;
/// Names that are compared between two questions whether to go on.
constexpr std::uint64_t kVisitedAtOnce = std::uint64_t{1} << 16;

/// Local paths with links resolved; folders that do not exist are unchanged.
class real_paths {
 public:
  std::string of(const std::string& path) {
    const fs::path given(path);
    const auto [at, added] = folders_.try_emplace(given.parent_path().string());
    if (added) {
      std::error_code failed;
      at->second = fs::weakly_canonical(at->first, failed).string();
      if (failed) at->second = at->first;
    }
    return at->second + '/' + given.filename().string();
  }

 private:
  std::unordered_map<std::string, std::string> folders_;
};

// The local path that the key of a store names; empty for other stores.
std::string path_of(const store& from, const std::string& key) {
  std::string uri = dynamic_cast<const joined_store*>(&from) != nullptr ? key : from.uri() + '/' + key;
  for (const std::string_view scheme : {"file://", "zip://"})
    if (uri.starts_with(scheme)) return uri.substr(scheme.size());
  return {};
}

// The local files that an array is read from, until `visit` fails. For an archive, a path in it.
result<> visit_files(const array& from, const std::function<result<>(const std::string&)>& visit) {
  const array_state& state = from.state();
  if (state.references != nullptr) {
    for (const std::string& each : referenced_files(from)) PENSTOCK_TRY(visit(each));
    return {};
  }
  const auto* const joined = dynamic_cast<const joined_layout*>(state.layout.get());
  const std::uint64_t objects = joined != nullptr ? joined->objects() : state.layout->write_grid().cells();
  std::string key;
  for (object_id object = 0; object < objects; ++object) {
    state.layout->key(object, key);
    if (const std::string path = path_of(*state.store, state.prefix + key); !path.empty()) PENSTOCK_TRY(visit(path));
  }
  return {};
}

// Each file is written before the rows of the next are read: replacing a file of the array would destroy rows that are
// still to be read. `go_on` is called now and then, because an array may have a file for each of very many chunks.
result<> refuse_own_files(const array& from, const shard_pattern& names, std::uint64_t count,
                          const std::function<result<>()>& go_on) {
  PENSTOCK_ASSIGN(std::vector<std::string> changed, names.left_over(count));
  for (std::uint64_t i = 0; i < count; ++i) changed.push_back(names.path(i));
  real_paths real;
  std::unordered_map<std::string, std::string> targets;  // maps a real path to the name
  std::unordered_set<std::string> target_folders;
  for (const std::string& each : changed) {
    const std::string path = real.of('/' + key_of_path(each));
    target_folders.insert(path.substr(0, path.rfind('/')));
    targets.emplace(path, each);
  }
  std::set<std::string> met;
  const auto meet = [&](const std::string& path) {
    if (const auto found = targets.find(path); found != targets.end()) met.insert(found->second);
  };
  std::uint64_t visited = 0;
  std::string folder, real_folder;
  bool has_targets = false;
  const auto all = visit_files(from, [&](const std::string& path) -> result<> {
    if (++visited % kVisitedAtOnce == 0) PENSTOCK_TRY(go_on());
    const std::size_t name = path.rfind('/') + 1;
    if (path.compare(0, name, folder) != 0) {
      folder = path.substr(0, name);
      const std::string here = real.of(path);
      real_folder = here.substr(0, here.rfind('/'));
      has_targets = target_folders.contains(real_folder);
      // The folders above, too: a shard may be in the folder of a Zarr array, or in an archive.
      for (fs::path at = real_folder; at.has_relative_path(); at = at.parent_path()) meet(at.string());
    }
    if (has_targets) meet(real_folder + '/' + path.substr(name));
    return {};
  });
  if (!all.ok()) return all.error().clone();
  if (met.empty()) return {};
  std::string named;
  for (const std::string& each : met) {
    if (&each != &*met.begin()) named += ", ";
    named += "'" + each + "'";
    if (std::count(named.begin(), named.end(), '\'') >= static_cast<std::ptrdiff_t>(2 * kMostFilesNamed)) break;
  }
  return error(errc::invalid_argument,
               fmt::format("{} of the array's own files would be replaced or removed: {}; write under other names, or "
                           "read the array first",
                           met.size(), named));
}

}  // namespace

result<std::vector<std::uint64_t>> shard_edges(std::uint64_t length, std::optional<std::uint64_t> rows,
                                               std::optional<std::uint64_t> shards) {
  if (rows.has_value() == shards.has_value())
    return error(errc::invalid_argument, "give either the rows of each shard or the number of shards");
  if ((rows && *rows == 0) || (shards && *shards == 0))
    return error(errc::invalid_argument, "rows and shards are at least 1");
  if (const std::uint64_t count = rows ? ceil_div(length, *rows) : *shards; count > kMostFiles)
    return error(errc::invalid_argument,
                 fmt::format("an array is written as at most {} files, not as {}", kMostFiles, count));
  std::vector<std::uint64_t> out{0};
  if (rows) {
    while (length - out.back() > *rows) out.push_back(out.back() + *rows);
    out.push_back(length);
    return out;
  }
  const std::uint64_t each = length / *shards, rest = length % *shards;
  for (std::uint64_t i = 1; i <= *shards; ++i) out.push_back(i * each + i * rest / *shards);
  return out;
}

namespace {

/// Writes the files of cut values, and reports how far it is.
class cut_writer {
 public:
  static result<cut_writer> make(std::string_view pattern, const extents& shape, std::uint64_t item_bytes,
                                 const save_shards_options& options) {
    PENSTOCK_ASSIGN(std::vector<std::uint64_t> edges, shard_edges(shape[0], options.rows, options.shards));
    PENSTOCK_ASSIGN(shard_writer files, shard_writer::make(pattern, options));
    cut_writer out(std::move(files), std::move(edges), options);
    for (std::size_t d = 1; d < shape.size(); ++d) item_bytes = saturating_mul(item_bytes, shape[d]);
    out.row_bytes_ = item_bytes;
    out.now_.total_bytes = saturating_mul(item_bytes, shape[0]);
    return out;
  }

  const shard_pattern& pattern() const noexcept { return files_.pattern(); }
  std::uint64_t row_bytes() const noexcept { return row_bytes_; }
  std::size_t count() const noexcept { return edges_.size() - 1; }
  std::uint64_t low(std::size_t which) const noexcept { return edges_[which]; }
  std::uint64_t rows(std::size_t which) const noexcept { return edges_[which + 1] - edges_[which]; }

  result<> write(const shard_values& values, std::uint64_t reported = 0) {
    const std::uint64_t rows = values.items.extents[0];
    create_options how = options_.arrays;
    if (const auto found = options_.arrays_of_rows.find(rows); found != options_.arrays_of_rows.end())
      how = found->second;
    how.overwrite = true;
    const auto path = files_.write(values, how);
    if (!path.ok()) return path.error().clone();
    return report(rows * row_bytes_ - reported);
  }
  /// The callback for an operation that counts as `bytes`.
  progress_fn part_of(std::uint64_t bytes) const {
    if (!options_.progress) return {};
    return [this, bytes](const read_progress& of) {
      const double share =
          of.total_bytes == 0 ? 1 : static_cast<double>(of.done_bytes) / static_cast<double>(of.total_bytes);
      return options_.progress(
          {now_.done_bytes + static_cast<std::uint64_t>(share * static_cast<double>(bytes)), now_.total_bytes});
    };
  }
  result<> report(std::uint64_t bytes) {
    now_.done_bytes += bytes;
    if (!options_.progress || options_.progress(now_)) return {};
    return error(errc::cancelled, "the caller stopped it");
  }
  result<std::vector<std::string>> close() {
    PENSTOCK_TRY(files_.close());
    return std::vector<std::string>(files_.paths().begin(), files_.paths().end());
  }

 private:
  cut_writer(shard_writer files, std::vector<std::uint64_t> edges, const save_shards_options& options)
      : files_(std::move(files)), edges_(std::move(edges)), options_(options) {}

  shard_writer files_;
  std::vector<std::uint64_t> edges_;
  const save_shards_options& options_;
  std::uint64_t row_bytes_ = 0;
  read_progress now_;
};

}  // namespace

result<std::vector<std::string>> save_shards(const shard_values& values, std::string_view pattern,
                                             const save_shards_options& options) {
  const tensor_view& items = values.items;
  if (items.extents.empty()) return error(errc::invalid_argument, "an array without dimensions has no rows");
  PENSTOCK_TRY(check_view(items, "the value"));
  PENSTOCK_ASSIGN(cut_writer writer, cut_writer::make(pattern, items.extents, items.type.item_bytes(), options));
  for (std::size_t i = 0; i < writer.count(); ++i) {
    shard_values rows = values;
    rows.items.data += static_cast<std::int64_t>(writer.low(i)) * items.strides[0];
    rows.items.extents[0] = writer.rows(i);
    PENSTOCK_TRY(writer.write(rows));
  }
  return writer.close();
}

result<std::vector<std::string>> save_shards(const array& from, std::string_view pattern,
                                             const save_shards_options& options) {
  const extents& shape = from.shape();
  const auto named = [&](error why) { return std::move(why).note("array '" + from.uri() + "'"); };
  if (shape.empty()) return named(error(errc::invalid_argument, "an array without dimensions has no rows"));
  if (from.type().variable_length())
    return named(
        error(errc::unsupported, fmt::format("shards have elements of fixed size, {} has none", from.type().name())));
  save_shards_options how = options;
  if (!how.context) how.context = from.context();
  PENSTOCK_ASSIGN(cut_writer writer, cut_writer::make(pattern, shape, from.type().item_bytes(), how));
  PENSTOCK_TRY(refuse_own_files(from, writer.pattern(), writer.count(), [&] { return writer.report(0); }));
  std::uint64_t most = 0, bytes = 0;
  for (std::size_t i = 0; i < writer.count(); ++i) most = std::max(most, writer.rows(i));
  if (!checked_mul(most, writer.row_bytes(), bytes))
    return named(error(errc::invalid_argument, "the rows of a shard have more than 2^64 bytes"));
  PENSTOCK_ASSIGN(const output_block memory, from.context()->state().outputs().take(bytes));
  for (std::size_t i = 0; i < writer.count(); ++i) {
    const auto low = static_cast<std::int64_t>(writer.low(i));
    const basic_selection which{{slice{low, low + static_cast<std::int64_t>(writer.rows(i)), {}}}};
    extents rows = shape;
    rows[0] = writer.rows(i);
    shard_values values{tensor_view::contiguous(memory.data(), from.type(), rows), how.descr, how.mask};
    const std::uint64_t half = rows[0] * writer.row_bytes() / 2;
    read_options reading;
    reading.progress = writer.part_of(half);
    PENSTOCK_TRY(from.read(which, values.items, reading));
    PENSTOCK_TRY(writer.report(half));
    PENSTOCK_TRY(writer.write(values, half));
  }
  return writer.close();
}

}  // namespace penstock::inline v0
