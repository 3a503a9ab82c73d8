#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include <penstock/open.h>
#include <penstock/place.h>
#include "array/chunk_grid.h"
#include "base/nearest_word.h"
#include "engine/array_state.h"
#include "verbs.h"

namespace penstock::inline v0::cli {

namespace {

constexpr std::size_t kMostNames = 10'000;  // names that a mistyped one is compared with

/// Tries another opener for a target that the library refused: if that does not find it either, the refusal is
/// returned.
result<opened> open_by_other(const opener& other, const std::string& uri, unsigned threads, const std::string& storage,
                             error refusal) {
  result<opened> found = other(uri, threads, storage);
  if (!found.ok() && found.error().code() == errc::not_found) return refusal;
  return found;
}

/// A group that the library opened.
class library_group final : public opened_group {
 public:
  /// \param others  Opens members that the library does not open; null: they are refused.
  library_group(group of, const opener* others, unsigned threads, std::string storage)
      : group_(std::move(of)), others_(others), threads_(threads), storage_(std::move(storage)) {}
  std::string uri() const override { return group_.uri(); }
  std::string format() const override { return group_.format(); }
  std::string attributes_json() const override { return group_.attributes_json(); }
  bool consolidated() const override { return group_.consolidated(); }
  std::string identity() const override { return group_.state().identity; }
  result<std::vector<std::string>> keys() const override { return group_.keys(); }
  result<opened> open(const std::string& name) const override;
  const group* own() const override { return &group_; }
  result<copy_report> copy_to(const std::string& to, const copy_options& options) const override {
    PENSTOCK_ASSIGN(const place target, find_place(to));
    return copy(group_, target, options);
  }

