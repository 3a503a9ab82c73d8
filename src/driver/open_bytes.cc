#include <penstock/array.h>
#include <penstock/open.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "driver/node_mode.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "store/span_store.h"

namespace penstock::inline v0 {

result<node> open(std::span<const std::byte> bytes, const open_options& options, std::shared_ptr<const void> owner) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  const std::string key = "file";
  location at;
  at.context = options.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, context::make());
  }
  at.path = key;
  at.from = std::make_shared<span_store>(key, bytes, std::move(owner));
  at.uri = child_uri(at.from->uri(), key + "/");
  auto found = find_node({std::move(at), options.path}, options, search_order::object_first);
  if (!found.ok() && found.error().code() == errc::not_found && options.path.empty())
    return error(errc::unsupported,
                 fmt::format("{} bytes that do not begin like a file of a known single-file format", bytes.size()));
  if (!found.ok()) return std::move(found).error();
  return in_mode(open_found(std::move(*found), options), options.mode);
}

result<array> open_array(std::span<const std::byte> bytes, const open_options& options,
                         std::shared_ptr<const void> owner) {
  PENSTOCK_ASSIGN(node found, open(bytes, options, std::move(owner)));
  if (auto* const made = std::get_if<array>(&found)) return std::move(*made);
  return error(errc::invalid_argument, "these bytes contain a group: the path must name an array in it");
}

}  // namespace penstock::inline v0
