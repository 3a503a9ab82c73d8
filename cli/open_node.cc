#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include <penstock/open.h>
#include <penstock/place.h>
#include "array/chunk_grid.h"
#include "engine/array_state.h"
#include "verbs.h"

namespace penstock::inline v0::cli {

namespace {

/// A group that the library opened.
class library_group final : public opened_group {
 public:
  /// \param others  Opens members that the library refuses; null: they are refused.
  library_group(group of, const opener* others, unsigned threads)
      : group_(std::move(of)), others_(others), threads_(threads) {}
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
};

opened as_opened(node found, const opener* others, unsigned threads) {
  if (auto* a = std::get_if<array>(&found)) return std::move(*a);
  return std::make_shared<const library_group>(std::get<group>(std::move(found)), others, threads);
}

result<opened> library_group::open(const std::string& name) const {
  result<node> found = penstock::open(group_, name);
  if (found.ok()) return as_opened(std::move(found).value(), others_, threads_);
  if (found.error().code() == errc::unsupported && others_ != nullptr)
    return (*others_)(group_.uri() + "/" + name, threads_);
  return std::move(found).error();
}

/// The file that `uri` names or leads into: "model.nc" of "model.nc/t2m". Empty if there is none.
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

/// True if `failure` says that the library found nothing that it opens, so that another opener may.
bool is_unknown(const error& failure) {
  return failure.code() == errc::not_found || failure.code() == errc::unsupported;
}

}  // namespace

result<opened> open_node(const session& speak, const std::string& uri, unsigned threads) {
  context_options settings;
  settings.threads = threads;
  open_options options;
  options.mode = open_mode::read;  // no verb writes to what it opens: `copy` writes to a place
  PENSTOCK_ASSIGN(options.context, context::make(settings));
  result<node> found = open(uri, options);
  if (found.ok()) return as_opened(std::move(found).value(), speak.others, threads);
  if (!is_unknown(found.error())) return std::move(found).error();
  if (speak.others != nullptr) return (*speak.others)(uri, threads);
  std::error_code none;
  const bool remote = uri.find("://") != std::string::npos;
  if (!remote && !std::filesystem::exists(file_part(uri), none)) return std::move(found).error();
  try_in_python(speak.argc, speak.argv);
  return std::move(found).error().note(
      "Parquet and Arrow files, and what the library does not read of HDF5, are opened by the Python package, which is "
      "not installed");
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
