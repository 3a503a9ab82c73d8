// Creating by name: which format, and where.
#include <penstock/create.h>
#include <penstock/place.h>

#include <utility>

#include "driver/registry.h"
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {

result<array> create_array(std::string_view uri, const create_options& options) {
  create_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  const bool whole = prefix_of(options.path).empty();
  const std::string_view name = whole ? uri : std::string_view(options.path);
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*how.context, options.format, name));
  if (driver == nullptr) PENSTOCK_TRY(check_new_name(name));
  PENSTOCK_ASSIGN(place found, find_place(uri, {how.context, {}, whole && driver != nullptr}));
  how.path = found.path + "/" + options.path;
  how.format = driver == nullptr ? "zarr" : std::string(driver->name());
  return create_array(std::move(found.store), how);
}

result<array> create_array(std::shared_ptr<store> in, const create_options& options) {
  if (options.format.empty() || options.format == "zarr") return create_zarr_array(std::move(in), options);
  create_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*how.context, how.format, how.path));
  const std::string prefix = prefix_of(how.path);
  new_location at;
  at.context = how.context;
  at.path = prefix.empty() ? prefix : prefix.substr(0, prefix.size() - 1);
  at.uri = child_uri(in->uri(), prefix);
  at.to = std::move(in);
  return create_at(std::move(at), *driver, how);
}

}  // namespace penstock::inline v0
