#include <fmt/format.h>

#include "verbs.h"

namespace penstock::inline v0::cli {

result<node> open_node(const std::string& uri, unsigned threads) {
  context_options settings;
  settings.threads = threads;
  open_options options;
  PENSTOCK_ASSIGN(options.context, context::make(settings));
  return open(uri, options);
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
  const extents& shape = a.shape();
  const extents& object = a.shards() != nullptr ? *a.shards() : a.chunks();
  grid_counts counts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto blocks = [&](std::uint64_t size) {
      return size == 0 ? 0.0 : static_cast<double>(shape[d] / size + (shape[d] % size != 0 ? 1 : 0));
    };
    counts.cells *= blocks(a.chunks()[d]);
    counts.objects *= blocks(object[d]);
  }
  return counts;
}

}  // namespace penstock::inline v0::cli
