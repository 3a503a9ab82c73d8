#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "api/array_state.h"
#include "array/chunk_grid.h"
#include "verbs.h"

namespace penstock::inline v0::cli {

result<node> open_node(const std::string& uri, unsigned threads) {
  context_options settings;
  settings.threads = threads;
  open_options options;
  PENSTOCK_ASSIGN(options.context, context::make(settings));
  result<node> found = open(uri, options);
  std::error_code none;
  if (!found.ok() && found.error().code() == errc::not_found && std::filesystem::is_regular_file(uri, none)) {
    return std::move(found).error().note(
        "HDF5, NetCDF4, Parquet, Arrow and references are opened by Python's penstock.open");
  }
  return found;
}

result<array> open_one(const std::string& uri, unsigned threads) {
  PENSTOCK_ASSIGN(node found, open_node(uri, threads));
  if (auto* a = std::get_if<array>(&found)) return std::move(*a);
  error wrong(errc::invalid_argument, fmt::format("'{}' is a group, not an array", uri));
  if (auto names = std::get<group>(found).keys(); names.ok() && !names->empty()) {
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
    if (axis.is_uniform()) {
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