 private:
  group group_;
  const opener* others_;
  unsigned threads_;
  std::string storage_;
};

opened as_opened(node found, const opener* others, unsigned threads, std::string storage) {
  if (auto* a = std::get_if<array>(&found)) return std::move(*a);
  return std::make_shared<const library_group>(std::get<group>(std::move(found)), others, threads, std::move(storage));
}

result<opened> library_group::open(const std::string& name) const {
  result<node> found = penstock::open(group_, name);
  if (found.ok()) return as_opened(std::move(found).value(), others_, threads_, storage_);
  if (found.error().code() == errc::unsupported && others_ != nullptr)
    return open_by_other(*others_, group_.uri() + "/" + name, threads_, storage_, std::move(found).error());
  return std::move(found).error();
}

/// The file that `uri` names, or that contains its target: "model.nc" for "model.nc/t2m". Empty if it does not exist.
std::filesystem::path file_part(const std::string& uri) {
  std::error_code none;
  std::filesystem::path path = uri.starts_with("file://") ? uri.substr(7) : uri;
  while (!path.empty() && !std::filesystem::exists(path, none)) {
    const std::filesystem::path parent = path.parent_path();
    if (parent == path) return {};
    path = parent;
  }
  return std::filesystem::is_regular_file(path, none) || path == uri ? path : std::filesystem::path();
}

/// Whether `failure` means that the library does not open the target, so that another opener may try.
bool is_unknown(const error& failure) {
  return failure.code() == errc::not_found || failure.code() == errc::unsupported;
}

result<opened> open_found(const session& speak, const std::string& uri, unsigned threads, bool may_replace) {
  context_options settings;
  settings.threads = threads;
  open_options options;
  options.mode = open_mode::read;  // no verb writes to the node that it opens: `copy` writes to a location
  PENSTOCK_ASSIGN(settings, options_of_environment(std::move(settings)));
  PENSTOCK_ASSIGN(options.context, context::make(settings));
  PENSTOCK_ASSIGN(options.remote, speak.storage.options());
  if (speak.storage.allow_local) options.allow_local = true;
  result<node> found = open(uri, options);
  const std::string storage = speak.storage.document().dump();
  if (found.ok()) return as_opened(std::move(found).value(), speak.others, threads, storage);
  if (!is_unknown(found.error())) return std::move(found).error();
  if (speak.others != nullptr) return open_by_other(*speak.others, uri, threads, storage, std::move(found).error());
  if (!may_replace) return std::move(found).error();
  std::error_code none;
  const bool remote = uri.find("://") != std::string::npos;
  if (!remote && !std::filesystem::exists(file_part(uri), none)) return std::move(found).error();
  try_in_python(speak.argc, speak.argv);
  return std::move(found).error().note(
      "the Python package, which is not installed, opens more: Parquet and Arrow, numcodecs' codecs");
}

/// Names that exist next to `uri`: of its group's members, or of its folder's files. Empty if neither exists.
std::vector<std::string> names_next_to(const session& speak, const std::string& parent) {
  if (auto found = open_found(speak, parent, 0, false); found.ok()) {
    if (const auto* const g = std::get_if<std::shared_ptr<const opened_group>>(&*found)) {
      auto names = (*g)->keys();
      return names.ok() ? std::move(*names) : std::vector<std::string>();
    }  // otherwise a folder of files is one array
  }
  std::vector<std::string> out;
  if (parent.find("://") != std::string::npos) return out;
  std::error_code failed;
  std::filesystem::directory_iterator entry(parent, failed);
  for (; !failed && entry != std::filesystem::directory_iterator() && out.size() < kMostNames; entry.increment(failed))
    out.push_back(entry->path().filename().string());
  return out;
}

/// The URI that a path with one slash after its scheme was meant to be; empty for other paths.
std::string uri_meant_by(const std::string& path) {
  for (const std::string_view scheme : {"http:", "https:", "s3:", "gs:"}) {
    if (!path.starts_with(scheme)) continue;
    const std::string rest = path.substr(scheme.size());
    if (rest.starts_with('/') && !rest.starts_with("//")) return fmt::format("{}/{}", scheme, rest);
  }
  return {};
}

}  // namespace

result<opened> open_node(const session& speak, const std::string& uri, unsigned threads) {
  auto found = open_found(speak, uri, threads, true);
  if (found.ok() || found.error().code() != errc::not_found) return found;
  if (const std::string meant = uri_meant_by(uri); !meant.empty())
    return std::move(found).error().note(fmt::format("did you mean '{}'?", meant));
  std::string path = uri;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  if (parent.ends_with(":/")) return found;  // only a scheme and a host remain
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string like = nearest_word(name, names_next_to(speak, parent));
  if (like.empty()) return found;
  const std::string whole = slash == std::string::npos ? like : path.substr(0, slash + 1) + like;
  return std::move(found).error().note(fmt::format("did you mean '{}'?", whole));
}

result<array> open_one(const session& speak, const std::string& uri, unsigned threads) {
  PENSTOCK_ASSIGN(opened found, open_node(speak, uri, threads));
  if (auto* a = std::get_if<array>(&found)) return std::move(*a);
  error wrong(errc::invalid_argument, fmt::format("'{}' is a group, not an array", uri));
  if (auto names = std::get<std::shared_ptr<const opened_group>>(found)->keys(); names.ok() && !names->empty()) {
    names->resize(std::min<std::size_t>(names->size(), 20));
    wrong.note(fmt::format("it holds {}", fmt::join(*names, ", ")));
  }
  return wrong;
}

grid_counts count_grid(const array& a) {
  const auto cells_of = [](const chunk_grid& grid) {
    double cells = 1;
    for (std::size_t d = 0; d < grid.rank(); ++d) cells *= static_cast<double>(grid.axis(d).cells());
    return cells;
  };
  const chunk_layout& layout = *a.state().layout;
  return {cells_of(layout.grid()), cells_of(layout.write_grid())};
}

json chunk_lengths_json(const array& a) {
  const chunk_grid& grid = a.state().layout->grid();
  bool regular = true;
  json::array_t axes;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    const grid_axis& axis = grid.axis(d);
    json::array_t lengths;
    if (axis.is_uniform() || (axis.cells() == 1 && axis.codec_length(0) == a.chunks()[d])) {
      axes.emplace_back(a.chunks()[d]);
      continue;
    }
    regular = false;
    for (std::uint64_t i = 0; i < axis.cells(); ++i) lengths.emplace_back(axis.codec_length(i));
    axes.emplace_back(std::move(lengths));
  }
  return regular ? json() : json(std::move(axes));
}

}  // namespace penstock::inline v0::cli
