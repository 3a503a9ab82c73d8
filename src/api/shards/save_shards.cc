#include <penstock/shard_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "api/shards/shard_files.h"
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

// The local files that an array is read from. For an archive, a path in it.
void visit_files(const array& from, const std::function<void(const std::string&)>& visit) {
  const array_state& state = from.state();
  if (state.references != nullptr) {
    for (const std::string& each : referenced_files(from)) visit(each);
    return;
  }
  const auto* const joined = dynamic_cast<const joined_layout*>(state.layout.get());
  const std::uint64_t objects = joined != nullptr ? joined->objects() : state.layout->write_grid().cells();
  std::string key;
  for (object_id object = 0; object < objects; ++object) {
    state.layout->key(object, key);
    if (const std::string path = path_of(*state.store, state.prefix + key); !path.empty()) visit(path);
  }
}

// Each file is written before the rows of the next are read: replacing a file of the array would destroy rows that are
// still to be read.
result<> refuse_own_files(const array& from, const shard_pattern& names, std::uint64_t count) {
  PENSTOCK_ASSIGN(std::vector<std::string> changed, names.left_over(count));
  for (std::uint64_t i = 0; i < count; ++i) changed.push_back(names.path(i));
  real_paths real;
  std::unordered_map<std::string, std::string> targets;  // maps a real path to the name
  for (const std::string& each : changed) targets.emplace(real.of('/' + key_of_path(each)), each);
  std::set<std::string> met;
  visit_files(from, [&](const std::string& path) {
    // The file, and the folders above it: a shard may be in the folder of a Zarr array, or in an archive.
    for (fs::path at = real.of(path); at.has_relative_path(); at = at.parent_path())
      if (const auto found = targets.find(at.string()); found != targets.end()) met.insert(found->second);
  });
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
    return error(errc::invalid_argument, "give the rows of each shard or the number of shards, one of them");
  if ((rows && *rows == 0) || (shards && *shards == 0))
    return error(errc::invalid_argument, "rows and shards are at least 1");
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

result<std::vector<std::string>> save_shards(const array& from, std::string_view pattern,
                                             const save_shards_options& options) {
  const extents& shape = from.shape();
  const auto named = [&](error why) { return std::move(why).note("array '" + from.uri() + "'"); };
  if (shape.empty()) return named(error(errc::invalid_argument, "an array without dimensions has no rows"));
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> edges, shard_edges(shape[0], options.rows, options.shards));
  shard_writer_options how = options;
  if (!how.context) how.context = from.context();
  PENSTOCK_ASSIGN(shard_writer writer, shard_writer::make(pattern, how));
  PENSTOCK_TRY(refuse_own_files(from, writer.pattern(), edges.size() - 1));
  std::uint64_t row_bytes = from.type().item_bytes(), most = 0, bytes = 0;
  for (std::size_t d = 1; d < shape.size(); ++d) row_bytes = saturating_mul(row_bytes, shape[d]);
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) most = std::max(most, edges[i + 1] - edges[i]);
  if (!checked_mul(most, row_bytes, bytes))
    return named(error(errc::invalid_argument, "the rows of a shard have more than 2^64 bytes"));
  PENSTOCK_ASSIGN(const output_block memory, from.context()->state().outputs().take(bytes));
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    basic_selection which;
    which.items = {slice{static_cast<std::int64_t>(edges[i]), static_cast<std::int64_t>(edges[i + 1]), {}}};
    extents rows = shape;
    rows[0] = edges[i + 1] - edges[i];
    const auto view = tensor_view::contiguous(memory.data(), from.type(), rows);
    PENSTOCK_TRY(from.read(which, view));
    PENSTOCK_TRY(writer.write({view, {}}));
  }
  PENSTOCK_TRY(writer.close());
  return std::vector<std::string>(writer.paths().begin(), writer.paths().end());
}

}  // namespace penstock::inline v0
