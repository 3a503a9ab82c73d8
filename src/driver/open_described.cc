#include "driver/open_described.h"

#include <utility>

#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

result<array> open_described(std::shared_ptr<const store> from, const open_options& options,
                             const std::vector<std::pair<std::string, std::string>>& documents,
                             beyond_edge after_writes) {
  node_place at;
  at.context = options.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.prefix = prefix_of(options.path);
  at.uri = child_uri(from->uri(), at.prefix);
  at.from = std::move(from);
  at.cache_unversioned_indexes = options.cache_unversioned_indexes;
  at.after_writes = after_writes;
  const auto note = [uri = at.uri] { return "opening '" + uri + "'"; };
  auto metadata = parse_array_documents(documents);
  if (!metadata.ok()) return std::move(metadata).error().note(note());
  auto made = make_node(std::move(at), std::move(*metadata));
  if (!made.ok()) return std::move(made).error().note(note());
  return std::get<array>(std::move(*made));
}

}  // namespace penstock::inline v0
